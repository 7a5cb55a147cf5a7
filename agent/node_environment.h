// What a worker on Ray gets of its node: the environment of the agent's own process without what
// Ray put there for itself, and the GPUs that Ray has given. Pure.
#ifndef HVDRAY_AGENT_NODE_ENVIRONMENT_H_
#define HVDRAY_AGENT_NODE_ENVIRONMENT_H_

#include <string>
#include <string_view>
#include <vector>

#include "wire/message.h"

namespace hvdray {

/// What an agent knows of its node beside what the launcher says. Empty but on Ray.
struct NodeShare {
  std::vector<std::string> environment;  ///< "NAME=VALUE", for jobs that run on the node's own.
  std::vector<std::string> gpus;         ///< Ray's ids, for CUDA_VISIBLE_DEVICES.
  /// Where Ray's own Python is: the last place in PATH. Empty: unknown.
  std::string path_end = {};
};

enum class RayNames : uint8_t { kDropped, kKept };

/// Of the process's environment without RAY_* (unless kept), and in any case without what only
/// hampers a training process: OMP_NUM_THREADS (Ray counts the CPUs of the actor, `ray up` says 1),
/// `ray up`'s PYTHONWARNINGS=ignore, a PYTHONBREAKPOINT that is Ray's debugger, and the folders
/// that Ray's processes were in (PWD, OLDPWD). PYTHONPATH has the user's folder in the place of the
/// job's package. What the job itself gives for these goes over it later.
/// Source: Ray 2.60 spec 2.2, 4.2.
std::vector<std::string> WithoutRay(const std::vector<std::string>& environment, RayNames names);

/// "PATH=..." with `folder` behind what it has, unless that is there or empty.
std::string WithPathEnd(std::string_view entry, std::string_view folder);

/// The value of CUDA_VISIBLE_DEVICES for one worker; empty: to be left as it is, since no GPUs are
/// known or the job wants none of this. kRank: gpus.size() / local_size of them, by local rank;
/// with fewer GPUs than workers neighbours share one.
std::string VisibleGpus(wire::GpuVisibility visibility, const std::vector<std::string>& gpus,
                        int local_rank, int local_size);

}  // namespace hvdray

#endif  // HVDRAY_AGENT_NODE_ENVIRONMENT_H_
