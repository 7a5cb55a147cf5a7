// The whole environment of a worker: what the job gives, the slot variables (which always win, see
// wire/slot_environment.h), and our own. Pure.
#ifndef HVDRAY_AGENT_GANG_ENVIRONMENT_H_
#define HVDRAY_AGENT_GANG_ENVIRONMENT_H_

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "agent/node_environment.h"
#include "wire/message.h"

namespace hvdray {

/// Environments of all workers of one generation on one host. Slot variables always win: whatever
/// the job's environment says of them is dropped, those of torchrun also where they are not set.
class GangEnvironment {
 public:
  /// `node`: of the agent. A job that runs on the node's own environment has `start.environment`
  /// over it; its GPUs are told to workers that shall not just inherit CUDA_VISIBLE_DEVICES.
  GangEnvironment(const wire::StartGeneration& start, std::string job_id, Generation generation,
                  const NodeShare& node = {});

  /// "NAME=VALUE", the same for every worker here. Of two entries with one name the first is kept;
  /// entries without a name or '=' are dropped.
  const std::vector<std::string>& shared() const { return shared_; }
  /// What only this worker gets; shares no name with shared(). `error_file`: see ErrorFile; empty:
  /// it has none.
  std::vector<std::string> ForWorker(const wire::WorkerSlot& slot, uint16_t relay_port,
                                     const std::string& error_file = {}) const;

 private:
  wire::StartGeneration place_;  // without command and environment
  std::string job_id_;
  std::vector<std::string> gpus_;            // empty: CUDA_VISIBLE_DEVICES is not ours
  std::vector<std::string_view> gpu_names_;  // the variables that tell a worker its share
  std::vector<std::string> shared_;
};

}  // namespace hvdray

#endif  // HVDRAY_AGENT_GANG_ENVIRONMENT_H_
