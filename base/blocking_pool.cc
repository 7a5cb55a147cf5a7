// SPDX-License-Identifier: Apache-2.0
#include "base/blocking_pool.h"

#include <algorithm>
#include <atomic>
#include <iterator>
#include <system_error>

#include "base/log.h"
#include "base/signals.h"

namespace hvdray {
namespace {

std::atomic<bool> has_left{false};

/// Keeps threads that are never joined: destroying a running std::thread would abort.
void LeaveForEver(std::vector<std::thread> threads) {
  // NOLINTNEXTLINE(cppcoreguidelines-owning-memory)
  static auto* const left = new std::vector<std::thread>;
  std::move(threads.begin(), threads.end(), std::back_inserter(*left));
  has_left = true;
}

}  // namespace

BlockingPool::BlockingPool(Loop& loop, int max_threads, std::optional<Duration> patience)
    : loop_(loop),
      max_threads_(static_cast<size_t>(std::clamp(max_threads, 1, kMaxThreads))),
      patience_(patience) {}

bool BlockingPool::has_left_threads() { return has_left; }

BlockingPool::~BlockingPool() {
  std::deque<Task> dropped;  // destroyed without the lock: a job's destructor may do anything
  bool is_left = false;
  {
    std::unique_lock lock(state_->mutex);
    state_->is_stopping = true;
    dropped.swap(state_->waiting);
    state_->wakeup.notify_all();
    if (patience_) {
      is_left = !state_->thread_ended.wait_for(lock, *patience_,
                                               [this] { return state_->live_threads == 0; });
    }
    state_->is_left = is_left;
  }
  if (is_left) {
    LeaveForEver(std::move(threads_));
  } else {
    for (std::thread& thread : threads_) thread.join();
  }
}

void BlockingPool::Enqueue(Task task) {
  bool needs_thread = false;
  {
    const std::scoped_lock lock(state_->mutex);
    state_->waiting.push_back(std::move(task));
    needs_thread = state_->waiting.size() > state_->idle_threads && threads_.size() < max_threads_;
  }
  state_->wakeup.notify_one();
  if (!needs_thread || StartThread() || !threads_.empty()) return;
  // No thread could be started: running a job late and blocking is better than never.
  {
    const std::scoped_lock lock(state_->mutex);
    task = std::move(state_->waiting.front());
    state_->waiting.pop_front();
  }
  RunTask(*state_, loop_, alive_, std::move(task));
}

bool BlockingPool::StartThread() {
  // The loop handles all signals, so the new thread blocks them.
  const HeldSignals held(AllSignals());
  {
    const std::scoped_lock lock(state_->mutex);
    ++state_->live_threads;
  }
  try {
    threads_.emplace_back([state = state_, &loop = loop_, alive = std::weak_ptr<bool>(alive_)] {
      Work(state, loop, alive);
    });
  } catch (const std::system_error& error) {
    const std::scoped_lock lock(state_->mutex);
    --state_->live_threads;
    Log(LogLevel::kWarning, "pool", "cannot start more than {} threads: {}", threads_.size(),
        error.what());
    return false;
  }
  return true;
}

void BlockingPool::RunTask(State& state, Loop& loop, const std::weak_ptr<bool>& alive, Task task) {
  std::function<void()> finish = task();
  std::unique_lock lock(state.mutex);
  const auto stay_if_left = [&] {
    while (state.is_left) state.thread_ended.wait(lock);
  };
  stay_if_left();
  lock.unlock();
  task = nullptr;
  lock.lock();
  stay_if_left();
  loop.Post([alive, finish = std::move(finish)] {
    if (!alive.expired()) finish();
  });
}

void BlockingPool::Work(const std::shared_ptr<State>& state, Loop& loop,
                        const std::weak_ptr<bool>& alive) {
  std::unique_lock lock(state->mutex);
  for (;;) {
    ++state->idle_threads;
    state->wakeup.wait(lock, [&] { return state->is_stopping || !state->waiting.empty(); });
    --state->idle_threads;
    if (state->is_stopping) break;
    Task task = std::move(state->waiting.front());
    state->waiting.pop_front();
    lock.unlock();
    RunTask(*state, loop, alive, std::move(task));
    lock.lock();
  }
  --state->live_threads;
  state->thread_ended.notify_all();
}

}  // namespace hvdray
