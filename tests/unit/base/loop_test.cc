// SPDX-License-Identifier: Apache-2.0
#include "base/loop.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <thread>
#include <vector>

#include "base/fd.h"
#include "tests/fakes/loop_runner.h"

namespace hvdray {
namespace {

class LoopTest : public testing::Test {
 protected:
  std::unique_ptr<Loop> loop_ = Loop::Create().value();
};

TEST_F(LoopTest, PostRunsInOrderAndFromOtherThreads) {
  std::vector<int> order;
  std::thread other([&] {
    for (int i = 0; i < 1000; ++i) loop_->Post([&order, i] { order.push_back(i); });
    loop_->Post([this] { loop_->Stop(); });
  });
  loop_->Run();
  other.join();
  ASSERT_EQ(order.size(), 1000u);
  EXPECT_TRUE(std::is_sorted(order.begin(), order.end()));
}

TEST_F(LoopTest, PostFromAPostedFunctionRunsToo) {
  int depth = 0;
  std::function<void()> again = [&] {
    if (++depth < 5) loop_->Post(again);
  };
  loop_->Post(again);
  EXPECT_TRUE(RunUntil(*loop_, [&] { return depth == 5; }));
}

TEST_F(LoopTest, StopBeforeRunEndsItAndRunCanBeCalledAgain) {
  loop_->Stop();
  loop_->Run();
  bool has_run = false;
  loop_->Post([&] {
    has_run = true;
    loop_->Stop();
  });
  loop_->Run();
  EXPECT_TRUE(has_run);
}

TEST_F(LoopTest, WhatWasPostedAndNeverRunIsReleased) {
  auto token = std::make_shared<int>(1);
  loop_->Post([token] {});
  loop_.reset();
  EXPECT_EQ(token.use_count(), 1);
}

TEST_F(LoopTest, DescriptorCallsBackAsLongAsItIsReady) {
  const Pipe pipe = MakePipe().value();
  ASSERT_TRUE(WriteAll(pipe.write_end.get(), "abc").ok());
  std::string got;
  const Watch watch = loop_->OnFd(pipe.read_end.get(), FdEvent::kRead, [&] {
    char byte = 0;
    ASSERT_EQ(::read(pipe.read_end.get(), &byte, 1), 1);
    got += byte;
  });
  EXPECT_TRUE(RunUntil(*loop_, [&] { return got == "abc"; }));
}

TEST_F(LoopTest, WatchCancelledInItsOwnCallbackIsGone) {
  const Pipe pipe = MakePipe().value();
  ASSERT_TRUE(WriteAll(pipe.write_end.get(), "x").ok());
  int calls = 0;
  Watch watch;
  // The captured string lives in the function that is destroyed while it runs.
  const std::string text(100, 'x');
  watch = loop_->OnFd(pipe.read_end.get(), FdEvent::kRead, [&calls, &watch, text] {
    watch.Cancel();
    calls += static_cast<int>(text.size()) / 100;
  });
  Settle(*loop_);
  EXPECT_EQ(calls, 1);
  EXPECT_FALSE(watch.is_active());
}

TEST_F(LoopTest, WatchReplacedInItsOwnCallbackGoesOnAsTheNewOne) {
  std::string order;
  Watch watch;
  watch = loop_->After(Duration::zero(), [&] {
    order += 'a';
    watch = loop_->After(Duration::zero(), [&] { order += 'b'; });
  });
  EXPECT_TRUE(RunUntil(*loop_, [&] { return order == "ab"; }));
}

TEST_F(LoopTest, WatchOfAnotherCancelledWhileBothAreDueDoesNotCallBack) {
  const Pipe one = MakePipe().value();
  const Pipe two = MakePipe().value();
  ASSERT_TRUE(WriteAll(one.write_end.get(), "x").ok());
  ASSERT_TRUE(WriteAll(two.write_end.get(), "x").ok());
  int calls = 0;
  Watch first;
  Watch second;
  const auto callback = [&] {
    ++calls;
    first.Cancel();
    second.Cancel();
  };
  first = loop_->OnFd(one.read_end.get(), FdEvent::kRead, callback);
  second = loop_->OnFd(two.read_end.get(), FdEvent::kRead, callback);
  Settle(*loop_);
  EXPECT_EQ(calls, 1);
}

TEST_F(LoopTest, TimersFireInOrderOfTheirTime) {
  std::string order;
  const Watch late = loop_->After(std::chrono::milliseconds(4), [&] { order += 'c'; });
  const Watch soon = loop_->After(std::chrono::milliseconds(2), [&] { order += 'b'; });
  const Watch past = loop_->After(std::chrono::milliseconds(-5), [&] { order += 'a'; });
  EXPECT_TRUE(RunUntil(*loop_, [&] { return order.size() == 3; }));
  EXPECT_EQ(order, "abc");
}

TEST_F(LoopTest, EveryFiresAgainUntilItIsCancelled) {
  int calls = 0;
  Watch watch = loop_->Every(std::chrono::milliseconds(1), [&] { ++calls; });
  EXPECT_TRUE(RunUntil(*loop_, [&] { return calls >= 3; }));
  watch.Cancel();
  const int at_cancel = calls;
  Settle(*loop_);
  EXPECT_EQ(calls, at_cancel);
}

TEST_F(LoopTest, MovedWatchStaysActive) {
  int calls = 0;
  Watch watch = loop_->After(Duration::zero(), [&] { ++calls; });
  const Watch moved = std::move(watch);
  EXPECT_TRUE(RunUntil(*loop_, [&] { return calls == 1; }));
}

TEST_F(LoopTest, SignalIsTakenOverAndGivenBack) {
  struct sigaction before {};
  ::sigaction(SIGUSR1, nullptr, &before);
  int calls = 0;
  {
    const Watch watch = loop_->OnSignal(SIGUSR1, [&] { ++calls; });
    ::kill(::getpid(), SIGUSR1);
    EXPECT_TRUE(RunUntil(*loop_, [&] { return calls == 1; }));
  }
  struct sigaction after {};
  ::sigaction(SIGUSR1, nullptr, &after);
  EXPECT_EQ(after.sa_handler, before.sa_handler);
}

TEST_F(LoopTest, NowNeverGoesBack) {
  TimePoint last = loop_->Now();
  for (int i = 0; i < 1000; ++i) {
    const TimePoint now = loop_->Now();
    EXPECT_GE(now, last);
    last = now;
  }
}

}  // namespace
}  // namespace hvdray
