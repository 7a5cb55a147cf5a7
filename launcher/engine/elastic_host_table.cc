// SPDX-License-Identifier: Apache-2.0
#include "launcher/engine/elastic_host_table.h"

#include <utility>

namespace hvdray {
namespace {

ElasticNicHost NicHostOf(const ElasticHost& host) {
  return {host.slots.host, host.facts.interfaces, host.is_elsewhere, host.nic};
}

}  // namespace

ElasticHost& ElasticHostTable::At(int host) {
  const auto index = static_cast<size_t>(host);
  if (hosts_.size() <= index) hosts_.resize(index + 1);
  return hosts_[index];
}

int ElasticHostTable::HostOf(int agent) const {
  const auto found = host_of_agent_.find(agent);
  return found == host_of_agent_.end() ? -1 : found->second;
}

void ElasticHostTable::Connect(int host, const HostSlots& slots, int agent) {
  Disconnect(host);
  ElasticHost& entry = At(host);
  entry.slots = slots;
  entry.agent = agent;
  host_of_agent_[agent] = host;
}

int ElasticHostTable::Disconnect(int host) {
  ElasticHost& entry = At(host);
  const int agent = std::exchange(entry.agent, -1);
  host_of_agent_.erase(agent);
  entry.is_ready = false;
  entry.has_workers = false;
  entry.nic.reset();
  entry.stopping.reset();
  return agent;
}

Status ElasticHostTable::CheckNic(const ElasticNics& nics, int host) {
  std::vector<ElasticNicHost> present;
  for (int other = 0; other < size(); ++other) {
    if (other != host && At(other).is_ready) present.push_back(NicHostOf(At(other)));
  }
  return nics.Check(present, NicHostOf(At(host)));
}

Status ElasticHostTable::ChooseNics(const ElasticNics& nics) {
  std::vector<ElasticNicHost> ready;
  std::vector<ElasticHost*> entries;
  for (ElasticHost& host : hosts_) {
    if (!host.is_ready) continue;
    ready.push_back(NicHostOf(host));
    entries.push_back(&host);
  }
  HVDRAY_RETURN_IF_ERROR(nics.Choose(ready));
  for (size_t i = 0; i < entries.size(); ++i) entries[i]->nic = ready[i].nic;
  return {};
}

std::vector<HostReport> ElasticHostTable::Report() const {
  std::vector<HostReport> report;
  for (const ElasticHost& host : hosts_) {
    if (host.slots.host.empty()) continue;
    report.push_back({host.slots.host, host.slots.slots, host.facts, host.relay, host.sync});
  }
  return report;
}

}  // namespace hvdray
