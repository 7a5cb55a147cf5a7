// What a job wants of a Ray cluster as the bundles of a placement group, and whether the cluster's
// nodes could hold them. Pure. Source: shared/spec of Ray 2.1 and of Horovod 6.3.
#ifndef HVDRAY_CLUSTER_RAY_RAY_REQUEST_H_
#define HVDRAY_CLUSTER_RAY_RAY_REQUEST_H_

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "cluster/ray/ray_node.h"

namespace hvdray {

/// A node that is asked for by its address.
struct RayNamedHost {
  std::string ip;
  int slots = 1;
};

/// The options of a job that say what it wants. launcher/engine/ray_ask.h makes it from a JobSpec.
struct RayAsk {
  int np = 1;                       ///< Slots; of an elastic job: to start with.
  std::optional<int> num_hosts;     ///< So many nodes with np / num_hosts slots each.
  std::vector<RayNamedHost> named;  /// Or these; not together with num_hosts.
  double cpus_per_slot = 1;
  double gpus_per_slot = 0;
  RayAmounts slot_resources;  ///< Beside CPU and GPU, of each slot.
  RayLabels labels;           ///< Every node that is used has to carry them.
  std::string strategy = {};  ///< As Ray spells it; empty: what the way of asking implies.
};

/// A placement group. Workers get their ranks node by node, whatever bundles they are in.
struct RayRequest {
  std::vector<RayAmounts> bundles;   ///< Never empty; none without a positive amount.
  std::vector<int> slots;            ///< Workers of each bundle.
  std::vector<RayLabels> selectors;  ///< One a bundle, or none at all.
  std::string strategy;              ///< "PACK", "SPREAD", "STRICT_PACK", "STRICT_SPREAD".
  bool operator==(const RayRequest&) const = default;
};

/// num_hosts: a bundle for each host, STRICT_SPREAD. named: the same, each pinned by its
/// "node:<ip>". Else a bundle for each slot, PACK unless a strategy is given.
/// Errors: kUsage for what contradicts itself, or a slot that is made of nothing.
Result<RayRequest> MakeRayRequest(const RayAsk& ask);

/// The same slots in one bundle for each node, by what is free there now, so that a node runs one
/// process of Ray's for the job and not one for each slot: PACK takes few nodes, the roomiest
/// first, SPREAD one slot of each node in turn, STRICT_PACK one bundle. Nothing is pinned: Ray
/// places the bundles. `request` itself where it has a bundle for each node already, or where what
/// is free has no room for it.
RayRequest GroupByNode(const RayRequest& request, std::span<const RayNode> nodes);

/// The bundle of one slot: by which elastic jobs grow.
RayAmounts SlotBundle(const RayAsk& ask);

enum class RayRoom : uint8_t {
  kFree,        ///< It fits into what is free now.
  kBusy,        ///< It would fit if nothing else ran, or what is free is not known.
  kInfeasible,  ///< The live nodes could not hold it even when empty.
};

struct RayFit {
  RayRoom room = RayRoom::kFree;
  /// What is missing, one line without a full stop: "4 hosts with 2 CPU, 1 GPU each are asked for,
  /// and 2 of 3 live nodes have that much free". Empty when free.
  std::string missing;
};

/// Nodes that are dead do not count. Ray decides itself in the end, from figures that are fresher.
RayFit FitRequest(const RayRequest& request, std::span<const RayNode> nodes);

/// How many such slots fit on a node now: what `hvdray slots --ray` lists, and what an elastic job
/// may grow by. Labels: those of `ask`.
int FreeSlotsOn(const RayNode& node, const RayAsk& ask);

/// "2 CPU, 1 GPU": without what pins a bundle to a node.
std::string AmountsText(const RayAmounts& amounts);

}  // namespace hvdray

#endif  // HVDRAY_CLUSTER_RAY_RAY_REQUEST_H_
