// SPDX-License-Identifier: Apache-2.0
// Who is asked when, and who gets whose answer, among connections on threads of their own.
#include "cluster/ssh/ssh_questions.h"

#include <gtest/gtest.h>

#include <atomic>
#include <future>
#include <thread>
#include <vector>

namespace hvdray {
namespace {

bool Always() { return true; }

TerminalQuestion Question(const std::string& text) {
  TerminalQuestion question;
  question.text = text;
  return question;
}

TEST(SshQuestionsTest, AnAnswerThatProvedRightIsGivenToOthersUnasked) {
  int asked = 0;
  SshQuestions questions([&](const TerminalQuestion&) { return ++asked, Secret("right"); });
  SshAsker first(questions, Always);
  EXPECT_EQ(first.Get("password of eva", Question("?")).value().view(), "right");
  first.Keep();
  SshAsker second(questions, Always);
  EXPECT_EQ(second.Get("password of eva", Question("?")).value().view(), "right");
  EXPECT_EQ(second.asked(), 0);
  EXPECT_EQ(asked, 1);
  (void)second.Get("password of tim", Question("?")).value();
  EXPECT_EQ(asked, 2) << "another subject is another answer";
}

TEST(SshQuestionsTest, AnAnswerThatFailedHereIsAskedForAgain) {
  std::vector<std::string> answers = {"old", "wrong", "new"};
  size_t asked = 0;
  SshQuestions questions([&](const TerminalQuestion&) { return Secret(answers[asked++]); });
  {
    SshAsker elsewhere(questions, Always);
    (void)elsewhere.Get("p", Question("?")).value();
    elsewhere.Keep();
  }
  SshAsker here(questions, Always);
  EXPECT_EQ(here.Get("p", Question("?")).value().view(), "old");
  EXPECT_EQ(here.Get("p", Question("?")).value().view(), "wrong");
  EXPECT_EQ(here.Get("p", Question("?")).value().view(), "new");
  here.Keep();
  EXPECT_EQ(here.asked(), 2);
  SshAsker later(questions, Always);
  EXPECT_EQ(later.Get("p", Question("?")).value().view(), "new");
}

TEST(SshQuestionsTest, NoSubjectIsKeptByNobody) {
  int asked = 0;
  SshQuestions questions([&](const TerminalQuestion&) { return ++asked, Secret("123456"); });
  for (int i = 1; i <= 2; ++i) {
    SshAsker asker(questions, Always);
    (void)asker.Get("", Question("one-time code: ")).value();
    asker.Keep();
    EXPECT_EQ(asked, i);
  }
}

TEST(SshQuestionsTest, WhileAnAnswerIsTriedTheOthersWaitForWhatBecomesOfIt) {
  std::atomic<int> asked = 0;
  SshQuestions questions([&](const TerminalQuestion&) { return ++asked, Secret("right"); });
  std::promise<void> has_answer;
  std::promise<void> is_tried;
  std::thread first([&] {
    SshAsker asker(questions, Always);
    (void)asker.Get("p", Question("?")).value();
    has_answer.set_value();
    is_tried.get_future().wait();
    asker.Keep();
  });
  has_answer.get_future().wait();
  std::vector<std::thread> others;
  for (int i = 0; i < 8; ++i) {
    others.emplace_back([&] {
      SshAsker asker(questions, Always);
      EXPECT_EQ(asker.Get("p", Question("?")).value().view(), "right");
    });
  }
  EXPECT_EQ(asked, 1);
  is_tried.set_value();
  first.join();
  for (std::thread& other : others) other.join();
  EXPECT_EQ(asked, 1);
}

TEST(SshQuestionsTest, OneQuestionIsOpenAtATime) {
  std::atomic<int> open = 0;
  std::atomic<int> asked = 0;
  SshQuestions questions([&](const TerminalQuestion&) -> Result<Secret> {
    EXPECT_EQ(++open, 1);
    std::this_thread::yield();
    --open;
    ++asked;
    return Secret("wrong");
  });
  std::vector<std::thread> askers;
  for (int i = 0; i < 8; ++i) {
    askers.emplace_back([&] {
      SshAsker asker(questions, Always);
      for (int n = 0; n < 3; ++n) (void)asker.Get("p", Question("?")).value();
    });
  }
  for (std::thread& asker : askers) asker.join();
  EXPECT_EQ(asked, 24) << "a wrong answer is nobody else's";
}

TEST(SshQuestionsTest, WhoeverWaitsWhenItIsOverIsCalledOff) {
  SshQuestions questions([](const TerminalQuestion&) { return Secret("x"); });
  SshAsker holder(questions, Always);
  (void)holder.Get("p", Question("?")).value();
  std::thread waiter([&] {
    SshAsker asker(questions, Always);
    EXPECT_EQ(asker.Get("p", Question("?")).status().code(), ErrorCode::kCancelled);
  });
  questions.Close();
  waiter.join();
}

TEST(SshQuestionsTest, NobodyIsAskedAboutAHostThatHasHungUp) {
  int asked = 0;
  SshQuestions questions([&](const TerminalQuestion&) { return ++asked, Secret("x"); });
  SshAsker asker(questions, [] { return false; });
  EXPECT_EQ(asker.Get("p", Question("?")).status().code(), ErrorCode::kHostBusy);
  EXPECT_EQ(asked, 0);
}

}  // namespace
}  // namespace hvdray
