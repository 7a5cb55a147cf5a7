// SPDX-License-Identifier: Apache-2.0
// What an agent's session does in an elastic job only: arrivals, notices, freed survivors, single
// workers that end, a host that leaves.
#include <gtest/gtest.h>

#include <set>

#include "base/base64.h"
#include "base/file.h"
#include "tests/fakes/temp_directory.h"
#include "tests/fakes/test_sockets.h"
#include "tests/unit/agent/agent_session_harness.h"
#include "tests/unit/agent/mesh_gang.h"

namespace hvdray {
namespace {

using std::chrono::hours;
using std::chrono::milliseconds;

const Status& Maintenance() {
  static const Status why(ErrorCode::kAgentLost, "the machine is taken away");
  return why;
}

class FixedAgentSessionTest : public AgentSessionHarness {};

class ElasticAgentSessionTest : public AgentSessionHarness {
 protected:
  ElasticAgentSessionTest() { is_elastic_ = true; }

  wire::StartGeneration MakeWorkers(const std::vector<int>& workers,
                                    std::vector<std::string> words) {
    wire::StartGeneration start = MakeStart(static_cast<int>(workers.size()), std::move(words));
    for (size_t i = 0; i < workers.size(); ++i) start.workers[i].worker = workers[i];
    return start;
  }
  /// A worker that says `request` to its relay, and shows nothing of the answer.
  wire::StartGeneration MakeAsker(int worker, const std::string& script) {
    wire::StartGeneration start = MakeWorkers({worker}, {"wait"});
    start.command = {"bash", "-c",
                     "exec 3<>/dev/tcp/127.0.0.1/$HOROVOD_GLOO_RENDEZVOUS_PORT; " + script};
    return start;
  }
  /// Whether everything sent before has been acted on.
  void Settle() {
    const size_t answers = Received<wire::ConnectionsBroken>().size();
    link_->Send({1, wire::BreakConnections{}});
    ASSERT_TRUE(WaitForSome<wire::ConnectionsBroken>(answers + 1));
  }
};

TEST_F(ElasticAgentSessionTest, BreakConnectionsIsAnsweredEvenWhereNothingIsConnected) {
  Welcome();
  link_->Send({3, wire::BreakConnections{}});
  ASSERT_TRUE(WaitForSome<wire::ConnectionsBroken>());
  EXPECT_EQ(received_.back().generation, 3U);
  StartProbes(4, 2, {"wait"});
  ASSERT_TRUE(WaitUntilReady(2));
  link_->Send({4, wire::BreakConnections{}});
  ASSERT_TRUE(WaitForSome<wire::ConnectionsBroken>(2));
  EXPECT_EQ(received_.back().generation, 4U);
  const wire::ConnectionsBroken broken = Received<wire::ConnectionsBroken>()[1];
  EXPECT_EQ(broken.shut + broken.destroyed + broken.refused, 0U);
  EXPECT_EQ(broken.why, "");
}

TEST_F(ElasticAgentSessionTest, BreakConnectionsFreesAWorkerWhoseMeshThisHostHasSeen) {
  const TestListener peer;
  const TempDirectory temp;
  const sockaddr_in end = Ipv4("127.0.0.1", peer.port());
  const TcpAddress address =
      *ReadSockaddr(ByteView(reinterpret_cast<const char*>(&end), sizeof end));
  ASSERT_TRUE(WriteFileAtomically(temp / "value", MeshValue(2, address)).ok());
  Welcome();
  wire::StartGeneration start = MakeAsker(
      5,
      "{ printf 'PUT /global/0 HTTP/1.1\\r\\nContent-Length: 136\\r\\n\\r\\n'; cat $VALUE; } >&3; "
      "exec 4<>/dev/tcp/127.0.0.1/$PEER; echo ready; read -u 4 line; echo freed");
  start.environment.push_back("VALUE=" + (temp / "value"));
  start.environment.push_back("PEER=" + std::to_string(peer.port()));
  link_->Send({1, wire::KvReset{}});
  link_->Send({1, start});
  ASSERT_TRUE(WaitForSome<wire::KvRequest>());
  ASSERT_TRUE(WaitUntilReady(1));
  link_->Send({1, wire::BreakConnections{}});
  ASSERT_TRUE(WaitForSome<wire::ConnectionsBroken>());
  const wire::ConnectionsBroken broken = Received<wire::ConnectionsBroken>()[0];
  EXPECT_EQ(broken.shut + broken.destroyed, 1U) << broken.why;
  ASSERT_TRUE(WaitFor(*loop_, [&] { return text_ == "ready\nfreed\n"; })) << text_;
}

TEST_F(ElasticAgentSessionTest, NoticeForWhoHasNotRegisteredIsDropped) {
  Welcome();
  StartProbes(1, 1, {"wait"});
  ASSERT_TRUE(WaitUntilReady(1));
  const size_t before = received_.size();
  link_->Send({1, wire::Notify{.worker = 0, .timestamp = 5}});
  link_->Send({1, wire::Notify{.worker = 99, .timestamp = 5}});
  Settle();
  EXPECT_EQ(received_.size(), before + 1) << "nobody speaks of it";
  EXPECT_EQ(session_->stale_requests(), 0U);
  EXPECT_FALSE(closed_.has_value());
}

TEST_F(ElasticAgentSessionTest, NoticeReachesTheAddressThatTheWorkerRegistered) {
  const TestListener service;
  // ({'lo': [('127.0.0.1', port)]}, 32 x 'k')
  std::string pickle(
      "\x80\x03}X\x02\0\0\0lo]X\x09\0\0\0"
      "127.0.0.1M",
      26);
  pickle += static_cast<char>(service.port() & 0xff);
  pickle += static_cast<char>(service.port() >> 8);
  pickle +=
      "\x86"
      "asC " +
      std::string(32, 'k') + "\x86.";
  const std::string body = EncodeBase64(pickle);
  Welcome();
  wire::StartGeneration start =
      MakeAsker(5, "printf '%s' \"$REQUEST\" >&3; head -n 1 <&3; sleep 1000");
  start.environment.push_back("REQUEST=PUT /worker_addresses/here:0 HTTP/1.1\r\nContent-Length: " +
                              std::to_string(body.size()) + "\r\n\r\n" + body);
  link_->Send({1, wire::KvReset{}});
  link_->Send({1, start});
  ASSERT_TRUE(WaitFor(*loop_, [&] { return text_.find('\n') != std::string::npos; }));
  ASSERT_TRUE(text_.starts_with("HTTP/1.1 200")) << text_;
  EXPECT_EQ(Received<wire::KvRequest>()[0].operation, KvOp::kWorkerAddresses);
  link_->Send({1, wire::Notify{.worker = 5, .timestamp = 1'700'000'000}});
  ASSERT_TRUE(WaitFor(*loop_, [&] { return service.HasVisitor(); }));
}

TEST_F(ElasticAgentSessionTest, WorkersHaveNumbersBeyondThoseOfRanks) {
  Welcome();
  link_->Send({1, wire::KvReset{}});
  link_->Send({1, MakeWorkers({65'536, 16'777'215}, {"flood", "2000000"})});
  ASSERT_TRUE(WaitForSome<wire::WorkerExited>(2));
  ASSERT_TRUE(WaitFor(*loop_, [&] { return text_.size() == 4'000'000; }))
      << "credit finds its worker by that number";
  std::set<int> told;
  for (const auto& exited : Received<wire::WorkerExited>()) told.insert(exited.rank);
  EXPECT_EQ(told, (std::set<int>{65'536, 16'777'215}));
  for (const auto& started : Received<wire::WorkerStarted>())
    EXPECT_TRUE(told.contains(started.rank));
}

TEST_F(ElasticAgentSessionTest, StopWorkersEndsOneByItsNumberAndTellsNoEndOfAGeneration) {
  Welcome();
  link_->Send({1, wire::KvReset{}});
  link_->Send({1, MakeWorkers({70'000, 70'001}, {"wait"})});
  ASSERT_TRUE(WaitUntilReady(2));
  link_->Send({1, wire::StopWorkers{{70'001, 1}, 60'000}});
  ASSERT_TRUE(WaitForSome<wire::WorkerExited>());
  EXPECT_EQ(Received<wire::WorkerExited>()[0].rank, 70'001);
  EXPECT_TRUE(Received<wire::WorkerExited>()[0].was_stopping);
  EXPECT_EQ(FindMarked(mark_).size(), 1U);
  link_->Send({1, wire::StopWorkers{{70'000}, 60'000}});
  ASSERT_TRUE(WaitForSome<wire::WorkerExited>(2));
  EXPECT_TRUE(Received<wire::GenerationStopped>().empty());
  link_->Send({1, wire::StopGeneration{0}});
  ASSERT_TRUE(WaitForSome<wire::GenerationStopped>());
}

TEST_F(ElasticAgentSessionTest, WorkerAheadOfTheStoreArrivesAndItsRequestFollowsTheReset) {
  Welcome();
  link_->Send({1, wire::KvReset{}});
  link_->Send({2, MakeAsker(70'000,
                            "printf 'PUT /global/rank_0 HTTP/1.1\\r\\nContent-Length: 1\\r\\n\\r\\n"
                            "h' >&3; head -n 1 <&3")});
  ASSERT_TRUE(WaitForSome<wire::WorkerArrived>());
  EXPECT_EQ(received_.back().generation, 2U);
  EXPECT_EQ(Received<wire::WorkerArrived>()[0].worker, 70'000);
  EXPECT_TRUE(Received<wire::KvRequest>().empty());
  link_->Send({2, wire::KvReset{}});
  ASSERT_TRUE(WaitForSome<wire::KvRequest>());
  const wire::KvRequest request = Received<wire::KvRequest>()[0];
  EXPECT_EQ(request.rank, 70'000);
  EXPECT_EQ(received_.back().generation, 2U);
  link_->Send({2, wire::KvReply{request.id, 200, "rank_0", ""}});
  ASSERT_TRUE(WaitForSome<wire::WorkerExited>());
  EXPECT_TRUE(text_.starts_with("HTTP/1.1 200")) << text_;
  EXPECT_EQ(Received<wire::WorkerArrived>().size(), 1U);
}

TEST_F(ElasticAgentSessionTest, HostThatRetiresSaysSoOnceAndServesOn) {
  Welcome();
  StartProbes(1, 1, {"wait"});
  ASSERT_TRUE(WaitUntilReady(1));
  session_->Retire(hours(1), Maintenance(), 143);
  ASSERT_TRUE(WaitForSome<wire::HostLeaving>());
  EXPECT_EQ(Received<wire::HostLeaving>()[0].in_ms, 3'600'000U);
  EXPECT_TRUE(Received<wire::WorkerExited>().empty());
  link_->Send({1, wire::StopGeneration{60'000}});
  ASSERT_TRUE(WaitForSome<wire::GenerationStopped>());
  link_->Close({}, std::chrono::seconds(5), [] {});
  ASSERT_TRUE(WaitUntilDone());
  EXPECT_EQ(exit_code_, 0) << "the launcher has let it go";
  EXPECT_EQ(Received<wire::HostLeaving>().size(), 1U);
}

TEST_F(ElasticAgentSessionTest, HostThatIsToldTwiceToRetireLeavesAtOnce) {
  Welcome();
  StartProbes(1, 1, {"wait"});
  ASSERT_TRUE(WaitUntilReady(1));
  session_->Retire(hours(1), Maintenance(), 143);
  session_->Retire(hours(1), Maintenance(), 143);
  ASSERT_TRUE(WaitUntilDone());
  EXPECT_EQ(exit_code_, 143);
  ASSERT_TRUE(WaitFor(*loop_, [&] { return closed_.has_value(); }));
  EXPECT_EQ(closed_->code(), ErrorCode::kAgentLost);
  EXPECT_EQ(Received<wire::HostLeaving>().size(), 1U);
}

TEST_F(ElasticAgentSessionTest, HostThatRetiresLeavesByItselfWhenTheNoticeIsOver) {
  Welcome();
  StartProbes(1, 1, {"wait"});
  ASSERT_TRUE(WaitUntilReady(1));
  session_->Retire(milliseconds(20), Maintenance(), 143);
  ASSERT_TRUE(WaitUntilDone());
  EXPECT_EQ(exit_code_, 143);
  EXPECT_EQ(Received<wire::HostLeaving>().size(), 1U);
}

TEST_F(ElasticAgentSessionTest, HostWithoutWorkersLeavesAtOnce) {
  Welcome();
  ASSERT_TRUE(WaitForSome<wire::Hello>());
  Settle();
  session_->Retire(hours(1), Maintenance(), 143);
  ASSERT_TRUE(WaitUntilDone());
  EXPECT_EQ(exit_code_, 143);
  EXPECT_TRUE(Received<wire::HostLeaving>().empty());
}

TEST_F(FixedAgentSessionTest, RetiringIsLeavingInAJobOfFixedSize) {
  Welcome();
  StartProbes(1, 1, {"wait"});
  ASSERT_TRUE(WaitUntilReady(1));
  session_->Retire(hours(1), Maintenance(), 143);
  ASSERT_TRUE(WaitUntilDone());
  EXPECT_EQ(exit_code_, 143);
  EXPECT_TRUE(Received<wire::HostLeaving>().empty());
}

TEST_F(FixedAgentSessionTest, OrdersOfElasticJobsAreStaleInAJobOfFixedSizeAndBeforeAnyJob) {
  link_->Send({1, wire::StopWorkers{{0}, 0}});
  link_->Send({1, wire::BreakConnections{}});
  link_->Send({1, wire::Notify{.worker = 0}});
  ASSERT_TRUE(WaitFor(*loop_, [&] { return session_->stale_requests() == 3; }));
  Welcome();
  StartProbes(1, 1, {"wait"});
  ASSERT_TRUE(WaitUntilReady(1));
  link_->Send({1, wire::StopWorkers{{0}, 0}});
  link_->Send({1, wire::BreakConnections{}});
  link_->Send({1, wire::Notify{.worker = 0}});
  ASSERT_TRUE(WaitFor(*loop_, [&] { return session_->stale_requests() == 6; }));
  EXPECT_TRUE(Received<wire::ConnectionsBroken>().empty());
  EXPECT_EQ(FindMarked(mark_).size(), 1U);
}

}  // namespace
}  // namespace hvdray
