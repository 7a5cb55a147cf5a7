// SPDX-License-Identifier: Apache-2.0
#include "collective/work_queue.h"

#include <condition_variable>
#include <deque>
#include <mutex>
#include <optional>
#include <thread>
#include <utility>

namespace hvdray {

struct Work::State {
  std::function<Status(Communicator&)> operation;
  mutable std::mutex mutex;
  std::condition_variable done;
  std::optional<Status> status;
};

bool Work::IsDone() const {
  const std::lock_guard lock(state_->mutex);
  return state_->status.has_value();
}

Status Work::Wait() const {
  std::unique_lock lock(state_->mutex);
  state_->done.wait(lock, [this] { return state_->status.has_value(); });
  return *state_->status;
}

struct WorkQueue::Shared {
  explicit Shared(Communicator& of) : communicator(of) {}

  void Run() {
    for (;;) {
      std::shared_ptr<Work::State> next;
      {
        std::unique_lock lock(mutex);
        come.wait(lock, [this] { return is_ending || !started.empty(); });
        if (started.empty()) return;
        next = std::move(started.front());
        started.pop_front();
      }
      Status status = next->operation(communicator);
      next->operation = nullptr;  // what it holds is the caller's again
      const std::lock_guard lock(next->mutex);
      next->status = std::move(status);
      next->done.notify_all();
    }
  }

  Communicator& communicator;
  std::mutex mutex;
  std::condition_variable come;
  std::deque<std::shared_ptr<Work::State>> started;
  bool is_ending = false;
  std::thread thread;
};

WorkQueue::WorkQueue(Communicator& communicator) : shared_(std::make_unique<Shared>(communicator)) {
  shared_->thread = std::thread([shared = shared_.get()] { shared->Run(); });
}

WorkQueue::~WorkQueue() {
  {
    const std::lock_guard lock(shared_->mutex);
    shared_->is_ending = true;
  }
  shared_->come.notify_all();
  shared_->thread.join();
}

Work WorkQueue::Start(std::function<Status(Communicator&)> operation) {
  auto state = std::make_shared<Work::State>();
  state->operation = std::move(operation);
  {
    const std::lock_guard lock(shared_->mutex);
    shared_->started.push_back(state);
  }
  shared_->come.notify_all();
  return Work(std::move(state));
}

}  // namespace hvdray
