// SPDX-License-Identifier: Apache-2.0
// The agent's session over a real socketpair, with a launcher's link at the other end.
#include "agent/agent_session.h"

#include <arpa/inet.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include <csignal>

#include "tests/fakes/test_sockets.h"
#include "tests/unit/agent/agent_session_harness.h"

namespace hvdray {
namespace {

using std::chrono::seconds;

class AgentSessionTest : public AgentSessionHarness {};

TEST_F(AgentSessionTest, HelloCarriesTheFactsAndAPort) {
  ASSERT_TRUE(WaitForSome<wire::Hello>());
  const wire::Hello hello = Received<wire::Hello>()[0];
  EXPECT_EQ(hello.build, "test");
  EXPECT_GT(hello.facts.offered_port, 0);
  EXPECT_EQ(hello.facts.cleanup, "subreaper");
  EXPECT_EQ(hello.facts.probe_port, 0) << "nothing listens unless it is asked to";
  EXPECT_FALSE(hello.facts.interfaces.empty());
}

TEST_F(AgentSessionTest, GenerationRunsFromStartToStopped) {
  Welcome();
  StartProbes(1, 3, {"exit", "5"});
  ASSERT_TRUE(WaitForSome<wire::GenerationStopped>());
  EXPECT_EQ(Received<wire::WorkerStarted>().size(), 3U);
  const auto exits = Received<wire::WorkerExited>();
  ASSERT_EQ(exits.size(), 3U);
  EXPECT_EQ(exits[0].status.exit_code, 5);
  const auto& last = received_.back();
  EXPECT_TRUE(std::holds_alternative<wire::GenerationStopped>(last.body));
  EXPECT_EQ(last.generation, 1U);
}

TEST_F(AgentSessionTest, EachGenerationIsOfferedAFreshPort) {
  Welcome();
  std::set<uint16_t> ports;
  ASSERT_TRUE(WaitForSome<wire::Hello>());
  ports.insert(Received<wire::Hello>()[0].facts.offered_port);
  for (Generation generation = 1; generation <= 3; ++generation) {
    StartProbes(generation, 1, {"exit", "0"});
    ASSERT_TRUE(WaitForSome<wire::GenerationStopped>(generation));
    const uint16_t port = Received<wire::GenerationStopped>().back().offered_port;
    EXPECT_GT(port, 0);
    ports.insert(port);
  }
  EXPECT_GE(ports.size(), 2U);
}

TEST_F(AgentSessionTest, StoppedComesBehindAllOutput) {
  Welcome();
  StartProbes(1, 2, {"flood", "4000000"});
  ASSERT_TRUE(WaitForSome<wire::GenerationStopped>());
  EXPECT_EQ(text_.size(), 8'000'000U);
  size_t ends = 0;
  for (const auto& output : Received<wire::Output>()) ends += output.is_end ? 1 : 0;
  EXPECT_EQ(ends, 4U);
}

TEST_F(AgentSessionTest, StopEndsTheGangAndSaysSo) {
  Welcome();
  StartProbes(1, 2, {"wait"});
  ASSERT_TRUE(WaitUntilReady(2));
  link_->Send({1, wire::StopGeneration{60'000}});
  ASSERT_TRUE(WaitForSome<wire::GenerationStopped>());
  EXPECT_TRUE(Received<wire::WorkerExited>()[0].was_stopping);
  link_->Send({1, wire::StopGeneration{0}});
  link_->Send({1, wire::Signal{-1, SIGTERM}});
  ASSERT_TRUE(WaitFor(*loop_, [&] { return session_->stale_requests() == 2; }));
  EXPECT_EQ(Received<wire::GenerationStopped>().size(), 1U);
}

TEST_F(AgentSessionTest, RepeatedStartOfOneGenerationIsDroppedAndCounted) {
  Welcome();
  StartProbes(2, 1, {"wait"});
  StartProbes(2, 1, {"wait"});
  StartProbes(1, 1, {"wait"});
  ASSERT_TRUE(WaitUntilReady(1));
  ASSERT_TRUE(WaitFor(*loop_, [&] { return session_->stale_requests() == 2; }));
  EXPECT_EQ(FindMarked(mark_).size(), 1U);
}

TEST_F(AgentSessionTest, GenerationStoppedBeforeItBeganNeverBegins) {
  Welcome();
  link_->Send({4, wire::StopGeneration{0}});
  ASSERT_TRUE(WaitForSome<wire::GenerationStopped>());
  StartProbes(4, 1, {"wait"});
  ASSERT_TRUE(WaitFor(*loop_, [&] { return session_->stale_requests() == 1; }));
  EXPECT_TRUE(FindMarked(mark_).empty());
}

TEST_F(AgentSessionTest, LauncherThatBreaksTheRulesIsToldAndLeft) {
  wire::StartGeneration twice = MakeStart(2, {"wait"});
  twice.workers[1].rank = 0;
  wire::StartGeneration wordless = MakeStart(1, {"wait"});
  wordless.command.clear();
  Welcome();
  link_->Send({1, twice});
  link_->Send({1, wordless});
  ASSERT_TRUE(WaitUntilDone());
  EXPECT_EQ(exit_code_, 125);
  ASSERT_TRUE(WaitFor(*loop_, [&] { return closed_.has_value(); }));
  EXPECT_EQ(closed_->code(), ErrorCode::kProtocolError);
}

TEST_F(AgentSessionTest, StartBeforeWelcomeIsRefused) {
  StartProbes(1, 1, {"wait"});
  ASSERT_TRUE(WaitUntilDone());
  EXPECT_EQ(exit_code_, 125);
}

TEST_F(AgentSessionTest, WarmBeforeWelcomeIsRefused) {
  wire::StartGeneration order = MakeStart(0, {"wait"});
  order.preload = {"json"};
  link_->Send({0, wire::Warm{order}});
  ASSERT_TRUE(WaitUntilDone());
  EXPECT_EQ(exit_code_, 125);
}

TEST_F(AgentSessionTest, SecondGenerationWhileOneRunsIsRefusedAndNothingIsLeft) {
  Welcome(/*grace_ms=*/10);
  StartProbes(1, 2, {"stubborn"});
  ASSERT_TRUE(WaitUntilReady(2));
  StartProbes(2, 1, {"wait"});
  ASSERT_TRUE(WaitUntilDone());
  EXPECT_TRUE(FindMarked(mark_).empty());
}

TEST_F(AgentSessionTest, LostLinkStopsTheGangAfterItsGrace) {
  Welcome(/*grace_ms=*/30);
  StartProbes(1, 3, {"stubborn"});
  ASSERT_TRUE(WaitUntilReady(3));
  link_.reset();
  ASSERT_TRUE(WaitUntilDone());
  EXPECT_EQ(exit_code_, 125);
  EXPECT_TRUE(FindMarked(mark_).empty());
}

TEST_F(AgentSessionTest, ByeEndsInOrder) {
  Welcome();
  StartProbes(1, 1, {"exit", "0"});
  ASSERT_TRUE(WaitForSome<wire::GenerationStopped>());
  bool is_closed = false;
  link_->Close({}, seconds(5), [&] { is_closed = true; });
  ASSERT_TRUE(WaitUntilDone());
  EXPECT_TRUE(is_closed);
  EXPECT_EQ(exit_code_, 0);
}

TEST_F(AgentSessionTest, LeavingTellsTheReasonBeforeTheWorkersEnd) {
  Welcome();
  StartProbes(1, 2, {"wait"});
  ASSERT_TRUE(WaitUntilReady(2));
  session_->Leave({ErrorCode::kAgentLost, "somebody said so"}, 143);
  ASSERT_TRUE(WaitUntilDone());
  EXPECT_EQ(exit_code_, 143);
  ASSERT_TRUE(WaitFor(*loop_, [&] { return closed_.has_value(); }));
  EXPECT_EQ(closed_->code(), ErrorCode::kAgentLost);
  EXPECT_NE(closed_->message().find("somebody said so"), std::string::npos);
  EXPECT_TRUE(Received<wire::WorkerExited>().empty());
}

TEST_F(AgentSessionTest, ASignalThatTheLauncherGotTooLeavesItTheStop) {
  Welcome(/*grace_ms=*/3'600'000);
  StartProbes(1, 1, {"wait"});
  ASSERT_TRUE(WaitUntilReady(1));
  session_->LeaveUnlessEnding({ErrorCode::kAgentLost, "SIGHUP"}, 129);
  link_->Send({1, wire::StopGeneration{.grace_ms = 3'600'000}});
  ASSERT_TRUE(WaitForSome<wire::GenerationStopped>());
  EXPECT_FALSE(closed_.has_value());
  link_->Close({}, seconds(5), [] {});
  ASSERT_TRUE(WaitUntilDone());
  EXPECT_EQ(exit_code_, 0);
}

TEST_F(AgentSessionTest, ASignalToTheAgentAloneEndsItWithItsCode) {
  Welcome();
  StartProbes(1, 1, {"wait"});
  ASSERT_TRUE(WaitUntilReady(1));
  session_->LeaveUnlessEnding({ErrorCode::kAgentLost, "once"}, 143);
  ASSERT_TRUE(WaitUntilDone());
  EXPECT_EQ(exit_code_, 143);
}

TEST_F(AgentSessionTest, SecondLeaveTakesTheGraceAway) {
  Welcome(/*grace_ms=*/3'600'000);
  StartProbes(1, 1, {"stubborn"});
  ASSERT_TRUE(WaitUntilReady(1));
  session_->Leave({ErrorCode::kAgentLost, "once"}, 143);
  session_->Leave({ErrorCode::kAgentLost, "twice"}, 130);
  ASSERT_TRUE(WaitUntilDone());
  EXPECT_EQ(exit_code_, 143);
}

// The agent of a job on many machines.
TEST_F(AgentSessionTest, AnInspectIsAnsweredOnceWhileNoWorkersRun) {
  Welcome();
  wire::Inspect inspect;
  inspect.timeout_ms = 60000;
  inspect.command = "sh";
  inspect.path = "/usr/bin:/bin";
  link_->Send({0, inspect});
  link_->Send({0, inspect});  // one at a time
  ASSERT_TRUE(WaitForSome<wire::Inspection>());
  EXPECT_TRUE(Received<wire::Inspection>()[0].unanswered.empty());
  EXPECT_EQ(session_->stale_requests(), 1U);
  StartProbes(1, 1, {"wait"});
  ASSERT_TRUE(WaitUntilReady(1));
  link_->Send({0, inspect});
  ASSERT_TRUE(WaitFor(*loop_, [&] { return session_->stale_requests() == 2; }));
  EXPECT_EQ(Received<wire::Inspection>().size(), 1U);
}

TEST_F(AgentSessionTest, AnInspectBeforeWelcomeIsAViolation) {
  link_->Send({0, wire::Inspect{}});
  ASSERT_TRUE(WaitUntilDone());
  EXPECT_EQ(*exit_code_, 125);
}

class ProbedAgentTest : public AgentSessionTest {
 protected:
  ProbedAgentTest() { has_probe_listener_ = true; }

  uint16_t ProbePort() {
    EXPECT_TRUE(WaitForSome<wire::Hello>());
    return Received<wire::Hello>()[0].facts.probe_port;
  }
  void Probe(Generation generation, uint16_t port) {
    link_->Send({generation, wire::Probe{60'000, {{"127.0.0.1", "127.0.0.1", port}}}});
  }
};

TEST_F(ProbedAgentTest, ListensUntilAGenerationStarts) {
  const uint16_t port = ProbePort();
  ASSERT_GT(port, 0);
  UniqueFd client;
  EXPECT_EQ(ConnectTo(port, &client), 0);
  Welcome();
  StartProbes(1, 1, {"wait"});
  ASSERT_TRUE(WaitUntilReady(1));
  EXPECT_EQ(ConnectTo(port, &client), ECONNREFUSED);
}

TEST_F(ProbedAgentTest, ProbeIsAnsweredOnce) {
  Welcome();
  Probe(1, ProbePort());
  ASSERT_TRUE(WaitForSome<wire::ProbeResult>());
  EXPECT_EQ(received_.back().generation, 1U);
  EXPECT_EQ(Received<wire::ProbeResult>()[0], (wire::ProbeResult{{{wire::ProbeStage::kOk, 0}}}));
  Probe(1, ProbePort());
  Probe(0, ProbePort());
  ASSERT_TRUE(WaitFor(*loop_, [&] { return session_->stale_requests() == 2; }));
  StartProbes(1, 1, {"exit", "0"});
  ASSERT_TRUE(WaitForSome<wire::GenerationStopped>());
  EXPECT_EQ(Received<wire::ProbeResult>().size(), 1U);
}

TEST_F(ProbedAgentTest, StopEndsAProbeThatRunsAndItsListener) {
  const DeafListener deaf;
  Welcome();
  const uint16_t port = ProbePort();
  Probe(1, deaf.port());
  link_->Send({1, wire::StopGeneration{0}});
  ASSERT_TRUE(WaitForSome<wire::GenerationStopped>());
  UniqueFd client;
  EXPECT_EQ(ConnectTo(port, &client), ECONNREFUSED);
  Probe(1, deaf.port());
  ASSERT_TRUE(WaitFor(*loop_, [&] { return session_->stale_requests() == 1; }));
  EXPECT_TRUE(Received<wire::ProbeResult>().empty());
}

TEST_F(ProbedAgentTest, ProbeBeforeWelcomeIsRefused) {
  Probe(1, ProbePort());
  ASSERT_TRUE(WaitUntilDone());
  EXPECT_EQ(exit_code_, 125);
}

TEST_F(AgentSessionTest, StdinBeyondItsWindowEndsTheSession) {
  Welcome(/*grace_ms=*/0);
  auto start = MakeStart(1, {"wait"});
  start.stdin_rank = 0;
  link_->Send({1, start});
  for (int i = 0; i < 40; ++i) {
    link_->Send({1, wire::Stdin{0, false, std::string(65536, 'x')}});
  }
  ASSERT_TRUE(WaitUntilDone());
  EXPECT_EQ(exit_code_, 125);
}

TEST_F(AgentSessionTest, RequestOfAWorkerBecomesAQuestionAndTheReplyItsAnswer) {
  Welcome();
  auto start = MakeStart(1, {"wait"});
  // A worker that asks as Horovod does, with what any shell has.
  start.command = {"bash", "-c",
                   "exec 3<>/dev/tcp/127.0.0.1/$HOROVOD_GLOO_RENDEZVOUS_PORT; "
                   "printf 'PUT /global/7 HTTP/1.1\\r\\nContent-Length: 5\\r\\n\\r\\nhello' >&3; "
                   "head -n 1 <&3"};
  link_->Send({1, wire::KvReset{}});
  link_->Send({1, start});
  ASSERT_TRUE(WaitForSome<wire::KvRequest>());
  const wire::KvRequest request = Received<wire::KvRequest>()[0];
  EXPECT_EQ(request.operation, KvOp::kPut);
  EXPECT_EQ(request.scope, "global");
  EXPECT_EQ(request.key, "7");
  EXPECT_EQ(request.value, "hello");
  EXPECT_EQ(request.rank, 0);
  link_->Send({1, wire::KvReply{request.id, 200, "7", ""}});
  ASSERT_TRUE(WaitForSome<wire::GenerationStopped>());
  EXPECT_TRUE(text_.starts_with("HTTP/1.1 200")) << text_;
}

TEST_F(AgentSessionTest, ALargeValueTravelsDeflatedWhereTheLauncherTakesIt) {
  Welcome(/*grace_ms=*/5000, /*takes_deflated=*/true);
  auto start = MakeStart(1, {"wait"});
  // Bash's read takes a byte at a time and leaves the rest to the next one.
  start.command = {"bash", "-c",
                   "exec 3<>/dev/tcp/127.0.0.1/$HOROVOD_GLOO_RENDEZVOUS_PORT; "
                   "printf 'PUT /global/7 HTTP/1.1\\r\\nContent-Length: 50000\\r\\n\\r\\n' >&3; "
                   "head -c 50000 /dev/zero >&3; for i in 1 2 3; do read -r line <&3; done; "
                   "printf 'GET /global/8 HTTP/1.1\\r\\n\\r\\n' >&3; "
                   "for i in 1 2 3; do read -r line <&3; echo \"$line\"; done; "
                   "head -c 50000 <&3 | tr -d '\\0' | wc -c"};
  link_->Send({1, wire::KvReset{}});
  link_->Send({1, start});
  ASSERT_TRUE(WaitForSome<wire::KvRequest>());
  EXPECT_TRUE(Received<wire::Hello>()[0].takes_deflated);
  const wire::KvRequest put = Received<wire::KvRequest>()[0];
  EXPECT_EQ(put.inflated_bytes, 50'000U);
  EXPECT_LT(put.value.size(), 1'000U);
  link_->Send({1, wire::KvReply{put.id, 200, "7", ""}});
  ASSERT_TRUE(WaitForSome<wire::KvRequest>(2));
  const wire::KvRequest follow = Received<wire::KvRequest>()[1];
  EXPECT_EQ(follow.operation, KvOp::kFollow);
  link_->Send({1, wire::KvReply{follow.id, 200, "8", put.value, put.inflated_bytes}});
  ASSERT_TRUE(WaitForSome<wire::GenerationStopped>());
  EXPECT_NE(text_.find("Content-Length: 50000"), std::string::npos) << text_;
  EXPECT_TRUE(text_.ends_with("0\n")) << text_;
}

}  // namespace
}  // namespace hvdray
