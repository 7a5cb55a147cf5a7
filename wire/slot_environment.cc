// SPDX-License-Identifier: Apache-2.0
#include "wire/slot_environment.h"

#include <fmt/format.h>

#include <algorithm>

namespace hvdray {
namespace {

class Entries {
 public:
  void Add(std::string name, std::string value) {
    entries_.emplace_back(std::move(name), std::move(value));
  }
  void Add(std::string name, int64_t value) { Add(std::move(name), fmt::format("{}", value)); }
  void AddIfKnown(std::string name, const std::string& value) {
    if (!value.empty()) Add(std::move(name), value);
  }
  void AddPort(std::string name, uint16_t port) {
    if (port != 0) Add(std::move(name), int64_t{port});
  }
  std::vector<EnvironmentEntry> Take() && { return std::move(entries_); }

 private:
  std::vector<EnvironmentEntry> entries_;
};

void AddHorovod(const wire::StartGeneration& start, const wire::WorkerSlot& slot,
                uint16_t rendezvous_port, Entries* out) {
  out->Add("HOROVOD_HOSTNAME", start.host_name);
  out->Add("HOROVOD_RANK", slot.rank);
  out->Add("HOROVOD_SIZE", start.size);
  out->Add("HOROVOD_LOCAL_RANK", slot.local_rank);
  out->Add("HOROVOD_LOCAL_SIZE", start.local_size);
  out->Add("HOROVOD_CROSS_RANK", slot.cross_rank);
  out->Add("HOROVOD_CROSS_SIZE", slot.cross_size);
  out->Add("HOROVOD_GLOO_RENDEZVOUS_ADDR", "127.0.0.1");
  out->AddPort("HOROVOD_GLOO_RENDEZVOUS_PORT", rendezvous_port);
  out->Add("HOROVOD_CONTROLLER", "gloo");
  out->Add("HOROVOD_CPU_OPERATIONS", "gloo");
  out->AddIfKnown("HOROVOD_GLOO_IFACE", start.gloo_interface);
  out->AddIfKnown("NCCL_SOCKET_IFNAME", start.nccl_interfaces);
  // Otherwise torch's Gloo announces the address that the host's own name resolves to.
  out->AddIfKnown("GLOO_SOCKET_IFNAME", start.gloo_interface);
  out->Add("PYTHONUNBUFFERED", "1");
}

void AddTorch(const wire::StartGeneration& start, const wire::WorkerSlot& slot,
              std::string_view job_id, Entries* out) {
  out->Add("RANK", slot.rank);
  out->Add("WORLD_SIZE", start.size);
  out->Add("LOCAL_RANK", slot.local_rank);
  out->Add("LOCAL_WORLD_SIZE", start.local_size);
  out->Add("GROUP_RANK", start.host_index);
  out->Add("GROUP_WORLD_SIZE", start.host_count);
  out->Add("ROLE_NAME", "default");
  out->Add("ROLE_RANK", slot.rank);
  out->Add("ROLE_WORLD_SIZE", start.size);
  out->AddIfKnown("MASTER_ADDR", start.master_address);
  out->AddPort("MASTER_PORT", start.master_port);
  out->Add("TORCHELASTIC_RESTART_COUNT", start.restart_count);
  out->Add("TORCHELASTIC_MAX_RESTARTS", start.max_restarts);
  out->AddIfKnown("TORCHELASTIC_RUN_ID", std::string(job_id));
  // Otherwise torch looks for a store that torchrun keeps beside the workers.
  out->Add("TORCHELASTIC_USE_AGENT_STORE", "False");
}

}  // namespace

std::vector<EnvironmentEntry> SlotEnvironment(const wire::StartGeneration& start,
                                              const wire::WorkerSlot& slot, std::string_view job_id,
                                              uint16_t rendezvous_port) {
  Entries entries;
  AddHorovod(start, slot, rendezvous_port, &entries);
  if (start.is_torch_environment) AddTorch(start, slot, job_id, &entries);
  std::vector<EnvironmentEntry> result = std::move(entries).Take();
  std::erase_if(result, [&start](const EnvironmentEntry& entry) {
    return std::ranges::find(start.kept_variables, entry.first) != start.kept_variables.end();
  });
  return result;
}

}  // namespace hvdray
