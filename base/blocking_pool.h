// SPDX-License-Identifier: Apache-2.0
// Threads for calls that can only block: name lookup, SSH handshakes, HTTP to a cloud. They own no
// state: each job posts its result back to the loop, and only the loop decides.
#ifndef HVDRAY_BASE_BLOCKING_POOL_H_
#define HVDRAY_BASE_BLOCKING_POOL_H_

#include <condition_variable>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <thread>
#include <utility>
#include <vector>

#include "base/loop.h"

namespace hvdray {

/// Starts a thread when a job finds none idle, up to a limit; threads stay until the pool ends.
/// Threads: all calls from the loop's thread. The loop outlives the pool.
class BlockingPool {
 public:
  static constexpr int kMaxThreads = 32;

  explicit BlockingPool(Loop& loop, int max_threads = kMaxThreads)
      : BlockingPool(loop, max_threads, std::nullopt) {}
  /// For jobs that may hang in the kernel or the resolver, where nothing can cancel them. Such jobs
  /// must own all they touch: the destructor waits at most `patience`, then leaves their threads
  /// behind. A thread left behind never returns to a caller; see has_left_threads().
  BlockingPool(Loop& loop, Duration patience) : BlockingPool(loop, kMaxThreads, patience) {}
  /// Waits for running jobs: each has its own deadline, or its caller has cancelled it first.
  /// Drops queued jobs. Calls no `done` any more.
  ~BlockingPool();
  BlockingPool(const BlockingPool&) = delete;
  BlockingPool& operator=(const BlockingPool&) = delete;

  /// Queues `job` for the next free thread, first come first served, then runs `done` with its
  /// result on the loop. The job must not throw or touch what the loop owns; it is destroyed before
  /// `done` runs. If no thread can be started at all, runs a job here and blocks.
  template <typename T>
  void Run(std::function<T()> job, std::function<void(T)> done) {
    auto kept_done = std::make_shared<std::function<void(T)>>(std::move(done));
    Enqueue([job = std::move(job), kept_done]() -> std::function<void()> {
      // Shared: Post() takes copyable functions only, and a result may be move-only.
      auto result = std::make_shared<T>(job());
      return [kept_done, result] { (*kept_done)(std::move(*result)); };
    });
  }

  /// True once a pool of this process has left threads behind. The process must then end by
  /// _exit(): those threads may still use what the end of main() destroys. Threads: any.
  static bool has_left_threads();

  /// For reports and tests.
  int thread_count() const { return static_cast<int>(threads_.size()); }

 private:
  using Task = std::function<std::function<void()>()>;  // returns what to run on the loop
  /// What the threads use. Shared with them, since a thread left behind outlives the pool.
  struct State {
    std::mutex mutex;  // guards the rest
    std::condition_variable wakeup;
    std::condition_variable thread_ended;
    std::deque<Task> waiting;
    size_t idle_threads = 0;
    size_t live_threads = 0;
    bool is_stopping = false;
    bool is_left = false;  // the pool is gone, and perhaps the loop too
  };

  BlockingPool(Loop& loop, int max_threads, std::optional<Duration> patience);
  void Enqueue(Task task);
  bool StartThread();
  static void Work(const std::shared_ptr<State>& state, Loop& loop,
                   const std::weak_ptr<bool>& alive);
  static void RunTask(State& state, Loop& loop, const std::weak_ptr<bool>& alive, Task task);

  Loop& loop_;
  const size_t max_threads_;
  const std::optional<Duration> patience_;
  std::vector<std::thread> threads_;                                  // the loop's thread only
  const std::shared_ptr<bool> alive_ = std::make_shared<bool>(true);  // expired: drop results
  const std::shared_ptr<State> state_ = std::make_shared<State>();    // shared with threads
};

}  // namespace hvdray

#endif  // HVDRAY_BASE_BLOCKING_POOL_H_
