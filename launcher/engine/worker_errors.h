// SPDX-License-Identifier: Apache-2.0
// Reports workers' errors to the driver: once one worker has failed, what it and the others printed
// on stderr, and again as more arrives.
#ifndef HVDRAY_LAUNCHER_ENGINE_WORKER_ERRORS_H_
#define HVDRAY_LAUNCHER_ENGINE_WORKER_ERRORS_H_

#include <functional>
#include <map>
#include <optional>
#include <span>
#include <string>

#include "launcher/driver/last_error.h"
#include "launcher/report/job_output.h"
#include "wire/message.h"

namespace hvdray {

/// Workers are identified by JobOutput's numbers. Threads: the loop's.
class WorkerErrors {
 public:
  /// `age`: since the error appeared; nullopt: unchanged.
  using TellFn = std::function<void(int worker, LastError error, std::optional<Duration> age)>;
  explicit WorkerErrors(TellFn tell) : tell_(std::move(tell)) {}

  /// A worker has failed. `others`: workers that may have printed errors, too; reported at the
  /// first failure.
  void OnFailed(const JobOutput& output, const wire::WorkerExited& exited,
                std::span<const int> others);
  /// More stderr of that worker has arrived.
  void OnStderr(const JobOutput& output, int worker);
  bool has_failed() const { return has_failed_; }
  /// Another generation begins and reuses the numbers.
  void Clear();

 private:
  void Tell(const JobOutput& output, int worker, std::optional<Duration> age);

  const TellFn tell_;
  bool has_failed_ = false;
  std::map<int, LastError> told_;
  std::map<int, std::string> recorded_;  // TORCHELASTIC_ERROR_FILE
};

}  // namespace hvdray

#endif  // HVDRAY_LAUNCHER_ENGINE_WORKER_ERRORS_H_
