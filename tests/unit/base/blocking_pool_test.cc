// SPDX-License-Identifier: Apache-2.0
#include "base/blocking_pool.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <atomic>
#include <csignal>
#include <future>
#include <memory>
#include <set>
#include <string>
#include <thread>

#include "tests/fakes/loop_runner.h"

namespace hvdray {
namespace {

class BlockingPoolTest : public testing::Test {
 protected:
  std::unique_ptr<Loop> loop_ = Loop::Create().value();
};

TEST_F(BlockingPoolTest, JobRunsElsewhereAndItsResultComesBackToTheLoop) {
  BlockingPool pool(*loop_);
  const std::thread::id here = std::this_thread::get_id();
  std::thread::id job_thread;
  std::thread::id done_thread;
  pool.Run<int>(
      [&] {
        job_thread = std::this_thread::get_id();
        return 42;
      },
      [&](int result) {
        EXPECT_EQ(result, 42);
        done_thread = std::this_thread::get_id();
      });
  ASSERT_TRUE(RunUntil(*loop_, [&] { return done_thread != std::thread::id(); }));
  EXPECT_EQ(done_thread, here);
  EXPECT_NE(job_thread, here);
}

TEST_F(BlockingPoolTest, ResultsMayBeMoveOnly) {
  BlockingPool pool(*loop_);
  std::unique_ptr<std::string> got;
  pool.Run<std::unique_ptr<std::string>>([] { return std::make_unique<std::string>("x"); },
                                         [&](auto result) { got = std::move(result); });
  ASSERT_TRUE(RunUntil(*loop_, [&] { return got != nullptr; }));
  EXPECT_EQ(*got, "x");
}

TEST_F(BlockingPoolTest, AnIdlePoolHasNoThreadsAndReusesThoseItHas) {
  BlockingPool pool(*loop_);
  EXPECT_EQ(pool.thread_count(), 0);
  for (int round = 0; round < 5; ++round) {
    bool is_done = false;
    pool.Run<int>([] { return 0; }, [&](int) { is_done = true; });
    ASSERT_TRUE(RunUntil(*loop_, [&] { return is_done; }));
  }
  // The result may overtake the thread's return to idleness, so now and then one more is started.
  EXPECT_LE(pool.thread_count(), 5);
  EXPECT_GE(pool.thread_count(), 1);
}

TEST_F(BlockingPoolTest, NoMoreJobsRunAtOnceThanThereAreThreads) {
  BlockingPool pool(*loop_, 3);
  std::promise<void> gate;
  const std::shared_future<void> open = gate.get_future().share();
  std::atomic<int> running = 0;
  std::atomic<int> most = 0;
  int done = 0;
  for (int i = 0; i < 20; ++i) {
    pool.Run<int>(
        [&, open] {
          const int now = ++running;
          for (int seen = most; now > seen && !most.compare_exchange_weak(seen, now);) {
          }
          open.wait();
          --running;
          return 0;
        },
        [&](int) { ++done; });
  }
  ASSERT_TRUE(RunUntil(*loop_, [&] { return running == 3; }));
  EXPECT_EQ(pool.thread_count(), 3);
  gate.set_value();
  ASSERT_TRUE(RunUntil(*loop_, [&] { return done == 20; }));
  EXPECT_EQ(most, 3);
}

TEST_F(BlockingPoolTest, ManyJobsAllComeBackOnce) {
  BlockingPool pool(*loop_);
  std::multiset<int> got;
  for (int i = 0; i < 2000; ++i) {
    pool.Run<int>([i] { return i; }, [&](int result) { got.insert(result); });
  }
  ASSERT_TRUE(RunUntil(*loop_, [&] { return got.size() == 2000; }));
  EXPECT_EQ(std::set<int>(got.begin(), got.end()).size(), 2000u);
  EXPECT_LE(pool.thread_count(), BlockingPool::kMaxThreads);
}

TEST_F(BlockingPoolTest, DestructionWaitsForWhatRunsAndDropsWhatWaits) {
  std::promise<void> begun;
  std::promise<void> gate;
  std::atomic<bool> first_ended = false;
  bool any_done = false;
  auto pool = std::make_unique<BlockingPool>(*loop_, 1);
  pool->Run<int>(
      [&] {
        begun.set_value();
        gate.get_future().wait();
        first_ended = true;
        return 0;
      },
      [&](int) { any_done = true; });
  pool->Run<int>([] { return 0; }, [&](int) { any_done = true; });
  begun.get_future().wait();
  std::thread opener([&] { gate.set_value(); });
  pool.reset();
  opener.join();
  EXPECT_TRUE(first_ended);
  Settle(*loop_);
  EXPECT_FALSE(any_done) << "nobody is left to hear of it";
}

TEST_F(BlockingPoolTest, AJobThatIsStuckKeepsNobodyFromLeaving) {
  // In a process of its own: the thread stays for as long as that lives.
  EXPECT_EXIT(
      {
        auto gate = std::make_shared<std::promise<void>>();
        bool is_done = false;
        bool is_task_destroyed = false;
        struct Owned {
          bool& is_destroyed;
          ~Owned() { is_destroyed = true; }
        };
        auto owned = std::make_shared<Owned>(Owned{is_task_destroyed});
        is_task_destroyed = false;
        auto pool = std::make_unique<BlockingPool>(*loop_, std::chrono::milliseconds(1));
        auto begun = std::make_shared<std::promise<void>>();
        auto has_begun = begun->get_future();
        pool->Run<int>(
            [gate, begun, owned = std::move(owned)] {
              begun->set_value();
              gate->get_future().wait();
              return 0;
            },
            [&](int) { is_done = true; });
        has_begun.wait();  // one that has not begun is dropped
        pool.reset();
        const bool is_left = BlockingPool::has_left_threads();
        loop_.reset();
        gate->set_value();  // it comes back, and finds nobody
        ::_exit(is_left && !is_done && !is_task_destroyed ? 0 : 1);
      },
      testing::ExitedWithCode(0), "");
}

TEST_F(BlockingPoolTest, JobsThatEndInTimeLeaveNothingBehind) {
  std::atomic<int> ended = 0;
  {
    BlockingPool pool(*loop_, std::chrono::hours(1));
    for (int i = 0; i < 100; ++i) {
      pool.Run<int>([&] { return ++ended; }, [](int) {});
    }
    ASSERT_TRUE(RunUntil(*loop_, [&] { return ended > 0; }));
  }
  EXPECT_FALSE(BlockingPool::has_left_threads());
}

TEST_F(BlockingPoolTest, SignalsAreNotDeliveredToItsThreads) {
  BlockingPool pool(*loop_);
  bool is_done = false;
  pool.Run<bool>(
      [] {
        sigset_t blocked;
        ::pthread_sigmask(SIG_SETMASK, nullptr, &blocked);
        return ::sigismember(&blocked, SIGINT) == 1 && ::sigismember(&blocked, SIGCHLD) == 1;
      },
      [&](bool are_blocked) {
        EXPECT_TRUE(are_blocked);
        is_done = true;
      });
  ASSERT_TRUE(RunUntil(*loop_, [&] { return is_done; }));
  sigset_t here;
  ::pthread_sigmask(SIG_SETMASK, nullptr, &here);
  EXPECT_EQ(::sigismember(&here, SIGINT), 0);
}

}  // namespace
}  // namespace hvdray
