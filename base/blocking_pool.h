// Threads for calls that can only block: name look-up, SSH handshakes, HTTP to a cloud. They carry
// messages and own no state: what a job finds out comes back to the loop, which alone decides.
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

/// Threads are started when a job finds none idle, and stay until the end.
/// Threads: all calls from the loop's thread. The loop outlives the pool.
class BlockingPool {
 public:
  static constexpr int kMaxThreads = 32;

  explicit BlockingPool(Loop& loop, int max_threads = kMaxThreads)
      : BlockingPool(loop, max_threads, std::nullopt) {}
  /// For jobs that may be stuck in the kernel or the resolver, where nothing calls them off, and
  /// that own all they touch: the destructor waits for them no longer than `patience`. A thread
  /// that is left never comes back to a caller; see has_left_threads().
  BlockingPool(Loop& loop, Duration patience) : BlockingPool(loop, kMaxThreads, patience) {}
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

  /// A pool of this process has gone without waiting for all its threads: the process ends by
  /// _exit(), for they may still use what the end of main() destroys.
  static bool has_left_threads();

  /// For reports and tests.
  int thread_count() const { return static_cast<int>(threads_.size()); }

 private:
  using Task = std::function<std::function<void()>()>;  // returns what the loop is to run
  /// What the threads use. Theirs too, for one that is left outlives the pool.
  struct State {
    std::mutex mutex;  // guards the rest
    std::condition_variable wakeup;
    std::condition_variable thread_ended;
    std::deque<Task> waiting;
    size_t idle_threads = 0;
    size_t live_threads = 0;
    bool is_stopping = false;
    bool is_left = false;  // the pool is gone, and the loop may be
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
  const std::shared_ptr<bool> alive_ = std::make_shared<bool>(true);  // gone: results are dropped
  const std::shared_ptr<State> state_ = std::make_shared<State>();    // with the threads
};

}  // namespace hvdray

#endif  // HVDRAY_BASE_BLOCKING_POOL_H_
