// SPDX-License-Identifier: Apache-2.0
// Stops jobs on Ray and waits for their end: which to ask Ray to stop, and when all is over. Pure.
#ifndef HVDRAY_CLUSTER_RAY_RAY_STOP_PLAN_H_
#define HVDRAY_CLUSTER_RAY_RAY_STOP_PLAN_H_

#include <map>
#include <string>
#include <vector>

#include "base/result.h"
#include "base/types.h"
#include "cluster/ray/ray_facts.h"

namespace hvdray {

/// Of one `hvdray stop`. Ray promises nothing when it is asked to stop a pending job: such a job is
/// asked again once it runs.
class StopPlan {
 public:
  struct Step {
    std::vector<std::string> to_stop;  ///< Ask Ray to stop these now.
    std::vector<std::string> lines;    ///< For the user, in order.
    bool is_done = false;
  };

  /// `wanted`: submission ids; empty: all jobs that have not ended at the first look. `limit`: from
  /// the first look on.
  StopPlan(std::vector<std::string> wanted, Duration limit)
      : wanted_(std::move(wanted)), limit_(limit) {}

  /// Takes all jobs of the cluster. Errors: kUsage when one that was named does not exist, which
  /// only the first look can find; then nothing was stopped. kDeadlineExceeded with the jobs that
  /// still run.
  Result<Step> OnLook(const std::vector<RayJob>& jobs, TimePoint now);
  /// What is waited for: "job a (running)".
  std::string WaitsFor() const;

 private:
  Status Begin(const std::vector<RayJob>& jobs, TimePoint now, Step* step);

  std::vector<std::string> wanted_;
  const Duration limit_;
  bool has_begun_ = false;
  TimePoint deadline_{};
  std::map<std::string, RayJobStatus> waiting_;  // with the state in which Ray was asked last
};

}  // namespace hvdray

#endif  // HVDRAY_CLUSTER_RAY_RAY_STOP_PLAN_H_
