// SPDX-License-Identifier: Apache-2.0
#include "launcher/engine/worker_errors.h"

#include <chrono>
#include <utility>

namespace hvdray {

void WorkerErrors::OnFailed(const JobOutput& output, const wire::WorkerExited& exited,
                            std::span<const int> others) {
  if (!exited.recorded_error.empty()) recorded_[exited.rank] = exited.recorded_error;
  if (!std::exchange(has_failed_, true)) {
    for (const int worker : others) {
      if (worker != exited.rank) Tell(output, worker, std::nullopt);
    }
  }
  std::optional<Duration> age;
  if (exited.error_age_ms >= 0) age = std::chrono::milliseconds(exited.error_age_ms);
  Tell(output, exited.rank, age);
}

void WorkerErrors::OnStderr(const JobOutput& output, int worker) {
  if (has_failed_) Tell(output, worker, std::nullopt);
}

void WorkerErrors::Clear() {
  has_failed_ = false;
  told_.clear();
  recorded_.clear();
}

void WorkerErrors::Tell(const JobOutput& output, int worker, std::optional<Duration> age) {
  LastError error = output.ErrorOf(worker);
  const auto recorded = recorded_.find(worker);
  // What a rank that hung prints while it is stopped says nothing.
  if (recorded != recorded_.end() &&
      (error.text.empty() || recorded->second.starts_with(kStallRecord))) {
    error = ReadRecordedError(recorded->second);
  }
  LastError& known = told_[worker];
  if (error == known && !age) return;
  known = error;
  tell_(worker, std::move(error), age);
}

}  // namespace hvdray
