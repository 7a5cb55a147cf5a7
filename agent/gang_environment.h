// SPDX-License-Identifier: Apache-2.0
// Builds the complete environment of a worker: the job's variables, the slot variables (which
// always win, see wire/slot_environment.h), and our own. Pure.
#ifndef HVDRAY_AGENT_GANG_ENVIRONMENT_H_
#define HVDRAY_AGENT_GANG_ENVIRONMENT_H_

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "wire/message.h"

namespace hvdray {

/// What a Ray node contributes to its workers: the environment of the agent's process without Ray's
/// own settings, and the GPUs that Ray assigned. Empty elsewhere. docs/ray.md, "Environment of a
/// worker".
struct NodeShare {
  std::vector<std::string> environment;  ///< "NAME=VALUE", for jobs that use the node's own.
  std::vector<std::string> gpus;         ///< Ray's ids, for CUDA_VISIBLE_DEVICES.
  /// Ray's own Python: the command kNodePython; its directory is appended to PATH. Empty: unknown.
  std::string python = {};
};

/// `start` with the command's kNodePython replaced by `python`, unless this is empty.
wire::StartGeneration WithNodePython(wire::StartGeneration start, const std::string& python);

/// Whether workers see RAY_* variables.
enum class RayNames : uint8_t { kDropped, kKept };

/// Returns `environment` without what Ray set for itself: RAY_* (unless kept), and always
/// OMP_NUM_THREADS (Ray sets the actor's CPU count, `ray up` sets 1), `ray up`'s
/// PYTHONWARNINGS=ignore, a PYTHONBREAKPOINT that is Ray's debugger, and the directories of Ray's
/// processes (PWD, OLDPWD). PYTHONPATH has the user's directory instead of the job's package. The
/// job's own values of these variables are applied later. Source: Ray 2.60's worker environment;
/// docs/ray.md, "Environment of a worker".
std::vector<std::string> WithoutRay(const std::vector<std::string>& environment, RayNames names);

/// Appends `directory` to the list in `entry`, "PATH=...", unless it is there already or empty.
std::string WithPathEnd(std::string_view entry, std::string_view directory);

/// The value of CUDA_VISIBLE_DEVICES for one worker; empty: leave the variable as it is, since no
/// GPUs are known or the job does not divide them. kRank: a worker gets gpus.size() / local_size
/// GPUs, by local rank; with fewer GPUs than workers, neighbours share one.
std::string VisibleGpus(wire::GpuVisibility visibility, const std::vector<std::string>& gpus,
                        int local_rank, int local_size);

/// The environments of all workers of one generation on one host. Slot variables always win: drops
/// their names from the job's environment, and torchrun's names even where we do not set them.
class GangEnvironment {
 public:
  /// `node`: the agent's. For a job that runs on the node's own environment, `start.environment`
  /// takes precedence over the node's. The node's GPUs are divided among the workers unless they
  /// inherit CUDA_VISIBLE_DEVICES.
  GangEnvironment(const wire::StartGeneration& start, std::string job_id, Generation generation,
                  const NodeShare& node = {});

  /// The environment of a command that belongs to no job: the node's own with `start.environment`
  /// on top, and nothing of ours. What it starts may live on without us.
  static GangEnvironment Plain(const wire::StartGeneration& start, const NodeShare& node);

  /// "NAME=VALUE", the same for every worker here. Keeps the first of two entries with one name;
  /// drops entries without a name or '='.
  const std::vector<std::string>& shared() const { return shared_; }
  /// The variables of this worker alone; shares no name with shared(). `error_file`: see ErrorFile;
  /// empty: no such file.
  std::vector<std::string> ForWorker(const wire::WorkerSlot& slot, uint16_t relay_port,
                                     const std::string& error_file = {}) const;

 private:
  GangEnvironment() = default;

  wire::StartGeneration place_;  // Without workers, command and environment.
  std::string job_id_;
  std::vector<std::string> gpus_;            // Empty: CUDA_VISIBLE_DEVICES stays as it is.
  std::vector<std::string_view> gpu_names_;  // The variables that name a worker's GPUs.
  std::vector<std::string> shared_;
  bool is_plain_ = false;
};

}  // namespace hvdray

#endif  // HVDRAY_AGENT_GANG_ENVIRONMENT_H_
