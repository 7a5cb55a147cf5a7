// SPDX-License-Identifier: Apache-2.0
// Turns a job's request to a Ray cluster into the bundles of a placement group, and checks whether
// the cluster's nodes could hold them. Pure. docs/ray.md, "Slots".
#ifndef HVDRAY_LAUNCHER_JOB_RAY_REQUEST_H_
#define HVDRAY_LAUNCHER_JOB_RAY_REQUEST_H_

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/host_slots.h"
#include "base/result.h"
#include "launcher/job/ray_node.h"

namespace hvdray {

/// The job's options that define its request.
struct RayAsk {
  int np = 1;                    ///< Slots; for an elastic job: at the start.
  std::optional<int> num_hosts;  ///< Use this many nodes, with np / num_hosts slots each.
  /// Or use these nodes, each by its address in `host`; not together with num_hosts.
  std::vector<HostSlots> named;
  double cpus_per_slot = 1;
  double gpus_per_slot = 0;
  RayAmounts slot_resources;  ///< Per slot, besides CPU and GPU.
  RayLabels labels;           ///< Every node of the job must have them.
  std::string strategy = {};  ///< As Ray spells it; empty: implied by the other fields.
};

/// A placement group to reserve. Ranks are assigned node by node, whatever the bundles.
struct RayRequest {
  std::vector<RayAmounts> bundles;   ///< Never empty; each has a positive amount.
  std::vector<int> slots;            ///< Workers of each bundle.
  std::vector<RayLabels> selectors;  ///< One per bundle, or empty.
  std::string strategy;              ///< "PACK", "SPREAD", "STRICT_PACK", "STRICT_SPREAD".
  bool operator==(const RayRequest&) const = default;
};

/// num_hosts: one bundle per host, STRICT_SPREAD. named: the same, each pinned by its resource
/// "node:<ip>". Otherwise one bundle per slot, PACK unless a strategy is given.
/// Errors: kUsage for contradictory fields, and for a slot without resources.
Result<RayRequest> MakeRayRequest(const RayAsk& ask);

/// Merges the slots into one bundle per node, by the resources that are free now, so that Ray runs
/// one process per node for the job instead of one per slot. PACK uses few nodes, those with most
/// room first; SPREAD takes one slot from each node in turn; STRICT_PACK makes one bundle. Bundles
/// are not pinned: Ray places them. Returns `request` unchanged if it has one bundle per node
/// already, or if the free resources don't suffice.
RayRequest GroupByNode(const RayRequest& request, std::span<const RayNode> nodes);

/// The bundle of one slot, the unit by which elastic jobs grow.
RayAmounts SlotBundle(const RayAsk& ask);

/// Whether a request fits.
enum class RayRoom : uint8_t {
  kFree,        ///< It fits into the free resources.
  kBusy,        ///< It would fit if nothing else ran, or the free resources are unknown.
  kInfeasible,  ///< The live nodes could not hold it even when idle.
};

/// The result of FitRequest().
struct RayFit {
  RayRoom room = RayRoom::kFree;
  /// What is missing, one line without a full stop: "4 hosts with 2 CPU, 1 GPU each are requested,
  /// but 2 of 3 live nodes have that much free". Empty for kFree.
  std::string missing;
};

/// Ignores dead nodes. Only an estimate: Ray itself decides, with newer figures.
RayFit FitRequest(const RayRequest& request, std::span<const RayNode> nodes);

/// The number of slots of `ask` that fit on a node now, with the labels of `ask`. `hvdray slots
/// --ray` lists it, and an elastic job may grow by it.
int FreeSlotsOn(const RayNode& node, const RayAsk& ask);

/// "2 CPU, 1 GPU", without the resource that pins a bundle to a node.
std::string AmountsText(const RayAmounts& amounts);

// Names of the nodes of a Ray cluster for the user.

/// A distinct host name for each node of `ids`, in their order: its address, or, when several nodes
/// share the address, the address with the first digits of the node's id ("10.0.0.11-b6c5c53b").
std::vector<std::string> RayHostNames(std::span<const std::string> ids,
                                      std::span<const RayNode> nodes);

/// The address of node `id`; "node" when `nodes` doesn't contain it.
std::string RayIp(const std::string& id, std::span<const RayNode> nodes);

}  // namespace hvdray

#endif  // HVDRAY_LAUNCHER_JOB_RAY_REQUEST_H_
