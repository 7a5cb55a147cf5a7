// SPDX-License-Identifier: Apache-2.0
// One agent with 1,000 workers: what must not grow with their number, or only as fast as it.
#include <gtest/gtest.h>

#include <chrono>
#include <string>

#include "tests/unit/rendezvous/relay_core_harness.h"

namespace hvdray {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

constexpr int kWorkers = 1000;

class RelayScaleTest : public RelayCoreHarness {
 protected:
  RelayScaleTest() { OpenWorkers(kWorkers); }

  static std::string Path(int key) { return "/global/" + std::to_string(key); }
  void AnswerAll(int status) {
    while (HasQuestion()) {
      const KvQuestion question = NextQuestion();
      const bool is_follow = question.op == KvOp::kFollow;
      Answer(question, is_follow ? 404 : status);
    }
  }
};

TEST_F(RelayScaleTest, TheLauncherSeesEachValueOnceAndOneFollow) {
  for (int worker = 0; worker < kWorkers; ++worker) {
    Put(worker, Path(worker), std::string(136, 'v'));
    Get(worker, Path((worker + 1) % kWorkers));
  }
  EXPECT_EQ(core_.stats().upstream_questions, kWorkers + 1u);
  AnswerAll(200);
  EXPECT_EQ(core_.held_requests(), 0u) << "every PUT acknowledged, every GET answered";
  out_.replies.clear();
  for (int worker = 0; worker < kWorkers; worker += 20) {
    for (int key = 0; key < kWorkers; ++key) Get(worker, Path(key));
  }
  EXPECT_EQ(out_.replies.size(), 50u * kWorkers);
  EXPECT_EQ(core_.stats().upstream_questions, kWorkers + 1u);
  EXPECT_EQ(core_.stats().served_from_cache, 50u * kWorkers);
  EXPECT_EQ(core_.stats().upstream_bytes, 136u * kWorkers);
}

TEST_F(RelayScaleTest, AThousandThatWaitForOneValueAreAnsweredByIt) {
  for (int worker = 1; worker < kWorkers; ++worker) Get(worker, Path(0));
  const KvQuestion follow = NextQuestion();
  EXPECT_FALSE(HasQuestion());
  EXPECT_EQ(core_.held_requests(), kWorkers - 1u);
  const KvValue value = KvText("v");
  Answer(follow, 200, "0", value);
  ASSERT_EQ(out_.replies.size(), kWorkers - 1u);
  for (const RelayReply& reply : out_.replies) ASSERT_EQ(reply.body.get(), value.get());
  EXPECT_EQ(core_.held_requests(), 0u);
}

TEST_F(RelayScaleTest, AThousandHoldsEndAndBeginAgain) {
  for (int worker = 0; worker < kWorkers; ++worker) Get(worker, Path(kWorkers));
  AnswerNothingYet(NextQuestion());
  for (int round = 0; round < 30; ++round) {
    Advance(seconds(1));
    ASSERT_EQ(out_.replies.size(), static_cast<size_t>(kWorkers));
    out_.replies.clear();
    EXPECT_EQ(core_.NextDeadline(), std::nullopt);
    for (int worker = 0; worker < kWorkers; ++worker) Get(worker, Path(kWorkers));
  }
  EXPECT_EQ(core_.stats().upstream_questions, 1u);
}

TEST_F(RelayScaleTest, ThoseThatLeaveTakeTheirDeadlinesWithThem) {
  // A client that comes and goes all the time must not make the list of deadlines grow.
  for (int i = 0; i < 20000; ++i) core_.OnGone(Get(i % kWorkers, Path(kWorkers)));
  AnswerNothingYet(NextQuestion());
  const uint64_t last = Get(0, Path(kWorkers));
  Advance(milliseconds(0));
  EXPECT_EQ(core_.NextDeadline(), now_ + seconds(1)) << "of the last one; the others are gone";
  Advance(seconds(1));
  EXPECT_EQ(ReplyTo(last), "404");
}

TEST_F(RelayScaleTest, AllDeleteAndAllAreClosed) {
  for (int worker = 0; worker < kWorkers; ++worker) Put(worker, Path(worker), "v");
  AnswerAll(200);
  for (int worker = 0; worker < kWorkers; ++worker) Delete(worker, Path(worker));
  EXPECT_EQ(core_.cached_bytes(), 0u);
  EXPECT_EQ(core_.stats().upstream_questions, 2u * kWorkers) << "nothing was followed";
  for (int worker = 0; worker < kWorkers; ++worker) core_.CloseWorker(worker);
  EXPECT_EQ(core_.held_requests(), 0u);
  out_.replies.clear();
  AnswerAll(200);
  EXPECT_FALSE(HasReply());
}

TEST_F(RelayScaleTest, AThousandWaitForTheirPlaces) {
  for (int worker = 0; worker < kWorkers; ++worker) {
    Get(worker, "/rank_and_size/h:" + std::to_string(worker));
  }
  Reset(2);
  EXPECT_FALSE(HasReply());
  while (HasQuestion()) {
    const KvQuestion question = NextQuestion();
    Answer(question, 200, question.key, KvText("0,1,0,1,0,1"));
  }
  EXPECT_EQ(out_.replies.size(), static_cast<size_t>(kWorkers));
  EXPECT_EQ(core_.held_requests(), 0u);
}

}  // namespace
}  // namespace hvdray
