// SPDX-License-Identifier: Apache-2.0
// Many host names as one short text: node[003-202]. Pure.
#ifndef HVDRAY_LAUNCHER_DRIVER_HOST_LIST_H_
#define HVDRAY_LAUNCHER_DRIVER_HOST_LIST_H_

#include <span>
#include <string>

namespace hvdray {

/// "node[003-005,9],gpu1.example.org": folds names that differ in one number only, in order of
/// first appearance; duplicates count once. The number is the last one of the first label, or of
/// the whole name if it is an IPv4 address; leading zeros are kept. Writes at most `max_groups`
/// groups with as many ranges each, then "and N more".
std::string CompressHostList(std::span<const std::string> hosts, size_t max_groups = 16);

}  // namespace hvdray

#endif  // HVDRAY_LAUNCHER_DRIVER_HOST_LIST_H_
