#include "base/blocking_pool.h"

#include <pthread.h>

#include <algorithm>
#include <csignal>
#include <system_error>

#include "base/log.h"

namespace hvdray {

BlockingPool::BlockingPool(Loop& loop, int max_threads)
    : loop_(loop), max_threads_(static_cast<size_t>(std::clamp(max_threads, 1, kMaxThreads))) {}

BlockingPool::~BlockingPool() {
  std::deque<Task> dropped;  // destroyed without the lock: a job may own anything
  {
    const std::scoped_lock lock(mutex_);
    is_stopping_ = true;
    dropped.swap(waiting_);
  }
  wakeup_.notify_all();
  for (std::thread& thread : threads_) thread.join();
}

void BlockingPool::Enqueue(Task task) {
  bool needs_thread = false;
  {
    const std::scoped_lock lock(mutex_);
    waiting_.push_back(std::move(task));
    needs_thread = waiting_.size() > idle_threads_ && threads_.size() < max_threads_;
  }
  wakeup_.notify_one();
  if (!needs_thread || StartThread() || !threads_.empty()) return;
  // Not one thread to be had: late and blocking is better than never.
  {
    const std::scoped_lock lock(mutex_);
    task = std::move(waiting_.front());
    waiting_.pop_front();
  }
  RunTask(std::move(task));
}

bool BlockingPool::StartThread() {
  // Signals are the loop's.
  sigset_t all;
  sigset_t before;
  ::sigfillset(&all);
  ::pthread_sigmask(SIG_SETMASK, &all, &before);
  bool is_started = true;
  try {
    threads_.emplace_back([this] { Work(); });
  } catch (const std::system_error& error) {
    is_started = false;
    Log(LogLevel::kWarning, "pool", "no more than {} threads: {}", threads_.size(), error.what());
  }
  ::pthread_sigmask(SIG_SETMASK, &before, nullptr);
  return is_started;
}

void BlockingPool::RunTask(Task task) {
  std::function<void()> finish = task();
  task = nullptr;
  loop_.Post([alive = std::weak_ptr<bool>(alive_), finish = std::move(finish)] {
    if (!alive.expired()) finish();
  });
}

void BlockingPool::Work() {
  std::unique_lock lock(mutex_);
  for (;;) {
    ++idle_threads_;
    wakeup_.wait(lock, [this] { return is_stopping_ || !waiting_.empty(); });
    --idle_threads_;
    if (is_stopping_) return;
    Task task = std::move(waiting_.front());
    waiting_.pop_front();
    lock.unlock();
    RunTask(std::move(task));
    lock.lock();
  }
}

}  // namespace hvdray
