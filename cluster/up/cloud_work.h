// SPDX-License-Identifier: Apache-2.0
// The cloud's part of `hvdray up` and `hvdray down`: its calls block, so they run on a thread of
// their own while this one handles signals.
#ifndef HVDRAY_CLUSTER_UP_CLOUD_WORK_H_
#define HVDRAY_CLUSTER_UP_CLOUD_WORK_H_

#include <functional>
#include <memory>
#include <string>
#include <string_view>

#include "base/cancel_flag.h"
#include "base/result.h"
#include "cluster/file/cluster_spec.h"
#include "cluster/up/machines.h"

namespace hvdray {

/// Threads: the caller's.
class CloudWork {
 public:
  /// What jobs use. Shared with them: a job that a second signal left behind may outlive the work.
  struct Cloud {
    ClusterSpec spec;
    CancelFlag cancel;
    std::unique_ptr<Provider> provider;
    std::unique_ptr<Machines> machines;
  };

  /// `say`: prints a line, from another thread while Run() blocks. Errors: those of
  /// MakeAwsProvider(); kNotSupported for another provider.
  static Result<std::unique_ptr<CloudWork>> Open(const ClusterSpec& spec,
                                                 std::function<void(std::string_view)> say);

  /// Runs `job` on another thread and waits for it. The job owns all it touches besides the cloud.
  /// SIGINT, SIGTERM, SIGQUIT or SIGHUP cancels what it does, a second one leaves it behind; then
  /// the answer is kCancelled, and signo() is set. Other errors: the job's.
  Status Run(std::function<Status(Cloud&)> job);

  /// Asks the user. Errors: only kCancelled, as Run().
  Status Ask(const std::string& question, bool* is_yes);

  /// The signal that cancelled; 0: none.
  int signo() const { return signo_; }
  Cloud& cloud() { return *cloud_; }

 private:
  CloudWork() : cloud_(std::make_shared<Cloud>()) {}

  const std::shared_ptr<Cloud> cloud_;  // with the jobs
  int signo_ = 0;
};

}  // namespace hvdray

#endif  // HVDRAY_CLUSTER_UP_CLOUD_WORK_H_
