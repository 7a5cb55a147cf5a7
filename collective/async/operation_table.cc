// SPDX-License-Identifier: Apache-2.0
#include "collective/async/operation_table.h"

#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <utility>

namespace hvdray {
namespace {

// Of the process, whatever is made and freed in it: a late reader of an old handle finds nothing.
std::atomic<int64_t> next_handle{1};

constexpr std::chrono::milliseconds kLongestBurst{1};

}  // namespace

LocalName& OperationTable::Name(int process_set, const std::string& name) {
  return process_set == 0 ? names_[name] : names_[fmt::format("{}{}{}", name, '\0', process_set)];
}

// A program whose names never repeat.
void OperationTable::ForgetNames() {
  if (names_.size() < most_names_) return;
  std::erase_if(names_, [](const auto& name) { return name.second.in_flight == nullptr; });
  most_names_ = std::max(kMostNames, 2 * names_.size());
}

Result<uint32_t> OperationTable::Add(std::span<const LocalOperationPtr> operations,
                                     bool is_urgent) {
  const std::lock_guard lock(mutex_);
  if (!closed_.ok()) return closed_;
  ForgetNames();
  for (size_t i = 0; i < operations.size(); ++i) {
    LocalOperation& operation = *operations[i];
    operation.name = &Name(operation.request.process_set, operation.request.name);
    if (operation.name->in_flight == nullptr) {
      operation.name->in_flight = operations[i];
      continue;
    }
    for (const auto& before : operations.first(i)) before->name->in_flight.reset();
    return Status(ErrorCode::kUsage, fmt::format("Duplicate name '{}': an operation of this name "
                                                 "is in flight on this rank",
                                                 operation.request.name));
  }
  for (const LocalOperationPtr& operation : operations) {
    operation->handle = next_handle++;
    operation->round = drained_round_ + 1;
    by_handle_[operation->handle] = operation;
    LocalName& name = *operation->name;
    if (name.encoded != operation->encoded) {
      name.encoded = std::move(operation->encoded);
      name.era = 0;
    }
    queue_.push_back(&name);
  }
  is_urgent_ = is_urgent_ || is_urgent;
  if (is_urgent_ || queue_.size() >= usual_burst_) burst_.notify_one();
  return drained_round_ + 1;
}

void OperationTable::AwaitBurst() {
  std::unique_lock lock(mutex_);
  const auto is_whole = [this] { return is_urgent_ || queue_.size() >= usual_burst_; };
  const TimePoint end = std::chrono::steady_clock::now() + kLongestBurst;
  for (size_t before = queue_.size();; before = queue_.size()) {
    if (burst_.wait_for(lock, pause_, is_whole) || queue_.size() == before) return;
    if (std::chrono::steady_clock::now() >= end) return;
  }
}

OperationTable::Drained OperationTable::Drain(uint32_t round) {
  const std::lock_guard lock(mutex_);
  drained_round_ = round;
  is_urgent_ = !closed_.ok();
  // One that has nothing this time may only have come late.
  usual_burst_ = queue_.empty() ? usual_burst_ / 2 : queue_.size();
  return {std::exchange(queue_, {}), !closed_.ok(), why_, leave_};
}

LocalOperation* OperationTable::Find(int process_set, const std::string& name) {
  const std::lock_guard lock(mutex_);
  return Name(process_set, name).in_flight.get();
}

void OperationTable::Finish(std::span<LocalOperation* const> operations, const Status& status) {
  const std::lock_guard lock(mutex_);
  bool is_awaited = false;
  for (LocalOperation* operation : operations) {
    operation->status = status;
    is_awaited = is_awaited || operation->waiting > 0;
    ended_.push_back(operation->handle);
    operation->name->in_flight.reset();  // it may be gone now
  }
  if (is_awaited) done_.notify_all();
}

uint32_t OperationTable::Close(const Status& status, std::string why, Leave leave) {
  const std::lock_guard lock(mutex_);
  if (closed_.ok()) {
    closed_ = status;
    why_ = std::move(why);
    leave_ = leave;
  }
  is_urgent_ = true;
  burst_.notify_one();
  closing_.notify_all();
  return drained_round_ + 1;
}

void OperationTable::EndAll(const Status& status, bool has_left) {
  const std::lock_guard lock(mutex_);
  if (closed_.ok()) {
    closed_ = status;
    has_left_ = has_left;
  }
  for (auto& [key, name] : names_) {
    if (name.in_flight == nullptr) continue;
    name.in_flight->status = status;
    ended_.push_back(name.in_flight->handle);
  }
  names_.clear();
  queue_.clear();
  done_.notify_all();
  closing_.notify_all();
}

Status OperationTable::CheckOpen() const {
  const std::lock_guard lock(mutex_);
  return closed_;
}

Status OperationTable::AwaitEnd() {
  std::unique_lock lock(mutex_);
  closing_.wait(lock, [this] { return !closed_.ok(); });
  return has_left_ ? Status(closed_).WithCode(ErrorCode::kCancelled) : closed_;
}

int OperationTable::Poll(int64_t handle) const {
  const std::lock_guard lock(mutex_);
  const auto found = by_handle_.find(handle);
  if (found == by_handle_.end()) return -1;
  return found->second->status.has_value() ? 1 : 0;
}

LocalOperationPtr OperationTable::InFlight(int64_t handle) const {
  const std::lock_guard lock(mutex_);
  const auto found = by_handle_.find(handle);
  return found == by_handle_.end() || found->second->status.has_value() ? nullptr : found->second;
}

// Has the round begin that takes it along.
void OperationTable::Hurry(const LocalOperation& operation) {
  if (is_urgent_ || operation.status.has_value() || operation.round <= drained_round_) return;
  is_urgent_ = true;
  burst_.notify_one();
}

LocalOperationPtr OperationTable::Wait(int64_t handle) {
  while (!WaitFor(handle, std::chrono::hours(1))) {
  }
  const std::lock_guard lock(mutex_);
  const auto found = by_handle_.find(handle);
  return found == by_handle_.end() ? nullptr : found->second;
}

bool OperationTable::WaitFor(int64_t handle, Duration longest) {
  std::unique_lock lock(mutex_);
  const auto found = by_handle_.find(handle);
  if (found == by_handle_.end()) return true;
  const LocalOperationPtr operation = found->second;
  Hurry(*operation);
  ++operation->waiting;
  const bool is_done = done_.wait_for(lock, longest, [&] { return operation->status.has_value(); });
  --operation->waiting;
  return is_done;
}

void OperationTable::Release(int64_t handle) {
  const std::lock_guard lock(mutex_);
  by_handle_.erase(handle);
}

size_t OperationTable::Reap(std::span<int64_t> handles) {
  const std::lock_guard lock(mutex_);
  const size_t count = std::min(handles.size(), ended_.size());
  std::copy_n(ended_.begin(), count, handles.begin());
  ended_.erase(ended_.begin(), ended_.begin() + static_cast<std::ptrdiff_t>(count));
  return count;
}

}  // namespace hvdray
