// SPDX-License-Identifier: Apache-2.0
#include "rendezvous/relay_core.h"

#include <gtest/gtest.h>

#include <chrono>
#include <string>
#include <vector>

#include "tests/unit/rendezvous/relay_core_harness.h"

namespace hvdray {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

class RelayCoreTest : public RelayCoreHarness {};

// Order and lifetime.

TEST_F(RelayCoreTest, APutIsAnsweredOnlyAfterTheLauncherHasStoredIt) {
  OpenWorkers(1);
  const uint64_t put = Put(0, "/global/0", "v");
  EXPECT_EQ(ReplyTo(put), "-");
  const KvQuestion question = NextQuestion();
  EXPECT_EQ(question.op, KvOp::kPut);
  EXPECT_EQ(question.scope, "global");
  EXPECT_EQ(question.key, "0");
  EXPECT_EQ(*question.value, "v");
  EXPECT_EQ(question.rank, 0);
  EXPECT_EQ(question.generation, 1u);
  Advance(seconds(3600));
  EXPECT_EQ(ReplyTo(put), "-") << "a slow launcher is a held request";
  Answer(question, 200);
  EXPECT_EQ(ReplyTo(put), "200");
}

TEST_F(RelayCoreTest, ADeleteIsAnsweredOnlyAfterTheLauncherHasDeleted) {
  OpenWorkers(1);
  const uint64_t deleted = Delete(0, "/global/0");
  EXPECT_EQ(ReplyTo(deleted), "-");
  const KvQuestion question = NextQuestion();
  EXPECT_EQ(question.op, KvOp::kDelete);
  Answer(question, 200);
  EXPECT_EQ(ReplyTo(deleted), "200");
}

TEST_F(RelayCoreTest, QuestionsLeaveInTheOrderOfTheRequests) {
  OpenWorkers(3);
  Put(0, "/global/0", "a");
  Get(1, "/other/x");
  Delete(2, "/global/2");
  Get(0, "/global/1");
  uint64_t last = 0;
  for (const KvOp op : {KvOp::kPut, KvOp::kGet, KvOp::kDelete, KvOp::kFollow}) {
    const KvQuestion question = NextQuestion();
    EXPECT_EQ(question.op, op);
    EXPECT_GT(question.id, last);
    last = question.id;
  }
}

TEST_F(RelayCoreTest, AResetAnswersWhatIsHeldAndKeepsOnlyTheWaitForAPlace) {
  OpenWorkers(5);
  const uint64_t get = Get(0, "/global/7");
  const uint64_t pass = Get(1, "/other/x");
  const uint64_t put = Put(2, "/global/2", "v");
  const uint64_t deleted = Delete(3, "/global/3");
  const uint64_t place = Get(4, "/rank_and_size/h:4");
  Reset(2);
  EXPECT_EQ(ReplyTo(get), "404");
  EXPECT_EQ(ReplyTo(pass), "404");
  EXPECT_EQ(ReplyTo(put), "200");
  EXPECT_EQ(ReplyTo(deleted), "200");
  EXPECT_EQ(ReplyTo(place), "-");
  EXPECT_EQ(core_.held_requests(), 1u);
  EXPECT_EQ(core_.cached_bytes(), 0u);
}

TEST_F(RelayCoreTest, AnswersToQuestionsFromBeforeAResetAreDropped) {
  OpenWorkers(2);
  Get(0, "/global/1");
  const KvQuestion follow = NextQuestion();
  Put(1, "/global/1", "old");
  const KvQuestion put = NextQuestion();
  Reset(2);
  out_.replies.clear();
  AnswerIn(1, follow, 200, "1", KvText("old"));
  AnswerIn(2, put, 200);
  EXPECT_FALSE(HasReply());
  EXPECT_EQ(core_.stats().dropped_answers, 2u);
  EXPECT_EQ(core_.cached_bytes(), 0u);
}

TEST_F(RelayCoreTest, AResetToAnOlderOrTheSameGenerationDoesNothing) {
  OpenWorkers(1, 3);
  const uint64_t get = Get(0, "/global/1");
  Reset(3);
  Reset(2);
  EXPECT_EQ(ReplyTo(get), "-");
  EXPECT_EQ(core_.generation(), 3u);
}

// Values and deletes.

TEST_F(RelayCoreTest, AValueThatCameOnceServesAllWorkersOfTheHost) {
  OpenWorkers(3);
  const uint64_t first = Get(0, "/global/9");
  const KvQuestion follow = NextQuestion();
  EXPECT_EQ(follow.op, KvOp::kFollow);
  EXPECT_EQ(follow.scope, "global");
  const uint64_t second = Get(1, "/global/9");
  EXPECT_FALSE(HasQuestion()) << "one follow a scope";
  Answer(follow, 200, "9", KvText("v"));
  EXPECT_EQ(ReplyTo(first), "200 v");
  EXPECT_EQ(ReplyTo(second), "200 v");
  EXPECT_EQ(ReplyTo(Get(2, "/global/9")), "200 v");
  EXPECT_FALSE(HasQuestion());
  EXPECT_EQ(core_.stats().served_from_cache, 1u);
}

TEST_F(RelayCoreTest, ACachedValueIsSharedNotCopied) {
  OpenWorkers(1);
  Get(0, "/global/9");
  const KvValue value = KvText("v");
  Answer(NextQuestion(), 200, "9", value);
  out_.replies.clear();
  Get(0, "/global/9");
  EXPECT_EQ(out_.replies.front().body.get(), value.get());
}

TEST_F(RelayCoreTest, AnEmptyValueIsAValue) {
  OpenWorkers(1);
  const uint64_t get = Get(0, "/global/9");
  Answer(NextQuestion(), 200, "9", nullptr);
  EXPECT_EQ(ReplyTo(get), "200");
  EXPECT_EQ(ReplyTo(Get(0, "/global/9")), "200");
}

TEST_F(RelayCoreTest, TheOwnWorkersValuesAreServedOnceStored) {
  OpenWorkers(2);
  Put(0, "/global/0", "mine");
  const KvQuestion put = NextQuestion();
  const uint64_t get = Get(1, "/global/0");
  EXPECT_EQ(ReplyTo(get), "-") << "not before the launcher has it";
  Answer(put, 200);
  EXPECT_EQ(ReplyTo(get), "200 mine");
  EXPECT_EQ(ReplyTo(Get(1, "/global/0")), "200 mine");
}

TEST_F(RelayCoreTest, AValueThatTheLauncherRefusedIsNotServed) {
  OpenWorkers(2);
  const uint64_t put = Put(0, "/global/0", "mine");
  Answer(NextQuestion(), 503);
  EXPECT_EQ(ReplyTo(put), "503");
  EXPECT_EQ(ReplyTo(Get(1, "/global/0")), "-");
}

TEST_F(RelayCoreTest, ADeleteOfAnOwnWorkerDropsTheWholeScope) {
  OpenWorkers(2);
  Get(0, "/global/8");
  const KvQuestion follow = NextQuestion();
  Answer(follow, 200, "8", KvText("a"));
  Answer(follow, 200, "9", KvText("b"));
  Delete(0, "/global/0");
  EXPECT_EQ(NextQuestion().op, KvOp::kUnfollow);
  EXPECT_EQ(NextQuestion().op, KvOp::kDelete);
  EXPECT_EQ(core_.cached_bytes(), 0u);
  EXPECT_EQ(ReplyTo(Get(1, "/global/9")), "-");
  EXPECT_EQ(NextQuestion().op, KvOp::kFollow);
}

TEST_F(RelayCoreTest, ADropLeavesOtherScopesAlone) {
  OpenWorkers(1);
  Get(0, "/global/9");
  Answer(NextQuestion(), 200, "9", KvText("v"));
  Delete(0, "/local_h/0");
  out_.replies.clear();
  EXPECT_EQ(ReplyTo(Get(0, "/global/9")), "200 v");
}

TEST_F(RelayCoreTest, WhatWasAskedBeforeADropIsNotKept) {
  OpenWorkers(2);
  Get(0, "/global/9");
  const KvQuestion old_follow = NextQuestion();
  Put(1, "/global/1", "old");
  const KvQuestion old_put = NextQuestion();
  Delete(0, "/global/0");
  NextQuestion();  // unfollow
  NextQuestion();  // delete
  Answer(old_put, 200);
  Answer(old_follow, 200, "9", KvText("old"));
  EXPECT_EQ(core_.cached_bytes(), 0u);
  EXPECT_EQ(ReplyTo(Get(1, "/global/1")), "-");
}

TEST_F(RelayCoreTest, WhoeverStillReadsAtADropIsServedByAFreshFollow) {
  OpenWorkers(2);
  const uint64_t reader = Get(1, "/global/9");
  NextQuestion();
  Delete(0, "/global/0");
  EXPECT_EQ(NextQuestion().op, KvOp::kUnfollow);
  EXPECT_EQ(NextQuestion().op, KvOp::kDelete);
  const KvQuestion fresh = NextQuestion();
  EXPECT_EQ(fresh.op, KvOp::kFollow);
  Answer(fresh, 200, "9", KvText("v"));
  EXPECT_EQ(ReplyTo(reader), "200 v");
}

TEST_F(RelayCoreTest, RankNamesAreAnsweredAtOnceFromThisHost) {
  OpenWorkers(3);
  EXPECT_EQ(ReplyTo(Get(1, "/global/rank_0")), "404");
  EXPECT_FALSE(HasQuestion()) << "no round trip for what only tells who is on this machine";
  Put(0, "/global/rank_0", "h");
  const KvQuestion put = NextQuestion();
  EXPECT_EQ(put.op, KvOp::kPut) << "the launcher sees it, though";
  Answer(put, 200);
  EXPECT_EQ(ReplyTo(Get(1, "/global/rank_0")), "200 h");
  EXPECT_EQ(ReplyTo(Get(1, "/global_process_set_hash_a/rank_0")), "404");
  EXPECT_EQ(core_.held_requests(), 0u);
}

TEST_F(RelayCoreTest, OtherScopesAndKeysArePassedThrough) {
  OpenWorkers(1);
  for (const char* target : {"/runfunc/func", "/runfunc_result/0", "/global/note", "/x/rank_0"}) {
    const uint64_t get = Get(0, target);
    const KvQuestion question = NextQuestion();
    EXPECT_EQ(question.op, KvOp::kGet) << target;
    Answer(question, 200, question.key, KvText("v"));
    EXPECT_EQ(ReplyTo(get), "200 v");
    const uint64_t again = Get(0, target);
    Answer(NextQuestion(), 404);
    EXPECT_EQ(ReplyTo(again), "404");
  }
  EXPECT_EQ(core_.cached_bytes(), 0u);
}

TEST_F(RelayCoreTest, InOurOwnScopesRankNamesComeFromEverywhere) {
  OpenWorkers(1);
  const uint64_t name = Get(0, "/hvdray_job_1/rank_5");
  Answer(NextQuestion(), 200, "rank_5", KvText("far"));
  EXPECT_EQ(ReplyTo(name), "200 far");
  Get(0, "/hvdray_job_1/5");
  EXPECT_EQ(NextQuestion().op, KvOp::kFollow);
}

// Waiting.

TEST_F(RelayCoreTest, AGetOfAMissingNumberIsHeldAndThenToldThatItIsAbsent) {
  OpenWorkers(1);
  const uint64_t get = Get(0, "/global/1");
  AnswerNothingYet(NextQuestion());
  EXPECT_EQ(core_.NextDeadline(), now_ + seconds(1));
  Advance(milliseconds(999));
  EXPECT_EQ(ReplyTo(get), "-");
  Advance(milliseconds(1));
  EXPECT_EQ(ReplyTo(get), "404");
  EXPECT_EQ(core_.stats().held_too_long, 1u);
  EXPECT_EQ(core_.NextDeadline(), std::nullopt);
}

TEST_F(RelayCoreTest, AfterAHoldTheFollowGoesOn) {
  OpenWorkers(1);
  Get(0, "/global/1");
  const KvQuestion follow = NextQuestion();
  AnswerNothingYet(follow);
  Advance(seconds(1));
  const uint64_t again = Get(0, "/global/1");
  EXPECT_FALSE(HasQuestion());
  Answer(follow, 200, "1", KvText("v"));
  EXPECT_EQ(ReplyTo(again), "200 v");
}

TEST_F(RelayCoreTest, NothingIsCalledAbsentBeforeTheLauncherHasSaidSo) {
  OpenWorkers(3);
  const uint64_t early = Get(0, "/global/1");
  const KvQuestion follow = NextQuestion();
  Advance(seconds(10));
  const uint64_t late = Get(1, "/global/1");
  const uint64_t present = Get(2, "/global/2");
  Advance(seconds(20));
  EXPECT_FALSE(HasReply());
  Answer(follow, 200, "2", KvText("v"));
  EXPECT_EQ(ReplyTo(present), "200 v");
  AnswerNothingYet(follow);
  EXPECT_EQ(ReplyTo(early), "404");
  EXPECT_EQ(ReplyTo(late), "404");
}

TEST_F(RelayCoreTest, AValueThatWasReadOnceIsStillThereAfterADrop) {
  // Horovod before 0.23 has no barrier: a neighbour's DELETE may come between the two GETs of one
  // value, and a 404 to the second would be taken for an empty value.
  OpenWorkers(2);
  const uint64_t first = Get(0, "/global/9");
  Answer(NextQuestion(), 200, "9", KvText("v"));
  EXPECT_EQ(ReplyTo(first), "200 v");
  Delete(1, "/global/1");
  const uint64_t second = Get(0, "/global/9");
  Advance(seconds(5));
  EXPECT_EQ(ReplyTo(second), "-");
  NextQuestion();  // unfollow
  NextQuestion();  // delete
  Answer(NextQuestion(), 200, "9", KvText("v"));
  EXPECT_EQ(ReplyTo(second), "200 v");
}

TEST_F(RelayCoreTest, HoldsEndEachAtItsOwnTime) {
  OpenWorkers(3);
  const uint64_t first = Get(0, "/global/1");
  AnswerNothingYet(NextQuestion());
  Advance(milliseconds(400));
  const uint64_t second = Get(1, "/global/1");
  Advance(milliseconds(400));
  const uint64_t third = Get(2, "/global/2");
  Advance(milliseconds(200));
  EXPECT_EQ(ReplyTo(first), "404");
  EXPECT_EQ(ReplyTo(second), "-");
  Advance(milliseconds(400));
  EXPECT_EQ(ReplyTo(second), "404");
  EXPECT_EQ(ReplyTo(third), "-");
  Advance(milliseconds(400));
  EXPECT_EQ(ReplyTo(third), "404");
}

TEST_F(RelayCoreTest, AnsweredHoldsLeaveNoDeadlineThatWakesForNothing) {
  OpenWorkers(2);
  Get(0, "/global/1");
  const KvQuestion follow = NextQuestion();
  Advance(milliseconds(500));
  Get(1, "/global/2");
  Answer(follow, 200, "1", KvText("v"));
  Advance(milliseconds(0));
  EXPECT_EQ(core_.NextDeadline(), now_ + seconds(1));
}

TEST_F(RelayCoreTest, AfterALossNobodyWaitsForAddresses) {
  OpenWorkers(2);
  const uint64_t waiting = Get(0, "/global/2");
  const uint64_t ours = Get(0, "/hvdray_x/2");
  const uint64_t place = Get(1, "/rank_and_size/h:1");
  core_.EndMeshes(2, &out_);
  EXPECT_EQ(ReplyTo(waiting), "-") << "that is another generation";
  core_.EndMeshes(1, &out_);
  EXPECT_EQ(ReplyTo(waiting), "200") << "empty: Gloo fails on it at once";
  EXPECT_EQ(ReplyTo(Get(1, "/local_h_process_set_hash_ab/0")), "200");
  EXPECT_EQ(ReplyTo(Get(1, "/local_h/rank_0")), "404");
  EXPECT_EQ(ReplyTo(ours), "-");
  EXPECT_EQ(ReplyTo(place), "-");
}

TEST_F(RelayCoreTest, AfterALossEvenValuesThatAreThereAreNotHandedOut) {
  OpenWorkers(2);
  Get(0, "/global/1");
  const KvQuestion follow = NextQuestion();
  Answer(follow, 200, "1", KvText("there"));
  EXPECT_EQ(ReplyTo(Get(1, "/global/1")), "200 there");
  core_.EndMeshes(1, &out_);
  EXPECT_EQ(ReplyTo(Get(1, "/global/1")), "200");
  const uint64_t put = Put(1, "/local_h/1", "mine");
  EXPECT_EQ(ReplyTo(put), "-") << "it is stored as always";
}

TEST_F(RelayCoreTest, TheNextGenerationMeetsAsAlways) {
  OpenWorkers(1);
  core_.EndMeshes(1, &out_);
  Reset(2);
  core_.OpenWorker(0, "h:0", 2);
  EXPECT_EQ(ReplyTo(Get(0, "/global/1")), "-");
}

TEST_F(RelayCoreTest, AWaitForAPlaceHasNoLimit) {
  OpenWorkers(1);
  const uint64_t place = Get(0, "/rank_and_size/h:0");
  const KvQuestion question = NextQuestion();
  EXPECT_EQ(question.op, KvOp::kRankAndSize);
  EXPECT_EQ(question.key, "h:0");
  Advance(std::chrono::hours(24));
  EXPECT_EQ(ReplyTo(place), "-");
  Answer(question, 200, "h:0", KvText("0,1,0,1,0,1"));
  EXPECT_EQ(ReplyTo(place), "200 0,1,0,1,0,1");
}

TEST_F(RelayCoreTest, APlaceIsNeverAnsweredWithAnythingButAPlace) {
  OpenWorkers(1);
  for (const int status : {404, 503, 200}) {
    const uint64_t place = Get(0, "/rank_and_size/h:0");
    Answer(NextQuestion(), status);
    EXPECT_EQ(ReplyTo(place), "200 " + std::string(kRemovedFromJob));
  }
}

TEST_F(RelayCoreTest, ASecondWaitForTheSamePlaceReplacesTheFirst) {
  OpenWorkers(1);
  const uint64_t first = Get(0, "/rank_and_size/h:0");
  const KvQuestion question = NextQuestion();
  const uint64_t second = Get(0, "/rank_and_size/h:0");
  EXPECT_FALSE(HasQuestion()) << "the launcher knows already";
  EXPECT_EQ(ReplyTo(first), "0");
  Answer(question, 200, "h:0", KvText("0,1,0,1,0,1"));
  EXPECT_EQ(ReplyTo(second), "200 0,1,0,1,0,1");
  EXPECT_EQ(core_.held_requests(), 0u);
}

TEST_F(RelayCoreTest, AWaitForAPlaceOutlivesItsConnectionButNotItsProcess) {
  OpenWorkers(2);
  const uint64_t gone = Get(0, "/rank_and_size/h:0");
  const KvQuestion question = NextQuestion();
  core_.OnGone(gone);
  const uint64_t again = Get(0, "/rank_and_size/h:0");
  EXPECT_FALSE(HasQuestion());
  core_.CloseWorker(0);
  Answer(question, 200, "h:0", KvText("0,1,0,1,0,1"));
  EXPECT_EQ(ReplyTo(gone), "-");
  EXPECT_EQ(ReplyTo(again), "-");
  EXPECT_EQ(core_.stats().dropped_answers, 1u);
}

TEST_F(RelayCoreTest, ARequestWhosePeerIsGoneIsNotAnswered) {
  OpenWorkers(3);
  const uint64_t a = Get(0, "/global/1");
  const KvQuestion follow = NextQuestion();
  const uint64_t b = Get(1, "/global/1");
  const uint64_t put = Put(2, "/global/2", "v");
  const KvQuestion asked = NextQuestion();
  core_.OnGone(a);
  core_.OnGone(put);
  core_.OnGone(put);
  Answer(follow, 200, "1", KvText("v"));
  Answer(asked, 200);
  EXPECT_EQ(ReplyTo(a), "-");
  EXPECT_EQ(ReplyTo(b), "200 v");
  EXPECT_EQ(ReplyTo(put), "-");
  EXPECT_EQ(core_.held_requests(), 0u);
  EXPECT_EQ(ReplyTo(Get(0, "/global/2")), "200 v") << "the launcher has stored it all the same";
}

// Limits.

TEST_F(RelayCoreTest, AWorkerMayLeaveEightRequestsUnanswered) {
  OpenWorkers(2);
  for (size_t i = 0; i < kMaxHeldPerWorker; ++i) Get(0, "/global/" + std::to_string(i + 10));
  AnswerNothingYet(NextQuestion());
  EXPECT_EQ(ReplyTo(Get(0, "/global/99")), "503");
  EXPECT_EQ(ReplyTo(Get(1, "/global/99")), "-") << "it takes nothing from the others";
  EXPECT_EQ(core_.stats().over_limit, 1u);
  Advance(seconds(1));
  EXPECT_EQ(ReplyTo(Get(0, "/global/99")), "-");
}

TEST_F(RelayCoreTest, ScopesBeyondTheLimitArePassedThrough) {
  OpenWorkers(1);
  for (size_t i = 0; i < kMaxRelayScopes; ++i) {
    core_.OnGone(Get(0, "/local_" + std::to_string(i) + "/0"));
  }
  out_.questions.clear();
  const uint64_t get = Get(0, "/local_more/0");
  const KvQuestion question = NextQuestion();
  EXPECT_EQ(question.op, KvOp::kGet);
  Answer(question, 200, "0", KvText("v"));
  EXPECT_EQ(ReplyTo(get), "200 v");
  Put(0, "/local_more/1", "w");
  Answer(NextQuestion(), 200);
  EXPECT_EQ(core_.cached_bytes(), 0u);
}

class SmallRelayCoreTest : public RelayCoreHarness {
 protected:
  SmallRelayCoreTest() : RelayCoreHarness(RelayCoreOptions{seconds(1), 1000}) {}
};

TEST_F(SmallRelayCoreTest, WhatDoesNotFitTheCacheIsAskedForByKey) {
  OpenWorkers(2);
  const uint64_t small = Get(0, "/global/1");
  const KvQuestion follow = NextQuestion();
  const uint64_t large = Get(1, "/global/2");
  Answer(follow, 200, "1", KvText("a"));
  Answer(follow, 200, "2", KvText(std::string(2000, 'b')));
  EXPECT_EQ(ReplyTo(small), "200 a");
  EXPECT_EQ(ReplyTo(large), "200 " + std::string(2000, 'b')) << "delivered, though not kept";
  EXPECT_LE(core_.cached_bytes(), 1000u);

  const uint64_t again = Get(1, "/global/2");
  const KvQuestion fetch = NextQuestion();
  EXPECT_EQ(fetch.op, KvOp::kGet);
  const uint64_t other = Get(0, "/global/2");
  EXPECT_FALSE(HasQuestion()) << "one question a key at a time";
  Answer(fetch, 200, "2", KvText(std::string(2000, 'b')));
  EXPECT_EQ(ReplyTo(again), "200 " + std::string(2000, 'b'));
  EXPECT_EQ(ReplyTo(other), "200 " + std::string(2000, 'b'));
}

TEST_F(SmallRelayCoreTest, AFetchThatFindsNothingLeavesTheHoldToTheFollow) {
  OpenWorkers(1);
  Get(0, "/global/2");
  const KvQuestion follow = NextQuestion();
  Answer(follow, 200, "2", KvText(std::string(2000, 'b')));
  out_.replies.clear();
  const uint64_t missing = Get(0, "/global/3");
  Answer(NextQuestion(), 404);
  EXPECT_EQ(ReplyTo(missing), "-");
  Answer(follow, 200, "3", KvText("c"));
  EXPECT_EQ(ReplyTo(missing), "200 c");
}

TEST_F(SmallRelayCoreTest, AHoldDoesNotEndBeforeTheFetchOfItsKeyHasAnAnswer) {
  OpenWorkers(2);
  Get(0, "/global/2");
  const KvQuestion follow = NextQuestion();
  Answer(follow, 200, "2", KvText(std::string(2000, 'b')));
  AnswerNothingYet(follow);
  out_.replies.clear();
  const uint64_t present = Get(0, "/global/2");
  const KvQuestion fetch_present = NextQuestion();
  const uint64_t absent = Get(1, "/global/3");
  const KvQuestion fetch_absent = NextQuestion();
  Advance(seconds(7));
  EXPECT_FALSE(HasReply()) << "or a slow launcher would never be heard";
  Answer(fetch_present, 200, "2", KvText("b"));
  EXPECT_EQ(ReplyTo(present), "200 b");
  Answer(fetch_absent, 404);
  EXPECT_EQ(ReplyTo(absent), "404");
  EXPECT_EQ(core_.held_requests(), 0u);
}

TEST_F(SmallRelayCoreTest, ADropGivesThoseThatWaitForAFetchAnotherHold) {
  OpenWorkers(2);
  Get(0, "/global/2");
  Answer(NextQuestion(), 200, "2", KvText(std::string(2000, 'b')));
  out_.replies.clear();
  const uint64_t overdue = Get(0, "/global/3");
  const KvQuestion fetch = NextQuestion();
  Advance(seconds(2));
  Delete(1, "/global/1");
  Answer(fetch, 404);
  EXPECT_EQ(ReplyTo(overdue), "-");
  while (HasQuestion()) {
    if (const KvQuestion question = NextQuestion(); question.op == KvOp::kFollow) {
      AnswerNothingYet(question);
    }
  }
  Advance(seconds(1));
  EXPECT_EQ(ReplyTo(overdue), "404");
}

TEST_F(SmallRelayCoreTest, ALargerValueReplacesASmallerOneOrNothingStays) {
  OpenWorkers(1);
  Get(0, "/global/1");
  const KvQuestion follow = NextQuestion();
  Answer(follow, 200, "1", KvText("old"));
  Answer(follow, 200, "1", KvText(std::string(2000, 'n')));
  out_.replies.clear();
  EXPECT_EQ(core_.cached_bytes(), 0u);
  EXPECT_EQ(ReplyTo(Get(0, "/global/1")), "-") << "never the old value";
}

}  // namespace
}  // namespace hvdray
