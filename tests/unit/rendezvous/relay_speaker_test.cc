// SPDX-License-Identifier: Apache-2.0
// Who may say what: generations of workers, other workers' slots, and what they register.
#include <gtest/gtest.h>

#include <chrono>
#include <string>

#include "tests/unit/rendezvous/relay_core_harness.h"

namespace hvdray {
namespace {

// ({'eth0': [('10.0.0.5', 40123)]}, 32 x 'k'), as Python 3.8 and later pickles it.
constexpr const char* kAddresses =
    "gAWVQwAAAAAAAAB9lIwEZXRoMJRdlIwIMTAuMC4wLjWUTbuchpRhc0Mga2tra2tra2tra2tra2tra2tra2tra2tra2tr"
    "a2tra2uUhpQu";

class RelaySpeakerTest : public RelayCoreHarness {};

TEST_F(RelaySpeakerTest, AWorkerThatIsBehindTheStoreSeesAnEmptyOne) {
  OpenWorkers(2);
  Get(0, "/rank_and_size/h:0");
  NextQuestion();
  Reset(2);
  EXPECT_EQ(ReplyTo(Get(1, "/global/0")), "404");
  EXPECT_EQ(ReplyTo(Get(1, "/global/rank_0")), "404");
  EXPECT_EQ(ReplyTo(Put(1, "/global/1", "poison")), "200");
  EXPECT_EQ(ReplyTo(Delete(1, "/global/1")), "200");
  EXPECT_EQ(ReplyTo(Get(1, "/other/x")), "404");
  EXPECT_FALSE(HasQuestion()) << "nothing of it reaches the launcher";
  EXPECT_EQ(core_.stats().stale_requests, 5u);
}

TEST_F(RelaySpeakerTest, APlaceReleasesItsWorkerIntoTheNewGeneration) {
  OpenWorkers(1);
  const uint64_t place = Get(0, "/rank_and_size/h:0");
  const KvQuestion question = NextQuestion();
  Reset(2);
  EXPECT_EQ(ReplyTo(Put(0, "/global/0", "v")), "200") << "still of generation 1";
  EXPECT_FALSE(HasQuestion());
  AnswerIn(2, question, 200, "h:0", KvText("0,1,0,1,0,1"));
  EXPECT_EQ(ReplyTo(place), "200 0,1,0,1,0,1");
  Put(0, "/global/0", "v");
  EXPECT_EQ(NextQuestion().generation, 2u);
}

TEST_F(RelaySpeakerTest, AWorkerThatIsToldToLeaveIsNotReleased) {
  OpenWorkers(1);
  Get(0, "/rank_and_size/h:0");
  const KvQuestion question = NextQuestion();
  Reset(2);
  AnswerIn(2, question, 200, "h:0", KvText(std::string(kRemovedFromJob)));
  out_.replies.clear();
  EXPECT_EQ(ReplyTo(Put(0, "/global/0", "v")), "200");
  EXPECT_FALSE(HasQuestion());
}

TEST_F(RelaySpeakerTest, AWorkerThatIsAheadOfTheStoreWaitsForIt) {
  OpenWorkers(1);
  core_.OpenWorker(7, "h:1", 2);
  const uint64_t put = Put(7, "/global/rank_1", "h");
  const uint64_t get = Get(7, "/global/0");
  EXPECT_FALSE(HasQuestion());
  Advance(std::chrono::hours(1));
  EXPECT_EQ(ReplyTo(get), "-");
  Reset(2);
  const KvQuestion question = NextQuestion();
  EXPECT_EQ(question.op, KvOp::kPut);
  EXPECT_EQ(question.generation, 2u);
  EXPECT_EQ(NextQuestion().op, KvOp::kFollow);
  Answer(question, 200);
  EXPECT_EQ(ReplyTo(put), "200");
  EXPECT_EQ(core_.NextDeadline(), now_ + std::chrono::seconds(1));
}

TEST_F(RelaySpeakerTest, AResetThatIsNotYetItsOwnLeavesAnEarlyWorkerWaiting) {
  OpenWorkers(1);
  core_.OpenWorker(7, "h:1", 3);
  const uint64_t put = Put(7, "/global/rank_1", "h");
  Reset(2);
  EXPECT_EQ(ReplyTo(put), "-");
  Reset(3);
  EXPECT_EQ(NextQuestion().op, KvOp::kPut);
}

TEST_F(RelaySpeakerTest, TheWorkersOfANewGangWaitForTheResetToTheirGeneration) {
  OpenWorkers(2);
  Get(0, "/global/1");
  Answer(NextQuestion(), 200, "1", KvText("old"));
  core_.CloseWorker(0);
  core_.CloseWorker(1);
  OpenWorkers(2, 2);
  EXPECT_EQ(core_.generation(), 1u) << "only the launcher's word moves the store";
  Put(0, "/global/0", "new");
  EXPECT_FALSE(HasQuestion());
  Reset(2);
  EXPECT_EQ(core_.cached_bytes(), 0u);
  EXPECT_EQ(NextQuestion().generation, 2u);
  EXPECT_EQ(core_.held_requests(), 1u);
}

TEST_F(RelaySpeakerTest, AClosedWorkerIsForgottenWithAllThatItAsked) {
  OpenWorkers(2);
  Get(0, "/global/1");
  const KvQuestion follow = NextQuestion();
  Get(0, "/global/2");
  const uint64_t put = Put(0, "/global/0", "last words");
  const KvQuestion stored = NextQuestion();
  const uint64_t other = Get(1, "/global/1");
  EXPECT_EQ(core_.HeldBy(0).size(), 3u);
  core_.CloseWorker(0);
  EXPECT_EQ(core_.held_requests(), 1u);
  Answer(stored, 200);
  Answer(follow, 200, "1", KvText("v"));
  EXPECT_EQ(ReplyTo(put), "-");
  EXPECT_EQ(ReplyTo(other), "200 v");
  EXPECT_FALSE(HasReply());
  EXPECT_EQ(ReplyTo(Get(0, "/global/1")), "0") << "a listener that should be closed";
}

TEST_F(RelaySpeakerTest, AnotherSlotsPlaceIsRefusedAndNotCounted) {
  OpenWorkers(2);
  for (const char* slot : {"h:1", "h:7", "g:0", "h", "h:0:0", "h:00"}) {
    EXPECT_EQ(ReplyTo(Get(0, std::string("/rank_and_size/") + slot)),
              "200 " + std::string(kRemovedFromJob))
        << slot;
  }
  EXPECT_FALSE(HasQuestion()) << "the launcher must not take that slot for ready";
  EXPECT_EQ(core_.stats().refused_slots, 6u);
}

TEST_F(RelaySpeakerTest, PlacesCanOnlyBeAskedFor) {
  OpenWorkers(1);
  EXPECT_EQ(ReplyTo(Put(0, "/rank_and_size/h:0", "0,1,0,1,0,1")), "405");
  EXPECT_EQ(ReplyTo(Delete(0, "/rank_and_size/h:0")), "405");
  EXPECT_FALSE(HasQuestion());
}

TEST_F(RelaySpeakerTest, AddressesAreAnsweredAtOnceAndTravelWithoutTheKey) {
  OpenWorkers(1);
  EXPECT_EQ(ReplyTo(Put(0, "/worker_addresses/h:0", kAddresses)), "200");
  const KvQuestion question = NextQuestion();
  EXPECT_EQ(question.op, KvOp::kWorkerAddresses);
  EXPECT_EQ(question.key, "h:0");
  EXPECT_EQ(*question.value, "eth0 10.0.0.5:40123\n");
  EXPECT_EQ(question.value->find('k'), std::string::npos);
  ASSERT_NE(core_.AddressesOf(0), nullptr);
  EXPECT_EQ(core_.AddressesOf(0)->key[31], 'k') << "the notices are signed here";
  Answer(question, 200);
  EXPECT_FALSE(HasReply());
  core_.CloseWorker(0);
  EXPECT_EQ(core_.AddressesOf(0), nullptr);
}

TEST_F(RelaySpeakerTest, AddressesAreNeverServedBack) {
  OpenWorkers(2);
  Put(0, "/worker_addresses/h:0", kAddresses);
  NextQuestion();
  EXPECT_EQ(ReplyTo(Get(0, "/worker_addresses/h:0")), "404");
  EXPECT_EQ(ReplyTo(Get(1, "/worker_addresses/h:0")), "404");
  EXPECT_EQ(ReplyTo(Delete(0, "/worker_addresses/h:0")), "200");
  EXPECT_FALSE(HasQuestion());
  EXPECT_NE(core_.AddressesOf(0), nullptr);
}

TEST_F(RelaySpeakerTest, AddressesOfAnotherSlotAreForbidden) {
  OpenWorkers(2);
  EXPECT_EQ(ReplyTo(Put(0, "/worker_addresses/h:1", kAddresses)), "403");
  EXPECT_FALSE(HasQuestion());
  EXPECT_EQ(core_.AddressesOf(1), nullptr);
}

TEST_F(RelaySpeakerTest, BadAddressesCostThatOneRequest) {
  OpenWorkers(1);
  for (const char* body : {"", "!", "AAAA", "gAQu", "Y29zCnN5c3RlbQooUyd0cnVlJwp0Ui4="}) {
    EXPECT_EQ(ReplyTo(Put(0, "/worker_addresses/h:0", body)), "400") << body;
  }
  EXPECT_FALSE(HasQuestion());
  EXPECT_EQ(core_.stats().refused_requests, 5u);
  EXPECT_EQ(ReplyTo(Put(0, "/worker_addresses/h:0", kAddresses)), "200");
}

}  // namespace
}  // namespace hvdray
