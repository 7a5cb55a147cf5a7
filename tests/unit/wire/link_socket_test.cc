// SPDX-License-Identifier: Apache-2.0
// Two links over a real socketpair on one loop: what a launcher and an agent of this machine use.
#include <gtest/gtest.h>
#include <unistd.h>

#include "tests/fakes/fault_catalogue.h"
#include "tests/fakes/loop_runner.h"
#include "tests/unit/wire/sample_messages.h"
#include "wire/link.h"
#include "wire/message_codec.h"

namespace hvdray::wire {
namespace {

struct End final : Link::Owner {
  std::vector<Message> messages;
  std::optional<Status> closed;
  int rooms = 0;
  std::unique_ptr<Link> link;

  void OnMessage(Message&& message) override { messages.push_back(std::move(message)); }
  void OnClosed(Status status) override { closed = std::move(status); }
  void OnOutputRoom() override { ++rooms; }
};

std::unique_ptr<ByteStream> StreamOf(Loop& loop, UniqueFd fd) {
  UniqueFd copy(::dup(fd.get()));
  return MakeFdStream(loop, std::move(fd), std::move(copy));
}

class LinkSocketTest : public testing::Test {
 protected:
  void SetUp() override {
    loop_ = Loop::Create().value();
    auto [a, b] = MakeSocketPair().value();
    launcher_.link = MakeLink(*loop_, LinkRole::kLauncher, StreamOf(*loop_, std::move(a)));
    agent_.link = MakeLink(*loop_, LinkRole::kAgent, StreamOf(*loop_, std::move(b)));
  }

  void Greet() {
    launcher_.link->Start(launcher_);
    agent_.link->Start(agent_);
    agent_.link->Send({0, Hello{1, 1, "agent build", SampleFacts()}});
    launcher_.link->Send({0, Hello{1, 1, "launcher build", {}}});
    ASSERT_TRUE(RunUntil(
        *loop_, [this] { return launcher_.messages.size() == 1 && agent_.messages.size() == 1; }));
  }

  std::unique_ptr<Loop> loop_;
  End launcher_;
  End agent_;
};

TEST_F(LinkSocketTest, HellosPassBothWays) {
  Greet();
  EXPECT_EQ(std::get<Hello>(launcher_.messages[0].body).facts, SampleFacts());
  EXPECT_EQ(std::get<Hello>(agent_.messages[0].body).build, "launcher build");
}

TEST_F(LinkSocketTest, EveryMessageArrivesInOrderWithinItsLane) {
  Greet();
  std::vector<Message> control;
  for (uint32_t i = 0; i < 1000; ++i) {
    control.push_back({1, KvRequest{i, KvOp::kGet, 0, "scope", std::to_string(i), ""}});
    agent_.link->Send(control.back());
  }
  ASSERT_TRUE(RunUntil(*loop_, [&] { return launcher_.messages.size() == 1001; }));
  launcher_.messages.erase(launcher_.messages.begin());
  EXPECT_EQ(launcher_.messages, control);
}

TEST_F(LinkSocketTest, ControlOvertakesQueuedOutputAndGenerationStoppedDoesNot) {
  Greet();
  const std::string block(kMaxOutput, 'x');
  for (int i = 0; i < 64; ++i) agent_.link->Send({1, Output{0, StreamId::kStdout, false, block}});
  agent_.link->Send({1, GenerationStopped{0, 0}});
  agent_.link->Send({1, WorkerExited{0, {}, false}});
  EXPECT_FALSE(agent_.link->HasOutputRoom());
  ASSERT_TRUE(RunUntil(*loop_, [&] { return launcher_.messages.size() == 67; }));
  size_t exited = 0;
  while (!std::holds_alternative<WorkerExited>(launcher_.messages[exited].body)) ++exited;
  EXPECT_LT(exited, 16u) << "behind more output than the kernel and one hand-over hold";
  EXPECT_TRUE(std::holds_alternative<GenerationStopped>(launcher_.messages.back().body));
  EXPECT_EQ(agent_.rooms, 1);
  EXPECT_TRUE(agent_.link->HasOutputRoom());
  EXPECT_EQ(agent_.link->QueuedBytes(), 0u);
}

TEST_F(LinkSocketTest, CloseSendsAllThatIsQueuedAndThenBye) {
  Greet();
  const std::string block(kMaxOutput, 'x');
  for (int i = 0; i < 64; ++i) agent_.link->Send({1, Output{0, StreamId::kStdout, false, block}});
  bool is_done = false;
  agent_.link->Close(Bye{}, std::chrono::seconds(20), [&] { is_done = true; });
  ASSERT_TRUE(RunUntil(*loop_, [&] { return is_done && launcher_.closed.has_value(); }));
  EXPECT_EQ(launcher_.messages.size(), 65u);
  EXPECT_TRUE(launcher_.closed->ok());
  EXPECT_FALSE(agent_.closed.has_value());
}

TEST_F(LinkSocketTest, CloseEndsAtItsDeadlineWhenThePeerDoesNotRead) {
  auto [mine, other] = MakeSocketPair().value();
  auto agent = MakeLink(*loop_, LinkRole::kAgent, StreamOf(*loop_, std::move(mine)));
  End end;
  agent->Start(end);
  agent->Send({0, Hello{}});
  // The peer says Hello and then reads nothing.
  const std::string hello = EncodeMessage({0, Hello{}}).value();
  ASSERT_TRUE(WriteAll(other.get(), hello).ok());
  ASSERT_TRUE(RunUntil(*loop_, [&] { return end.messages.size() == 1; }));
  const std::string block(kMaxOutput, 'x');
  for (int i = 0; i < 64; ++i) agent->Send({1, Output{0, StreamId::kStdout, false, block}});
  bool is_done = false;
  agent->Close(Bye{}, std::chrono::milliseconds(20), [&] { is_done = true; });
  EXPECT_TRUE(RunUntil(*loop_, [&] { return is_done; }));
}

TEST_F(LinkSocketTest, PeerThatVanishesIsLost) {
  Greet();
  agent_.link.reset();
  ASSERT_TRUE(RunUntil(*loop_, [&] { return launcher_.closed.has_value(); }));
  EXPECT_EQ(launcher_.closed->code(), ErrorCode::kAgentLost);
}

TEST_F(LinkSocketTest, LastWordsOfAPeerAreReadThoughWritingToItFails) {
  Greet();
  agent_.link->Close(Bye{205, "disk full"}, std::chrono::seconds(20), nullptr);
  agent_.link.reset();
  for (int i = 0; i < 100; ++i) launcher_.link->Send({1, Signal{-1, 15}});
  ASSERT_TRUE(RunUntil(*loop_, [&] { return launcher_.closed.has_value(); }));
  EXPECT_EQ(launcher_.closed->message(), "disk full");
}

TEST_F(LinkSocketTest, HeartbeatsKeepAnIdleLinkAlive) {
  Greet();
  using std::chrono::milliseconds;
  launcher_.link->StartHeartbeat(milliseconds(5), milliseconds(2000));
  agent_.link->StartHeartbeat(milliseconds(5), milliseconds(2000));
  int ticks = 0;
  const Watch tick = loop_->Every(milliseconds(5), [&] { ++ticks; });
  ASSERT_TRUE(RunUntil(*loop_, [&] { return ticks == 10; }));
  EXPECT_FALSE(launcher_.closed.has_value());
  EXPECT_EQ(launcher_.messages.size(), 1u) << "a Heartbeat is the link's own";
}

TEST_F(LinkSocketTest, SilentPeerIsLostAndPausedPeerIsNot) {
  Greet();
  using std::chrono::milliseconds;
  agent_.link->Send({0, Heartbeat{true}});
  launcher_.link->StartHeartbeat(milliseconds(2), milliseconds(10));
  int ticks = 0;
  const Watch tick = loop_->Every(milliseconds(5), [&] { ++ticks; });
  ASSERT_TRUE(RunUntil(*loop_, [&] { return ticks == 10; }));
  EXPECT_FALSE(launcher_.closed.has_value());
  agent_.link->Send({0, Heartbeat{false}});
  ASSERT_TRUE(RunUntil(*loop_, [&] { return launcher_.closed.has_value(); }));
  EXPECT_EQ(launcher_.closed->code(), ErrorCode::kAgentLost);
  EXPECT_TRUE(launcher_.link->IsTimedOut());
}

TEST_F(LinkSocketTest, AnAgentThatHearsNothingTellsTheLauncherWhyItGivesUp) {
  Greet();
  using std::chrono::milliseconds;
  agent_.link->StartHeartbeat(milliseconds(2), milliseconds(10));
  ASSERT_TRUE(RunUntil(*loop_, [&] { return launcher_.closed.has_value(); }));
  EXPECT_EQ(launcher_.closed->code(), ErrorCode::kAgentLost);
  EXPECT_TRUE(NamesFacts(launcher_.closed->message(), {"agent", "nothing", "launcher"}))
      << launcher_.closed->message();
}

}  // namespace
}  // namespace hvdray::wire
