// SPDX-License-Identifier: Apache-2.0
#include "launcher/engine/elastic_nics.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "base/tcp_address.h"

namespace hvdray {
namespace {

bool IsBoundToLoopback(const ElasticNicHost& host) {
  return host.nic && IsLoopback(host.nic->address);
}

}  // namespace

Result<std::vector<NicChoice>> ElasticNics::Select(std::span<const ElasticNicHost> hosts) const {
  std::vector<HostNics> nics;
  nics.reserve(hosts.size());
  for (const ElasticNicHost& host : hosts) nics.push_back({host.name, host.interfaces});
  const auto is_elsewhere = [](const ElasticNicHost& host) { return host.is_elsewhere; };
  const bool is_one_machine = std::none_of(hosts.begin(), hosts.end(), is_elsewhere);
  const bool is_on_loopback = std::any_of(hosts.begin(), hosts.end(), &IsBoundToLoopback);
  if (is_one_machine && (is_fixed_ || is_on_loopback)) {
    return SelectNics(nics, wanted_, HostSpread::kOneMachine);
  }
  Result<std::vector<NicChoice>> choices = SelectNics(nics, wanted_, HostSpread::kManyMachines);
  if (choices.ok() || !is_one_machine) return choices;
  // A machine without a network can still run a local job.
  return SelectNics(nics, wanted_, HostSpread::kOneMachine);
}

Status ElasticNics::Check(std::span<const ElasticNicHost> present,
                          const ElasticNicHost& newcomer) const {
  if (newcomer.is_elsewhere && std::any_of(present.begin(), present.end(), &IsBoundToLoopback)) {
    return {ErrorCode::kNoUsableInterface,
            fmt::format("the workers of this job use the loopback interface, which {} can't reach",
                        newcomer.name),
            "start the job with --network-interfaces and one that other machines reach"};
  }
  HVDRAY_ASSIGN_OR_RETURN(const std::vector<NicChoice> own, Select(std::span(&newcomer, 1)));
  const bool is_any_elsewhere =
      newcomer.is_elsewhere || std::any_of(present.begin(), present.end(),
                                           [](const auto& host) { return host.is_elsewhere; });
  if (present.empty() || !is_any_elsewhere || !IsLoopback(own.front().address)) return {};
  return NoSharedInterface({newcomer.name, newcomer.interfaces});
}

Status ElasticNics::Choose(std::span<ElasticNicHost> hosts) const {
  HVDRAY_ASSIGN_OR_RETURN(std::vector<NicChoice> choices, Select(hosts));
  for (size_t i = 0; i < hosts.size(); ++i) {
    if (!hosts[i].nic) hosts[i].nic = std::move(choices[i]);
  }
  return {};
}

}  // namespace hvdray
