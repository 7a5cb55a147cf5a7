// SPDX-License-Identifier: Apache-2.0
// Questions of rank_and_size: held, answered by what is published, void with their process.
#include "rendezvous/rank_service.h"

#include <gtest/gtest.h>

namespace hvdray {
namespace {

KvQuestion Question(uint64_t id, std::string slot) {
  KvQuestion question;
  question.id = id;
  question.op = KvOp::kRankAndSize;
  question.key = std::move(slot);
  return question;
}

KvAssignment OneWorker() {
  KvAssignment assignment;
  assignment.generation = 2;
  assignment.Add("a", 0, 1, 0, 1, 0, 1);
  return assignment;
}

class RankServiceTest : public testing::Test {
 protected:
  bool Ask(int relay, uint64_t id, const std::string& slot) {
    return service_.Ask(relay, Question(id, slot), &at_once_);
  }
  RankService service_;
  std::vector<RankAnswer> at_once_;
};

TEST_F(RankServiceTest, HoldsAQuestionUntilAGenerationIsPublished) {
  service_.Admit("a:0");
  EXPECT_TRUE(Ask(3, 17, "a:0"));
  EXPECT_TRUE(at_once_.empty());
  EXPECT_EQ(service_.held(), 1u);
  const std::vector<RankAnswer> answers = service_.Publish(OneWorker());
  ASSERT_EQ(answers.size(), 1u);
  EXPECT_EQ(answers[0].relay, 3);
  EXPECT_EQ(answers[0].answer.id, 17u);
  EXPECT_EQ(answers[0].answer.generation, 2u);
  EXPECT_EQ(answers[0].answer.status, 200);
  EXPECT_EQ(*answers[0].answer.value, "0,1,0,1,0,1");
  EXPECT_EQ(service_.held(), 0u);
  EXPECT_TRUE(service_.Publish(OneWorker()).empty());
}

TEST_F(RankServiceTest, TellsAWorkerWithoutAPlaceThatItIsRemoved) {
  service_.Admit("b:0");
  EXPECT_TRUE(Ask(1, 5, "b:0"));
  EXPECT_EQ(*service_.Publish(OneWorker()).at(0).answer.value, "-1,-1,-1,-1,-1,-1");
}

TEST_F(RankServiceTest, AnswersAnUnknownSlotAtOnceAndDoesNotCountIt) {
  EXPECT_FALSE(Ask(1, 5, "nobody:0"));
  ASSERT_EQ(at_once_.size(), 1u);
  EXPECT_EQ(*at_once_[0].answer.value, "-1,-1,-1,-1,-1,-1");
  EXPECT_EQ(at_once_[0].answer.id, 5u);
  EXPECT_EQ(service_.held(), 0u);
  EXPECT_EQ(service_.refused(), 1u);
}

TEST_F(RankServiceTest, LetsASecondQuestionOfASlotTakeThePlaceOfTheFirst) {
  service_.Admit("a:0");
  EXPECT_TRUE(Ask(1, 5, "a:0"));
  EXPECT_FALSE(Ask(1, 6, "a:0"));
  EXPECT_EQ(service_.held(), 1u);
  const std::vector<RankAnswer> answers = service_.Publish(OneWorker());
  ASSERT_EQ(answers.size(), 1u);
  EXPECT_EQ(answers[0].answer.id, 6u);
}

TEST_F(RankServiceTest, DropsWhatADeadProcessHeldAndRegistered) {
  service_.Admit("a:0");
  EXPECT_TRUE(Ask(1, 5, "a:0"));
  KvQuestion addresses = Question(9, "a:0");
  addresses.value = std::make_shared<const std::string>("lo 127.0.0.1:9\n");
  EXPECT_TRUE(service_.Register(addresses));
  EXPECT_EQ(*service_.AddressesOf("a:0"), "lo 127.0.0.1:9\n");
  service_.Forget("a:0");
  EXPECT_EQ(service_.held(), 0u);
  EXPECT_EQ(service_.AddressesOf("a:0"), nullptr);
  EXPECT_TRUE(service_.Publish(OneWorker()).empty());
  EXPECT_FALSE(service_.Register(addresses));
}

TEST_F(RankServiceTest, GivesANewProcessOfASlotNothingOfTheOldOne) {
  service_.Admit("a:0");
  EXPECT_TRUE(Ask(1, 5, "a:0"));
  service_.Admit("a:0");
  EXPECT_EQ(service_.held(), 0u);
  EXPECT_TRUE(Ask(1, 6, "a:0"));
}

TEST_F(RankServiceTest, DropsWhatARelayHeldWhenItsLinkIsGone) {
  service_.Admit("a:0");
  service_.Admit("b:0");
  EXPECT_TRUE(Ask(1, 5, "a:0"));
  EXPECT_TRUE(Ask(2, 5, "b:0"));
  service_.DropRelay(2);
  EXPECT_EQ(service_.held(), 1u);
}

TEST_F(RankServiceTest, RemovesAllWhenTheJobIsOverAndWhoComesLaterAtOnce) {
  service_.Admit("a:0");
  service_.Admit("b:0");
  EXPECT_TRUE(Ask(1, 5, "a:0"));
  const std::vector<RankAnswer> answers = service_.Close();
  ASSERT_EQ(answers.size(), 1u);
  EXPECT_EQ(*answers[0].answer.value, "-1,-1,-1,-1,-1,-1");
  EXPECT_FALSE(Ask(2, 6, "b:0"));
  EXPECT_EQ(at_once_.size(), 1u);
}

TEST_F(RankServiceTest, WorkersOfAnotherJobWaitAgain) {
  service_.Admit("a:0");
  service_.Close();
  service_.Forget("a:0");
  service_.Open();
  EXPECT_FALSE(Ask(1, 5, "a:0")) << "its slot is of the job before";
  service_.Admit("a:0");
  EXPECT_TRUE(Ask(1, 6, "a:0"));
  EXPECT_EQ(service_.held(), 1u);
}

}  // namespace
}  // namespace hvdray
