// SPDX-License-Identifier: Apache-2.0
// Workers that are ahead of the store, as newcomers of an elastic job are, and what the relay keeps
// of the meshes of its generation.
#include <arpa/inet.h>
#include <gtest/gtest.h>
#include <netinet/in.h>

#include <chrono>
#include <cstring>
#include <string>

#include "tests/unit/rendezvous/relay_core_harness.h"

namespace hvdray {
namespace {

constexpr int kNewcomer = 70'000;

class RelayAheadTest : public RelayCoreHarness {
 protected:
  void SetUp() override {
    Reset(1);
    OpenWorkers(1);
    core_.OpenWorker(kNewcomer, "h:1", 2);
  }
  size_t Arrivals() const { return out_.arrivals.size(); }
};

TEST_F(RelayAheadTest, FirstPutOfAHorovodMeshIsAnArrivalAndLaterOnesAreNot) {
  const uint64_t first = Put(kNewcomer, "/global/rank_1", "h");
  ASSERT_EQ(Arrivals(), 1u);
  EXPECT_EQ(out_.arrivals.front(), kNewcomer);
  const uint64_t second = Put(kNewcomer, "/global/1", "address");
  EXPECT_EQ(Arrivals(), 1u);
  EXPECT_EQ(ReplyTo(first), "-");
  EXPECT_EQ(ReplyTo(second), "-");
  EXPECT_FALSE(HasQuestion());
}

TEST_F(RelayAheadTest, OtherRequestsAreHeldAndAreNoArrival) {
  const uint64_t get = Get(kNewcomer, "/global/0");
  const uint64_t name = Get(kNewcomer, "/global/rank_0");
  const uint64_t other = Put(kNewcomer, "/settings/x", "v");
  const uint64_t gone = Delete(kNewcomer, "/global/1");
  EXPECT_EQ(Arrivals(), 0u);
  Advance(std::chrono::hours(1));
  for (const uint64_t request : {get, name, other, gone}) EXPECT_EQ(ReplyTo(request), "-");
  EXPECT_FALSE(HasQuestion());
  EXPECT_EQ(core_.held_requests(), 4u);
}

TEST_F(RelayAheadTest, WorkerOfThePresentGenerationNeverArrives) {
  Put(0, "/global/rank_0", "h");
  EXPECT_EQ(Arrivals(), 0u);
  EXPECT_EQ(NextQuestion().rank, 0);
}

TEST_F(RelayAheadTest, ResetToItsGenerationSendsOnWhatWasHeldInItsOrder) {
  Put(kNewcomer, "/global/rank_1", "h");
  const uint64_t get = Get(kNewcomer, "/global/0");
  const uint64_t put = Put(kNewcomer, "/other/x", "v");
  Reset(2);
  const KvQuestion first = NextQuestion();
  EXPECT_EQ(first.op, KvOp::kPut);
  EXPECT_EQ(first.key, "rank_1");
  EXPECT_EQ(*first.value, "h");
  EXPECT_EQ(first.rank, kNewcomer);
  EXPECT_EQ(first.generation, 2u);
  const KvQuestion follow = NextQuestion();
  EXPECT_EQ(follow.op, KvOp::kFollow);
  const KvQuestion last = NextQuestion();
  EXPECT_EQ(*last.value, "v");
  Answer(last, 200);
  EXPECT_EQ(ReplyTo(put), "200");
  Answer(follow, 200, "0", KvText("address"));
  EXPECT_EQ(ReplyTo(get), "200 address");
  Put(kNewcomer, "/global/1", "mine");
  EXPECT_EQ(Arrivals(), 1u) << "it has arrived once";
}

TEST_F(RelayAheadTest, ResetBeyondItsGenerationMakesItStale) {
  const uint64_t put = Put(kNewcomer, "/global/rank_1", "h");
  const uint64_t get = Get(kNewcomer, "/global/0");
  Reset(3);
  EXPECT_EQ(ReplyTo(put), "200");
  EXPECT_EQ(ReplyTo(get), "404");
  EXPECT_FALSE(HasQuestion()) << "nothing of it reaches the launcher";
  EXPECT_EQ(core_.stats().stale_requests, 2u);
  EXPECT_EQ(core_.GenerationOf(kNewcomer), 2u);
}

TEST_F(RelayAheadTest, OpeningAWorkerDoesNotMoveAStoreThatWasReset) {
  EXPECT_EQ(core_.generation(), 1u);
  const uint64_t held = Get(0, "/global/1");
  core_.OpenWorker(kNewcomer + 1, "h:2", 5);
  EXPECT_EQ(core_.generation(), 1u);
  EXPECT_EQ(ReplyTo(held), "-") << "the gang of the present goes on";
  EXPECT_EQ(NextQuestion().generation, 1u);
}

TEST_F(RelayAheadTest, NewcomerThatDiesLeavesNothingHeldAndItsNumberMayArriveAgain) {
  Put(kNewcomer, "/global/rank_1", "h");
  core_.CloseWorker(kNewcomer);
  EXPECT_EQ(core_.held_requests(), 0u);
  EXPECT_EQ(core_.GenerationOf(kNewcomer), 0u);
  Reset(2);
  EXPECT_FALSE(HasQuestion());
  core_.OpenWorker(kNewcomer, "h:1", 3);
  Put(kNewcomer, "/global/rank_1", "h");
  EXPECT_EQ(Arrivals(), 2u);
}

TEST_F(RelayAheadTest, NewcomerMayWaitForItsPlaceBesides) {
  const uint64_t place = Get(kNewcomer, "/rank_and_size/h:1");
  const KvQuestion question = NextQuestion();
  EXPECT_TRUE(core_.IsParked(kNewcomer));
  Reset(2);
  AnswerIn(2, question, 200, "h:1", KvText("1,2,1,2,0,1"));
  EXPECT_EQ(ReplyTo(place), "200 1,2,1,2,0,1");
  EXPECT_EQ(Arrivals(), 0u);
}

TEST_F(RelayAheadTest, GenerationOfIsThatOfItsStartUntilAPlaceReleasesIt) {
  EXPECT_EQ(core_.GenerationOf(0), 1u);
  EXPECT_EQ(core_.GenerationOf(kNewcomer), 2u);
  EXPECT_EQ(core_.GenerationOf(5), 0u);
  EXPECT_FALSE(core_.IsParked(0));
  EXPECT_FALSE(core_.IsParked(5));
  Get(0, "/rank_and_size/h:0");
  const KvQuestion question = NextQuestion();
  EXPECT_TRUE(core_.IsParked(0));
  Reset(2);
  EXPECT_TRUE(core_.IsParked(0)) << "a reset does not answer it";
  EXPECT_EQ(core_.GenerationOf(0), 1u);
  AnswerIn(2, question, 200, "h:0", KvText("0,2,0,2,0,1"));
  EXPECT_FALSE(core_.IsParked(0));
  EXPECT_EQ(core_.GenerationOf(0), 2u);
}

TEST_F(RelayAheadTest, OtherHeldRequestsAreNoParking) {
  Get(0, "/global/1");
  EXPECT_FALSE(core_.IsParked(0));
  Put(kNewcomer, "/global/rank_1", "h");
  EXPECT_FALSE(core_.IsParked(kNewcomer));
}

// A value of a member of two: one record.
std::string AddressOf(uint16_t port) {
  std::string record(kMeshRecordBytes, '\xA5');
  sockaddr_in end{};
  end.sin_family = AF_INET;
  end.sin_port = htons(port);
  end.sin_addr.s_addr = ::inet_addr("10.0.0.1");
  std::memcpy(record.data(), &end, sizeof end);
  return record;
}

class RelayBarrierTest : public RelayCoreHarness {
 protected:
  explicit RelayBarrierTest(RelayCoreOptions options = {.is_barrier_held = true})
      : RelayCoreHarness(options) {}
  void SetUp() override {
    Reset(1);
    OpenWorkers(2);
  }
  void PutAndAnswer(int worker, const std::string& target, const std::string& body) {
    const uint64_t put = Put(worker, target, body);
    Answer(NextQuestion(), 200);
    EXPECT_EQ(ReplyTo(put), "200");
  }
};

TEST_F(RelayBarrierTest, NothingIsServedBeforeAllIsThere) {
  PutAndAnswer(0, "/global/0", "of 0");
  const uint64_t own = Get(1, "/global/0");
  const KvQuestion follow = NextQuestion();
  EXPECT_EQ(ReplyTo(own), "-") << "of this host, and in the cache";
  Answer(follow, 200, "2", KvText("of 2"));
  const uint64_t other = Get(1, "/global/2");
  EXPECT_EQ(ReplyTo(other), "-");
  Advance(std::chrono::seconds(60));
  EXPECT_FALSE(HasReply()) << "a 404 would count against Gloo's timeout";
  Answer(follow, 404);
  EXPECT_EQ(ReplyTo(own), "200 of 0");
  EXPECT_EQ(ReplyTo(other), "200 of 2");
  EXPECT_EQ(ReplyTo(Get(0, "/global/2")), "200 of 2");
}

TEST_F(RelayBarrierTest, WhoIsStartedAgainTakesThePlaceOfItsValue) {
  PutAndAnswer(0, "/global/0", "dead");
  const uint64_t waiting = Get(1, "/global/0");
  const KvQuestion follow = NextQuestion();
  core_.CloseWorker(0);
  core_.OpenWorker(0, "h:0", 1);
  PutAndAnswer(0, "/global/0", "alive");
  Answer(follow, 404);
  EXPECT_EQ(ReplyTo(waiting), "200 alive");
}

TEST_F(RelayBarrierTest, OtherScopesAreServedAsTheyCome) {
  PutAndAnswer(0, "/local_h/0", "of 0");
  EXPECT_EQ(ReplyTo(Get(1, "/local_h/0")), "200 of 0");
}

class SmallBarrierTest : public RelayBarrierTest {
 protected:
  SmallBarrierTest() : RelayBarrierTest({.cache_bytes = 10, .is_barrier_held = true}) {}
};

TEST_F(SmallBarrierTest, AValueThatTheCacheDoesNotHoldIsAskedForWhenAllIsThere) {
  PutAndAnswer(0, "/global/0", "of 0");
  const uint64_t waiting = Get(1, "/global/0");
  const KvQuestion follow = NextQuestion();
  if (HasQuestion()) Answer(NextQuestion(), 404);
  Answer(follow, 404);
  EXPECT_EQ(ReplyTo(waiting), "-");
  Answer(NextQuestion(), 200, "0", KvText("of 0"));
  EXPECT_EQ(ReplyTo(waiting), "200 of 0");
}

class RelayMeshTest : public RelayCoreHarness {
 protected:
  explicit RelayMeshTest(RelayCoreOptions options = {.is_mesh_kept = true})
      : RelayCoreHarness(options) {}
  void SetUp() override {
    Reset(1);
    OpenWorkers(2);
  }
  std::string Mesh() const {
    std::string text;
    for (const TcpAddress& address : core_.mesh().Addresses()) text += address.ToString() + " ";
    return text;
  }
};

TEST_F(RelayMeshTest, OwnPutsAreNotedAtOnce) {
  Put(0, "/global/0", AddressOf(4000));
  EXPECT_EQ(Mesh(), "10.0.0.1:4000 ");
  Put(1, "/local_h/1", AddressOf(4001));
  EXPECT_EQ(Mesh(), "10.0.0.1:4000 10.0.0.1:4001 ");
  Put(0, "/settings/0", AddressOf(9));
  Put(0, "/global/rank_0", AddressOf(9));
  EXPECT_EQ(Mesh(), "10.0.0.1:4000 10.0.0.1:4001 ");
}

TEST_F(RelayMeshTest, ValuesOfOtherHostsAreNotedAsTheyCome) {
  Get(0, "/global/1");
  const KvQuestion follow = NextQuestion();
  Answer(follow, 200, "1", KvText(AddressOf(4001)));
  EXPECT_EQ(Mesh(), "10.0.0.1:4001 ");
  Answer(follow, 200, "0", KvText(AddressOf(4000)));
  EXPECT_EQ(Mesh(), "10.0.0.1:4000 10.0.0.1:4001 ") << "whoever asked for it";
}

class SmallMeshTest : public RelayMeshTest {
 protected:
  SmallMeshTest() : RelayMeshTest({.cache_bytes = 200, .is_mesh_kept = true}) {}
};

TEST_F(SmallMeshTest, ValuesThatTheCacheDoesNotHoldAreNotedToo) {
  Get(0, "/global/1");
  const KvQuestion follow = NextQuestion();
  Answer(follow, 200, "0", KvText(AddressOf(4000)));
  EXPECT_EQ(core_.cached_bytes(), 0u);
  EXPECT_EQ(Mesh(), "10.0.0.1:4000 ");
  Get(1, "/global/1");
  const KvQuestion fetch = NextQuestion();
  ASSERT_EQ(fetch.op, KvOp::kGet);
  Answer(fetch, 200, "1", KvText(AddressOf(4001)));
  EXPECT_EQ(Mesh(), "10.0.0.1:4000 10.0.0.1:4001 ");
}

TEST_F(RelayMeshTest, StaysThroughDeletesAndIsClearedByAReset) {
  Put(0, "/global/0", AddressOf(4000));
  Delete(0, "/global/0");
  Delete(1, "/global/1");
  EXPECT_EQ(Mesh(), "10.0.0.1:4000 ") << "the connections live on";
  Reset(1);
  EXPECT_EQ(Mesh(), "10.0.0.1:4000 ") << "the same generation again";
  Reset(2);
  EXPECT_EQ(Mesh(), "");
}

TEST_F(RelayMeshTest, StaleAndEarlyPutsAreNotOfThisMesh) {
  core_.OpenWorker(kNewcomer, "h:2", 2);
  Put(kNewcomer, "/global/1", AddressOf(4001));
  EXPECT_EQ(Mesh(), "");
  Reset(2);
  EXPECT_EQ(Mesh(), "10.0.0.1:4001 ");
  Put(0, "/global/0", AddressOf(4000));
  EXPECT_EQ(Mesh(), "10.0.0.1:4001 ") << "worker 0 is of generation 1";
}

TEST_F(RelayMeshTest, ForeignValueIsAProblemUntilTheNextReset) {
  Put(0, "/global/0", "short");
  EXPECT_NE(core_.mesh().problem(), "");
  Reset(2);
  EXPECT_EQ(core_.mesh().problem(), "");
}

class RelayWithoutMeshTest : public RelayMeshTest {
 protected:
  RelayWithoutMeshTest() : RelayMeshTest(RelayCoreOptions{}) {}
};

TEST_F(RelayWithoutMeshTest, NothingIsKeptUnlessItIsAskedFor) {
  Put(0, "/global/0", AddressOf(4000));
  Get(0, "/local_h/1");
  NextQuestion();
  Answer(NextQuestion(), 200, "1", KvText(AddressOf(4001)));
  EXPECT_EQ(Mesh(), "");
  EXPECT_EQ(core_.mesh().problem(), "");
}

}  // namespace
}  // namespace hvdray
