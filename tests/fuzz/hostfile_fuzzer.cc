// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <set>
#include <string>

#include "launcher/job/allocation.h"
#include "launcher/job/hostfile.h"

namespace {

void Require(bool is_true) {
  if (!is_true) std::abort();
}

/// Written out and read back it is the same host.
void CheckText(const hvdray::HostSlots& host) {
  const auto again = hvdray::ParseHostList(hvdray::HostText(host));
  Require(again.ok() && again->size() == 1 && again->front() == host);
}

/// Distinct plain names, sane slots, and nothing that ssh would take for an option.
void CheckHosts(const std::vector<hvdray::HostSlots>& hosts) {
  Require(!hosts.empty() && hosts.size() <= hvdray::kMaxHosts);
  std::set<std::string> names;
  for (const hvdray::HostSlots& host : hosts) {
    Require(hvdray::IsHostName(host.host) && names.insert(host.host).second);
    Require(host.slots >= 0 && host.slots <= hvdray::kMaxSlots);
    Require(host.address.user.empty() || hvdray::IsUserName(host.address.user));
    Require(!host.dial_name().starts_with('-'));
  }
  for (size_t i = 0; i < std::min<size_t>(hosts.size(), 100); ++i) CheckText(hosts[i]);
}

/// What is refused says so in one line.
void CheckStatus(const hvdray::Status& status) {
  Require(status.code() == hvdray::ErrorCode::kSpecInvalid);
  Require(status.message().find('\n') == std::string::npos);
}

void Check(const hvdray::Result<std::vector<hvdray::HostSlots>>& result) {
  if (!result.ok()) return CheckStatus(result.status());
  CheckHosts(*result);
}

/// No hosts are a list too, and a host that comes again is only a warning.
void CheckDiscovered(const std::string& text) {
  std::string warning;
  const auto result = hvdray::ParseDiscoveredHosts(text, 4, &warning);
  Require(warning.find('\n') == std::string::npos);
  if (!result.ok()) return CheckStatus(result.status());
  if (!result->empty()) CheckHosts(*result);
}

void CheckAllocation(std::map<std::string, std::string> variables, const std::string& file) {
  using Text = hvdray::Result<std::optional<std::string>>;
  const auto result =
      hvdray::FindAllocation(hvdray::Environment(std::move(variables)),
                             [&file](const std::string&) -> Text { return {file}; });
  if (!result.ok()) return CheckStatus(result.status());
  if (*result) CheckHosts(***result);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string text(reinterpret_cast<const char*>(data), size);
  Check(hvdray::ParseHostfile(text, "hosts"));
  Check(hvdray::ParseHostList(text));
  CheckDiscovered(text);
  // The first line names the hosts, the rest counts them.
  const size_t end = std::min(text.find('\n'), text.size());
  const std::string counts = end < text.size() ? text.substr(end + 1) : "1";
  CheckAllocation({{"SLURM_JOB_NODELIST", text.substr(0, end)}, {"SLURM_TASKS_PER_NODE", counts}},
                  "");
  CheckAllocation({{"SLURM_JOB_NODELIST", "n[1-9]"},
                   {"SLURM_TASKS_PER_NODE", "1(x9)"},
                   {"SLURM_STEP_NODELIST", text.substr(0, end)},
                   {"SLURM_STEP_TASKS_PER_NODE", counts}},
                  "");
  CheckAllocation({{"PBS_NODEFILE", "nodes"}}, text);
  CheckAllocation({{"LSB_HOSTS", text}}, "");
  CheckAllocation({{"LSB_MCPU_HOSTS", text}}, "");
  return 0;
}
