// SPDX-License-Identifier: Apache-2.0
// A cloud's machines as hosts: which one is the head, and at which of its addresses each is
// reached. Pure.
#ifndef HVDRAY_CLUSTER_CLOUD_CLOUD_HOSTS_H_
#define HVDRAY_CLUSTER_CLOUD_CLOUD_HOSTS_H_

#include <string>
#include <string_view>
#include <vector>

#include "base/host_slots.h"
#include "base/result.h"
#include "cluster/cloud/provider.h"
#include "cluster/file/cluster_spec.h"

namespace hvdray {

/// The machine's address for us: the external one, unless the file has use_internal_ips, and for
/// the head no use_external_head_ip. Empty: it has none yet.
std::string CloudAddress(const ClusterSpec& spec, const CloudNode& node);

/// How to log in to a machine that has a CloudAddress(). `host` is its address in the cluster's
/// network, by which Ray and other machines know it; dial_name() is what SSH dials: the address for
/// us, or the machine's id with ssh_proxy_use_node_id. Its host key goes by its id, because a cloud
/// gives an address to another machine later.
HostSlots CloudHost(const ClusterSpec& spec, const CloudNode& node, int slots);

/// slots_per_host of the file, else the CPUs of the machine's type in the file, else
/// `default_slots`.
int CloudSlots(const ClusterSpec& spec, const CloudNode& node, int default_slots);

/// The live head. The pointer is into `nodes`. Errors: kHostUnreachable when there is none, more
/// than one, or one without an address yet.
Result<const CloudNode*> LiveHead(const ClusterSpec& spec, const std::vector<CloudNode>& nodes);

/// Whether a user who writes `word` means this machine: by its id, or one of its addresses.
bool IsCalled(const CloudNode& node, std::string_view word);

}  // namespace hvdray

#endif  // HVDRAY_CLUSTER_CLOUD_CLOUD_HOSTS_H_
