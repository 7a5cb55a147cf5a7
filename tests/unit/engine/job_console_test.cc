// SPDX-License-Identifier: Apache-2.0
// The user's side of a job: signals, and the order of shutdown.
#include "launcher/engine/job_console.h"

#include <gtest/gtest.h>
#include <signal.h>
#include <unistd.h>

#include "base/file.h"
#include "tests/fakes/fake_transport.h"
#include "tests/fakes/loop_runner.h"
#include "tests/fakes/temp_directory.h"

namespace hvdray {
namespace {

class JobConsoleTest : public testing::Test, public AgentSet::Owner, public JobConsole::Owner {
 protected:
  JobConsoleTest() : loop_(std::move(*Loop::Create())), transport_(*loop_) {
    spec_.np.Set(1, "test");
    spec_.is_quiet.Set(true, "test");
    transport_.on_agent = [](const std::string&, FakeAgent& agent) { agent.SayHello(); };
    agents_.emplace(*loop_, transport_, std::vector<std::string>{"a"}, "test", wire::Welcome(),
                    *this);
  }

  void OnReady(int /*host*/, const wire::HostFacts& /*facts*/) override { ++ready_; }
  void OnLost(int /*host*/, Status why) override { ADD_FAILURE() << why.ToString(); }
  void OnMessage(int /*host*/, wire::Message&& /*message*/) override {}

  void OnUserEvent(UserEvent event) override {
    const auto* signal = std::get_if<event::UserSignal>(&event);
    if (signal == nullptr) return;
    signals_.push_back(signal->signo);
    if (on_stop_) on_stop_();
  }
  void OnForwardSignal(int signo) override {
    forwarded_.push_back(signo);
    Finish();
  }
  void OnConsumed(int /*worker*/, uint32_t /*bytes*/) override {}

  Status Open() {
    Result<std::unique_ptr<JobConsole>> front =
        JobConsole::Open(*loop_, trace_, spec_, environment_, *agents_, *this);
    if (!front.ok()) return front.status();
    front_ = std::move(front).value();
    return {};
  }
  void StartAgents() {
    agents_->StartAll();
    ASSERT_TRUE(RunUntil(*loop_, [&] { return ready_ == 1; }));
  }
  void Finish() {
    front_->Finish(
        [this](const Status& drained) {
          EXPECT_TRUE(drained.ok()) << drained.ToString();
          steps_.push_back(transport_.agents["a"]->closed.empty() ? "drained" : "drained too late");
        },
        [this] { steps_.push_back("closed"); });
  }
  /// The carrier ends with its link, as a real one does.
  Watch EndCarrierWithLink() {
    return loop_->Every(std::chrono::milliseconds(1), [this] {
      if (transport_.agents["a"]->closed.empty()) return;
      transport_.agents["a"]->Vanish();
      transport_.Exit("a", Status());
    });
  }

  std::unique_ptr<Loop> loop_;
  FakeTransport transport_;
  Trace trace_{TimePoint(), {}, false};
  JobSpec spec_;
  Environment environment_;
  std::optional<AgentSet> agents_;
  std::unique_ptr<JobConsole> front_;
  int ready_ = 0;
  std::function<void()> on_stop_;
  std::vector<int> signals_;
  std::vector<int> forwarded_;
  std::vector<std::string> steps_;
};

TEST_F(JobConsoleTest, AnOutputDirectoryThatCannotBeMadeIsSaidAtOnce) {
  const TempDirectory temp;
  ASSERT_TRUE(WriteFileAtomically(temp / "file", "x").ok());
  spec_.output_filename.Set(temp / "file/out", "test");
  EXPECT_EQ(Open().code(), ErrorCode::kFileUnwritable);
}

TEST_F(JobConsoleTest, TheEndIsOutputThenAgentsThenTheLoop) {
  ASSERT_TRUE(Open().ok());
  StartAgents();
  const Watch carrier = EndCarrierWithLink();
  EXPECT_FALSE(front_->is_finishing());
  front_->Begin();
  Finish();
  front_->Run();
  EXPECT_TRUE(front_->is_finishing());
  EXPECT_EQ(steps_, (std::vector<std::string>{"drained", "closed"}));
  EXPECT_TRUE(transport_.agents["a"]->closed.empty() || transport_.agents["a"]->closed[0].ok());
}

TEST_F(JobConsoleTest, StopSignalsAreTheDriversUntilTheJobIsOver) {
  ASSERT_TRUE(Open().ok());
  StartAgents();
  const Watch carrier = EndCarrierWithLink();
  on_stop_ = [this] {
    if (signals_.size() == 1) {
      ::kill(::getpid(), SIGINT);
    } else {
      Finish();
    }
  };
  front_->Begin();
  ::kill(::getpid(), SIGTERM);
  front_->Run();
  EXPECT_EQ(signals_, (std::vector<int>{SIGTERM, SIGINT}));
  EXPECT_EQ(steps_.back(), "closed");
}

// The agent never ends, so the wait ends by the signal, or by its limit, which would be "closed".
TEST_F(JobConsoleTest, AStopSignalAfterTheEndLeavesAtOnce) {
  ASSERT_TRUE(Open().ok());
  StartAgents();
  front_->Begin();
  Finish();
  ::kill(::getpid(), SIGTERM);
  front_->Run();
  EXPECT_TRUE(signals_.empty());
  for (const std::string& step : steps_) EXPECT_NE(step, "closed");
}

TEST_F(JobConsoleTest, UserSignalsGoOnToTheWorkers) {
  ASSERT_TRUE(Open().ok());
  StartAgents();
  const Watch carrier = EndCarrierWithLink();
  front_->Begin();
  ::kill(::getpid(), SIGUSR1);
  front_->Run();
  EXPECT_EQ(forwarded_, std::vector<int>{SIGUSR1});
  EXPECT_TRUE(signals_.empty());
}

}  // namespace
}  // namespace hvdray
