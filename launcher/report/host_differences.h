// SPDX-License-Identifier: Apache-2.0
// In what the hosts of a job differ: for each property what most hosts have, and which have
// something else. Pure. docs/check.md.
#ifndef HVDRAY_LAUNCHER_REPORT_HOST_DIFFERENCES_H_
#define HVDRAY_LAUNCHER_REPORT_HOST_DIFFERENCES_H_

#include <string>
#include <vector>

#include "launcher/report/check_facts.h"

namespace hvdray {

/// Hosts, by name, that have the same value of a property.
struct SharedValue {
  std::string value;  ///< "none" if they lack what others have.
  std::vector<std::string> hosts;
};

/// A property of which hosts have several values.
struct HostDifference {
  std::string name;  ///< "libc", "torch", "NCCL_DEBUG"
  /// False: a variable of the host's login, which workers do not get from it.
  bool is_of_workers = true;
  std::vector<SharedValue> values;  ///< At least two; that of most hosts first.
};

/// What is unknown of a host does not count.
std::vector<HostDifference> Differences(const CheckFacts& facts);

/// What most hosts have, once; then what each differing group of hosts has. Empty: no differences.
std::string DifferencesText(const CheckFacts& facts);

/// Adds one finding if workers will meet a difference.
void JudgeDifferences(const CheckFacts& facts, std::vector<Finding>& findings);

}  // namespace hvdray

#endif  // HVDRAY_LAUNCHER_REPORT_HOST_DIFFERENCES_H_
