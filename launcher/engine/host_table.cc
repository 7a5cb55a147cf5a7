// SPDX-License-Identifier: Apache-2.0
#include "launcher/engine/host_table.h"

#include <utility>

namespace hvdray {
namespace {

ElasticNicHost NicHost(const JobHost& host) {
  return {host.slots.host, host.facts.interfaces, host.is_elsewhere, host.nic};
}

}  // namespace

JobHost& HostTable::At(int host) {
  const auto index = static_cast<size_t>(host);
  if (hosts_.size() <= index) hosts_.resize(index + 1);
  return hosts_[index];
}

int HostTable::HostOf(int agent) const {
  const auto found = host_of_agent_.find(agent);
  return found == host_of_agent_.end() ? -1 : found->second;
}

void HostTable::Connect(int host, const HostSlots& slots, int agent) {
  Disconnect(host);
  JobHost& entry = At(host);
  entry.slots = slots;
  entry.agent = agent;
  host_of_agent_[agent] = host;
}

int HostTable::Disconnect(int host) {
  JobHost& entry = At(host);
  const int agent = std::exchange(entry.agent, -1);
  host_of_agent_.erase(agent);
  entry.is_ready = false;
  entry.has_workers = false;
  entry.nic.reset();
  entry.stopping.reset();
  return agent;
}

std::vector<JobHost> HostTable::TakeReady() {
  std::vector<JobHost> ready;
  for (JobHost& host : std::exchange(hosts_, {})) {
    host.has_workers = false;
    host.nic.reset();
    host.stopping.reset();
    if (host.agent >= 0 && host.is_ready) ready.push_back(std::move(host));
  }
  host_of_agent_.clear();
  return ready;
}

void HostTable::Adopt(int host, const HostSlots& slots, JobHost entry) {
  Disconnect(host);
  entry.slots = slots;
  host_of_agent_[entry.agent] = host;
  At(host) = std::move(entry);
}

void HostTable::NoteCopy(int host, const SyncStats& stats, std::span<const std::string> roots,
                         const std::optional<SyncedPlace>& place) {
  JobHost& entry = At(host);
  entry.sync = stats;
  if (!place) return;
  entry.worker_directory = roots[place->directory];
  if (!place->path.empty()) entry.worker_directory += "/" + place->path;
}

Status HostTable::CheckNic(const ElasticNics& nics, int host) {
  std::vector<ElasticNicHost> present;
  for (int other = 0; other < size(); ++other) {
    if (other != host && At(other).is_ready) present.push_back(NicHost(At(other)));
  }
  return nics.Check(present, NicHost(At(host)));
}

Status HostTable::ChooseNics(const ElasticNics& nics) {
  std::vector<ElasticNicHost> ready;
  std::vector<JobHost*> entries;
  for (JobHost& host : hosts_) {
    if (!host.is_ready) continue;
    ready.push_back(NicHost(host));
    entries.push_back(&host);
  }
  HVDRAY_RETURN_IF_ERROR(nics.Choose(ready));
  for (size_t i = 0; i < entries.size(); ++i) entries[i]->nic = ready[i].nic;
  return {};
}

std::vector<HostReport> HostTable::Report() const {
  std::vector<HostReport> report;
  for (const JobHost& host : hosts_) {
    if (host.slots.host.empty()) continue;
    report.push_back({host.slots.host, host.slots.slots, host.facts, host.relay, host.sync});
  }
  return report;
}

}  // namespace hvdray
