// SPDX-License-Identifier: Apache-2.0
// The dead man's lease of a cluster: until when it may run unless somebody renews it. It is kept as
// seconds since 1970, on every node and in the tags of a cloud's machines. Pure.
#ifndef HVDRAY_CLUSTER_UP_LEASE_H_
#define HVDRAY_CLUSTER_UP_LEASE_H_

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "base/types.h"

namespace hvdray {

/// The tag of a cloud's machine that has its lease.
inline constexpr std::string_view kTagLease = "hvdray-lease-end";

/// When a lease ends that begins at `now`, in seconds since 1970, at least one second later.
int64_t LeaseEnd(int64_t now, Duration length);

/// As a node's file or a tag has it: "1764072000". nullopt: no such time.
std::optional<int64_t> ParseLeaseEnd(std::string_view text);
std::string FormatLeaseEnd(int64_t end);

/// For people: "2025-11-25T12:00:00Z".
std::string LeaseText(int64_t end);

/// Why --expired leaves a cluster whose latest lease ends at `end`; 0: it has none.
std::string LeaseKeptText(std::string_view cluster, int64_t end);

}  // namespace hvdray

#endif  // HVDRAY_CLUSTER_UP_LEASE_H_
