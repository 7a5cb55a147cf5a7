// SPDX-License-Identifier: Apache-2.0
#include "cluster/transport/remote_transport.h"

#include <gtest/gtest.h>

#include <map>
#include <optional>

#include "base/fd.h"
#include "base/gzip.h"
#include "base/log.h"
#include "tests/fakes/fake_stream.h"
#include "tests/fakes/fault_catalogue.h"
#include "tests/fakes/loop_runner.h"

namespace hvdray {
namespace {

const auto* const kCatalogue = FaultCatalogue::Install("tests/golden/messages/remote.txt");

const Status kSshEnded(ErrorCode::kAgentLost, "ssh exited with code 255");

// A shell whose hosts are played by the test.
class FakeShell : public RemoteShell {
 public:
  explicit FakeShell(Loop& loop) : loop_(loop) {}
  void Run(const std::string& host, const std::string& command,
           std::function<void(Result<AgentStart>)> done) override {
    command_ = command;
    order.push_back(host);
    auto [stream, wire] = FakeWire::Make();
    wires[host] = wire;
    auto start = std::make_shared<AgentStart>();
    start->stream = std::move(stream);
    start->process = std::make_unique<Process>(exits[host]);
    loop_.Post([start, done = std::move(done), failure = failures[host]] {
      failure.ok() ? done(std::move(*start)) : done(failure);
    });
  }
  void End(const std::string& host, Status how) {
    wires[host]->Close(Status());
    if (exits[host]) std::exchange(exits[host], nullptr)(std::move(how));
  }
  Status Explain(const std::string&, const Status& how,
                 const std::vector<std::string>& lines) const override {
    const bool is_busy = !lines.empty() && lines.front() == "full";
    return {is_busy ? ErrorCode::kHostBusy : ErrorCode::kHostRefused,
            how.message() + (lines.empty() ? "" : ": " + lines.back())};
  }
  void Close() override { is_closed = true; }
  bool is_closed = false;
  std::string command_;
  std::vector<std::string> order;
  std::map<std::string, Status> failures;
  std::map<std::string, std::shared_ptr<FakeWire>> wires;
  std::map<std::string, std::function<void(Status)>> exits;

 private:
  class Process : public AgentProcess {
   public:
    explicit Process(std::function<void(Status)>& slot) : slot_(slot) {}
    void OnExit(std::function<void(Status)> callback) override { slot_ = std::move(callback); }
    int pid() const override { return 0; }

   private:
    std::function<void(Status)>& slot_;
  };
  Loop& loop_;
};

class RemoteTransportTest : public testing::Test {
 protected:
  RemoteTransportTest() : loop_(std::move(*Loop::Create())), pool_(*loop_), shell_(*loop_) {}

  void Make(int max_starting = 32, Duration answer_limit = Duration::zero()) {
    RemoteTransportOptions options{.builds = *AgentBuilds::Load("/bin/true")};
    options.answer_limit = answer_limit;
    options.max_starting = max_starting;
    options.retry.shortest = std::chrono::milliseconds(1);
    options.retry.longest = std::chrono::milliseconds(4);
    transport_ = MakeRemoteTransport(*loop_, pool_, shell_, errors_, std::move(options));
  }
  void Start(const std::string& host) {
    transport_->Start(host, [this, host](Result<AgentStart> start) {
      if (start.ok()) {
        started_[host] = std::move(*start);
      } else {
        failed_[host] = start.status();
      }
    });
    Settle(*loop_);
  }

  /// The host's sshd sends us away; returns once the host has been tried `tries` times, or failed.
  void SendAway(const std::string& host, size_t tries) {
    errors_.OnLine(host, "full");
    shell_.End(host, kSshEnded);
    ASSERT_TRUE(
        RunUntil(*loop_, [&] { return failed_.contains(host) || shell_.order.size() == tries; }));
    Settle(*loop_);
  }

  std::unique_ptr<Loop> loop_;
  BlockingPool pool_;
  FakeShell shell_;
  RemoteStderr errors_;
  std::unique_ptr<Transport> transport_;
  std::map<std::string, AgentStart> started_;
  std::map<std::string, Status> failed_;
};

TEST(RemoteStderrTest, ALineOfAnAgentsLogHasOneTimeAndItsOwnLevel) {
  std::vector<std::string> logged;
  const LogSink sink([&](std::string_view line) { logged.emplace_back(line); });
  RemoteStderr errors;
  errors.MarkRunning("a");
  errors.OnLine("a", "2026-11-28T12:00:00.123Z E gang[gen=3]: full");
  errors.OnLine("a", "2026-11-28T12:00:00 not a log line");
  ASSERT_EQ(logged.size(), 2U);
  EXPECT_TRUE(logged[0].ends_with("Z E host a: gang[gen=3]: full")) << logged[0];
  EXPECT_TRUE(logged[1].ends_with("Z W host a: 2026-11-28T12:00:00 not a log line")) << logged[1];
}

TEST_F(RemoteTransportTest, AnAgentThatIsThereIsStartedAtOnce) {
  Make();
  Start("a");
  EXPECT_TRUE(started_.empty());
  shell_.wires["a"]->Deliver("HVDRAY-AGENT/1 1 00\n");
  Settle(*loop_);
  ASSERT_TRUE(started_.contains("a"));
  EXPECT_TRUE(shell_.wires["a"]->TakeSent().empty());
}

TEST_F(RemoteTransportTest, AShellThatNeverRunsTheCommandIsToldWithItsCause) {
  Make(32, std::chrono::milliseconds(50));
  Start("a");
  shell_.wires["a"]->Deliver("words of a start-up file\n");
  ASSERT_TRUE(RunUntil(*loop_, [&] { return failed_.contains("a"); }));
  ExpectError(failed_["a"], ErrorCode::kConnectTimeout, {"agent on a: its shell did not run"});
  EXPECT_NE(failed_["a"].hint().find("start-up file"), std::string::npos) << failed_["a"].hint();
  EXPECT_TRUE(shell_.wires["a"]->is_destroyed()) << "the host is let go";
}

TEST_F(RemoteTransportTest, AHostWithoutTheAgentGetsItOnceAskedFor) {
  Make();
  const auto build = *AgentBuilds::Load("/bin/true");
  const std::string machine = *MachineOfElf((*build.For("Linux", "x86_64"))->bytes);
  for (const char* host : {"a", "b"}) {
    Start(host);
    shell_.wires[host]->Deliver("banner\nHVDRAY-STAGE/1 Linux " + machine + " /d\n");
  }
  std::string sent;
  ASSERT_TRUE(RunUntil(*loop_, [&] {
    sent += shell_.wires["b"]->TakeSent();
    return sent.size() > 100;
  }));
  Settle(*loop_);
  sent += shell_.wires["b"]->TakeSent();
  EXPECT_EQ(shell_.wires["a"]->TakeSent(), sent);
  const std::string packed = *Gzip((*build.For("Linux", machine))->bytes);
  EXPECT_EQ(sent, StageAnswer((*build.For("Linux", machine))->sha256, packed.size()) + packed);
  shell_.wires["a"]->Deliver("HVDRAY-AGENT/1 1 00\n");
  Settle(*loop_);
  EXPECT_TRUE(started_.contains("a"));
}

TEST_F(RemoteTransportTest, OnceClosedItAnswersNobodyAndStartsNothing) {
  Make(2);
  Start("begun");
  for (const char* host : {"answered", "waiting"}) {
    transport_->Start(host, [host](const auto&) { FAIL() << host; });
  }
  transport_->Close();
  EXPECT_TRUE(shell_.is_closed);
  Settle(*loop_);
  EXPECT_EQ(shell_.order, (std::vector<std::string>{"begun", "answered"}));
  EXPECT_TRUE(started_.empty());
  EXPECT_TRUE(failed_.empty());
}

TEST_F(RemoteTransportTest, AHostThatAsksForTheAgentAgainGetsNoSecondOne) {
  Make();
  Start("a");
  const std::string machine = *MachineOfElf(*ReadFile("/bin/true"));
  const std::string ask = "HVDRAY-STAGE/1 Linux " + machine + " /d\n";
  shell_.wires["a"]->Deliver(ask);
  std::string sent;
  ASSERT_TRUE(RunUntil(*loop_, [&] {
    sent += shell_.wires["a"]->TakeSent();
    return !sent.empty();
  }));
  for (int i = 0; i < 200 && !failed_.contains("a"); ++i) shell_.wires["a"]->Deliver(ask);
  Settle(*loop_);
  ASSERT_TRUE(failed_.contains("a"));
  EXPECT_EQ(failed_["a"].code(), ErrorCode::kProtocolError);
  EXPECT_TRUE(shell_.wires["a"]->is_destroyed()) << "the host is let go";
}

TEST_F(RemoteTransportTest, LinesOfAHostThatMoveTheCursorAreQuotedWithoutThat) {
  Make();
  Start("a");
  errors_.OnLine("a", "\x1b[2J\x1b]0;title\x07Permission \x9b denied\xc2\x9b\r");
  shell_.End("a", kSshEnded);
  ASSERT_TRUE(RunUntil(*loop_, [&] { return failed_.contains("a"); }));
  ExpectError(failed_["a"], ErrorCode::kHostRefused,
              {"agent on a: ", kSshEnded.message(), "]0;titlePermission \\x9b denied\\xc2\\x9b "});
  Start("b");
  shell_.wires["b"]->Deliver("HVDRAY-FAILED/1 write \x1b[2J/d\n");
  Settle(*loop_);
  ExpectError(failed_["b"], ErrorCode::kAgentStartFailed, {"agent on b: ", "write /d"});
}

TEST_F(RemoteTransportTest, AnotherMachineIsAnErrorThatNamesHostAndBothSides) {
  Make();
  Start("a");
  shell_.wires["a"]->Deliver("HVDRAY-STAGE/1 Linux mips /d\n");
  Settle(*loop_);
  ASSERT_TRUE(failed_.contains("a"));
  EXPECT_TRUE(NamesFacts(failed_["a"].message(), {"agent on a: ", "mips"}));
  EXPECT_TRUE(shell_.wires["a"]->is_destroyed()) << "the host is let go";
}

TEST_F(RemoteTransportTest, WhatTheHostSaysIsTheError) {
  Make();
  Start("a");
  shell_.wires["a"]->Deliver("HVDRAY-FAILED/1 write /d: No space left on device\n");
  Settle(*loop_);
  EXPECT_EQ(failed_["a"].code(), ErrorCode::kAgentStartFailed);
  EXPECT_NE(failed_["a"].message().find("No space left on device"), std::string::npos);
}

TEST_F(RemoteTransportTest, AShellThatEndsIsExplainedByItsEndAndItsLastLine) {
  Make();
  Start("a");
  errors_.OnLine("a", "Permission denied");
  shell_.End("a", kSshEnded);
  ASSERT_TRUE(RunUntil(*loop_, [&] { return failed_.contains("a"); }));
  ExpectError(failed_["a"], ErrorCode::kHostRefused,
              {"agent on a: ", kSshEnded.message(), "Permission denied"});
}

TEST_F(RemoteTransportTest, AShellThatCannotBeRunIsAnError) {
  Make();
  shell_.failures["a"] = Status(ErrorCode::kAgentStartFailed, "ssh: no such file");
  Start("a");
  ExpectError(failed_["a"], ErrorCode::kAgentStartFailed, {"agent on a: ", "ssh: no such file"});
}

TEST_F(RemoteTransportTest, WhatTheFirstShellDoesNotSupportGoesToTheSecond) {
  FakeShell second(*loop_);
  const auto both = MakeFallbackShell(shell_, second);
  shell_.failures["jump"] = Status(ErrorCode::kNotSupported, "ProxyJump");
  shell_.failures["down"] = Status(ErrorCode::kHostUnreachable, "no route");
  std::map<std::string, std::optional<Status>> answers;
  for (const char* host : {"plain", "jump", "down"}) {
    both->Run(host, "x", [&answers, host](const Result<AgentStart>& start) {
      answers[host] = start.ok() ? Status() : start.status();
    });
  }
  Settle(*loop_);
  EXPECT_TRUE(answers["plain"]->ok());
  EXPECT_TRUE(answers["jump"]->ok());
  EXPECT_EQ(answers["down"]->code(), ErrorCode::kHostUnreachable);
  EXPECT_EQ(second.order, std::vector<std::string>{"jump"});
}

TEST_F(RemoteTransportTest, AHostThatIsBusyIsTriedAgainAndTaken) {
  Make();
  Start("a");
  const auto first = shell_.wires["a"];
  SendAway("a", 2);
  EXPECT_TRUE(first->is_destroyed());
  EXPECT_TRUE(errors_.LinesOf("a").empty()) << "what the first try wrote explains nothing any more";
  shell_.wires["a"]->Deliver("HVDRAY-AGENT/1 1 00\n");
  Settle(*loop_);
  EXPECT_TRUE(started_.contains("a"));
  EXPECT_TRUE(failed_.empty());
  EXPECT_EQ(shell_.order.size(), 2U);
}

TEST_F(RemoteTransportTest, AHostThatStaysBusyFailsAfterThreeRetries) {
  Make();
  Start("a");
  for (size_t tries = 2; tries <= 4; ++tries) {
    SendAway("a", tries);
    ASSERT_EQ(shell_.order.size(), tries);
    ASSERT_TRUE(failed_.empty());
  }
  SendAway("a", 5);
  EXPECT_EQ(shell_.order.size(), 4U);
  ExpectError(failed_["a"], ErrorCode::kHostBusy,
              {"agent on a: ", kSshEnded.message(), "full", "4 tries"});
  EXPECT_TRUE(failed_["a"].hint().empty());
}

TEST_F(RemoteTransportTest, AnotherReasonAfterABusyTryIsFinalAndTold) {
  Make();
  Start("a");
  SendAway("a", 2);
  errors_.OnLine("a", "Permission denied");
  shell_.End("a", kSshEnded);
  ASSERT_TRUE(RunUntil(*loop_, [&] { return failed_.contains("a"); }));
  ExpectError(failed_["a"], ErrorCode::kHostRefused,
              {"agent on a: ", kSshEnded.message(), "Permission denied"});
  EXPECT_FALSE(NamesFacts(failed_["a"].message(), {"tries"}));
  EXPECT_EQ(shell_.order.size(), 2U);
}

TEST_F(RemoteTransportTest, AHostThatHasAnsweredIsNotBusy) {
  Make();
  Start("a");
  const std::string machine =
      *MachineOfElf((*AgentBuilds::Load("/bin/true")->For("Linux", "x86_64"))->bytes);
  shell_.wires["a"]->Deliver("HVDRAY-STAGE/1 Linux " + machine + " /d\n");
  Settle(*loop_);
  SendAway("a", 2);
  EXPECT_TRUE(failed_.contains("a")) << "the link broke, which a new one does not mend";
  EXPECT_EQ(shell_.order.size(), 1U);
}

TEST_F(RemoteTransportTest, AConnectionThatIsSentAwayIsTriedAgainToo) {
  Make();
  shell_.failures["a"] = Status(ErrorCode::kHostBusy, "full");
  Start("a");
  ASSERT_TRUE(RunUntil(*loop_, [&] { return failed_.contains("a"); }));
  EXPECT_EQ(shell_.order.size(), 4U);
  ExpectError(failed_["a"], ErrorCode::kHostBusy, {"agent on a: ", "full", "4 tries"});
}

TEST_F(RemoteTransportTest, ABusyHostKeepsItsPlaceWhileItWaits) {
  Make(1);
  Start("a");
  Start("b");
  SendAway("a", 2);
  EXPECT_EQ(shell_.order, (std::vector<std::string>{"a", "a"}));
  shell_.wires["a"]->Deliver("HVDRAY-AGENT/1 1 00\n");
  Settle(*loop_);
  EXPECT_EQ(shell_.order.back(), "b");
}

TEST_F(RemoteTransportTest, OnlySoManyAreOnTheirWayAtOnce) {
  Make(2);
  for (const char* host : {"a", "b", "c", "d"}) Start(host);
  EXPECT_EQ(shell_.order, (std::vector<std::string>{"a", "b"}));
  shell_.wires["b"]->Deliver("HVDRAY-AGENT/1 1 00\n");
  Settle(*loop_);
  EXPECT_EQ(shell_.order, (std::vector<std::string>{"a", "b", "c"}));
  shell_.wires["a"]->Deliver("HVDRAY-FAILED/1 no\n");
  Settle(*loop_);
  EXPECT_EQ(shell_.order.back(), "d");
}

}  // namespace
}  // namespace hvdray
