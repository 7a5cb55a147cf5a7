// SPDX-License-Identifier: Apache-2.0
// What `hvdray run --ray` takes beside the options of every job: the cluster, what a slot is made
// of, the package. Part of JobSpec.
#ifndef HVDRAY_LAUNCHER_JOB_RAY_SPEC_H_
#define HVDRAY_LAUNCHER_JOB_RAY_SPEC_H_

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/types.h"
#include "launcher/job/setting.h"

namespace hvdray {

/// Ray's strategies; kAuto: what the way of asking implies (-np PACK, --num-hosts STRICT_SPREAD).
enum class RayStrategy : uint8_t { kAuto, kPack, kSpread, kStrictPack, kStrictSpread };
/// Where a cluster file's slots come from. kAuto: from its Ray if that answers, else by SSH.
enum class Backend : uint8_t { kAuto, kRay, kSsh };
/// Which GPUs of its host a worker sees: all that the job has there (Horovod's rule), or its own.
enum class GpuChoice : uint8_t { kHost, kRank };

struct RaySpec {
  Setting<bool> is_wanted;       ///< --ray, or --ray-address.
  Setting<Backend> backend;      ///< --backend
  Setting<std::string> address;  ///< --ray-address. Empty: see cluster/ray/ray_address.h.
  Setting<std::string> verify;   ///< --ray-verify: "true", "false", or a file or directory of CAs.
  Setting<std::string> headers;  ///< --ray-headers: a JSON object of texts.
  Setting<std::string> python;   ///< --ray-python. Empty: the one that Ray itself runs in.
  Setting<bool> keeps_ray_env;   ///< --keep-ray-env
  Setting<bool> is_detached;     ///< --detach
  Setting<bool> stops_with_client;  ///< --stop-with-client
  /// --ray-log-limit: bytes of output that lie on the head's disk, at most.
  Setting<double> log_limit{double{1 << 30}};
  Setting<std::string>
      working_dir;  ///< --working-dir: a directory that goes with the job, or a URI.
  Setting<std::vector<std::string>> excludes;  ///< --exclude: lines as of a .gitignore.
  /// --runtime-env: JSON, with what it names on this machine read in. See ray_runtime_env.h.
  Setting<std::string> runtime_env;

  // What is asked for.
  Setting<std::optional<int>> num_hosts;  ///< --num-hosts
  Setting<std::optional<int>> num_slots;  ///< --num-slots: of each of them.
  Setting<double> cpus_per_slot{1};
  Setting<std::optional<double>> gpus_per_slot;       ///< nullopt: 1 with --use-gpu, else 0.
  Setting<bool> uses_gpu;                             ///< --use-gpu
  Setting<std::vector<std::string>> slot_resources;   ///< --resources-per-slot: NAME=AMOUNT.
  Setting<std::vector<std::string>> label_selectors;  ///< --label-selector: NAME=VALUE.
  Setting<RayStrategy> strategy;                      ///< --strategy
  Setting<Duration> group_timeout{std::chrono::seconds(100)};  ///< --placement-group-timeout
  Setting<GpuChoice> gpu_choice;                               ///< --gpu-visibility

  /// An archive that Ray fetches on each node, not a directory of the client's.
  bool is_directory_remote() const { return working_dir->find("://") != std::string::npos; }
  double slot_gpus() const { return gpus_per_slot->value_or(*uses_gpu ? 1 : 0); }
};

}  // namespace hvdray

#endif  // HVDRAY_LAUNCHER_JOB_RAY_SPEC_H_
