// Threads for calls that can only block: name look-up, SSH handshakes, HTTP to a cloud. They carry
// messages and own no state: what a job finds out comes back to the loop, which alone decides.
#ifndef HVDRAY_BASE_BLOCKING_POOL_H_
#define HVDRAY_BASE_BLOCKING_POOL_H_

#include <condition_variable>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <thread>
#include <utility>
#include <vector>

#include "base/loop.h"

namespace hvdray {

/// Threads are started when a job finds none idle, and stay until the end.
/// Threads: all calls from the loop's thread. The loop outlives the pool.
class BlockingPool {
 public:
  static constexpr int kMaxThreads = 32;

  explicit BlockingPool(Loop& loop, int max_threads = kMaxThreads);
  /// Waits for the jobs that run: each has a deadline of its own, or is told to give up first by
  /// whoever started it. Jobs that wait for a thread are dropped, and no `done` is called any more.
  ~BlockingPool();
  BlockingPool(const BlockingPool&) = delete;
  BlockingPool& operator=(const BlockingPool&) = delete;

  /// Runs `job` on a thread of the pool, in the order of the calls as threads become free, then
  /// `done` with its result on the loop. The job must not throw, nor touch what the loop owns; it
  /// is destroyed before `done` runs.
  template <typename T>
  void Run(std::function<T()> job, std::function<void(T)> done) {
    auto kept_done = std::make_shared<std::function<void(T)>>(std::move(done));
    Enqueue([job = std::move(job), kept_done]() -> std::function<void()> {
      // Shared, for Post() takes copyable functions only and a result may be move-only.
      auto result = std::make_shared<T>(job());
      return [kept_done, result] { (*kept_done)(std::move(*result)); };
    });
  }

  /// For reports and tests.
  int thread_count() const { return static_cast<int>(threads_.size()); }

 private:
  using Task = std::function<std::function<void()>()>;  // returns what the loop is to run
  void Enqueue(Task task);
  bool StartThread();
  void Work();
  void RunTask(Task task);

  Loop& loop_;
  const size_t max_threads_;
  std::vector<std::thread> threads_;                                  // the loop's thread only
  const std::shared_ptr<bool> alive_ = std::make_shared<bool>(true);  // gone: results are dropped

  std::mutex mutex_;  // guards the rest
  std::condition_variable wakeup_;
  std::deque<Task> waiting_;
  size_t idle_threads_ = 0;
  bool is_stopping_ = false;
};

}  // namespace hvdray

#endif  // HVDRAY_BASE_BLOCKING_POOL_H_
