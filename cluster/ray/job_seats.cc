#include "cluster/ray/job_seats.h"

#include <algorithm>
#include <cstddef>
#include <numeric>
#include <optional>
#include <utility>

#include "cluster/ray/ray_host_names.h"

namespace hvdray {
namespace {

constexpr int kMost = 65536;

/// So many bundles of the request on that node; `bundle`: the first of them.
struct Share {
  size_t node = 0;
  size_t bundle = 0;
  int count = 0;
};

const RayLabels& SelectorOf(const RayRequest& request, size_t bundle) {
  static const RayLabels no_labels;
  return request.selectors.empty() ? no_labels : request.selectors[bundle];
}

/// A node of its own for each bundle, in their order. Bundles are all alike or pinned to different
/// addresses, so the first node that will do is as good as any.
std::vector<Share> SpreadStrictly(const RayRequest& request, std::span<const RayNode> nodes) {
  std::vector<Share> shares;
  std::vector<bool> is_taken(nodes.size(), false);
  for (size_t bundle = 0; bundle < request.bundles.size(); ++bundle) {
    size_t node = 0;
    while (node < nodes.size() &&
           (is_taken[node] || FreeBundlesOn(nodes[node], request.bundles[bundle],
                                            SelectorOf(request, bundle), 1) == 0)) {
      ++node;
    }
    if (node == nodes.size()) return {};
    is_taken[node] = true;
    shares.push_back({node, bundle, 1});
  }
  return shares;
}

/// Bundles that are all alike, as many on each node as `rooms` allows; the roomiest first.
std::vector<Share> Pack(int count, const std::vector<int>& rooms) {
  std::vector<size_t> order(rooms.size());
  std::iota(order.begin(), order.end(), size_t{0});
  std::stable_sort(order.begin(), order.end(),
                   [&rooms](size_t a, size_t b) { return rooms[a] > rooms[b]; });
  std::vector<Share> shares;
  for (const size_t node : order) {
    const int taken = std::min(count, rooms[node]);
    if (taken == 0) break;
    shares.push_back({node, 0, taken});
    count -= taken;
  }
  return count == 0 ? shares : std::vector<Share>();
}

std::vector<Share> PackStrictly(int count, const std::vector<int>& rooms) {
  std::optional<size_t> best;
  for (size_t node = 0; node < rooms.size(); ++node) {
    if (rooms[node] >= count && (!best || rooms[node] < rooms[*best])) best = node;
  }
  if (!best) return {};
  return {{*best, 0, count}};
}

std::vector<Share> Spread(int count, const std::vector<int>& rooms) {
  std::vector<int> taken(rooms.size(), 0);
  for (bool is_any = true; is_any && count > 0;) {
    is_any = false;
    for (size_t node = 0; node < rooms.size() && count > 0; ++node) {
      if (taken[node] == rooms[node]) continue;
      ++taken[node];
      --count;
      is_any = true;
    }
  }
  std::vector<Share> shares;
  for (size_t node = 0; node < rooms.size() && count == 0; ++node) {
    if (taken[node] > 0) shares.push_back({node, 0, taken[node]});
  }
  return shares;
}

std::vector<Share> Place(const RayRequest& request, std::span<const RayNode> nodes) {
  if (request.bundles.empty()) return {};
  if (request.strategy == "STRICT_SPREAD") return SpreadStrictly(request, nodes);
  const int count = static_cast<int>(request.bundles.size());
  std::vector<int> rooms;
  for (const RayNode& node : nodes) {
    rooms.push_back(FreeBundlesOn(node, request.bundles.front(), SelectorOf(request, 0), kMost));
  }
  if (request.strategy == "STRICT_PACK") return PackStrictly(count, rooms);
  return request.strategy == "SPREAD" ? Spread(count, rooms) : Pack(count, rooms);
}

}  // namespace

std::vector<RayJobSeat> PlaceSeats(const RayRequest& request, std::span<const RayNode> nodes) {
  std::vector<RayJobSeat> seats;
  std::vector<std::string> ids;
  for (const Share& share : Place(request, nodes)) {
    const RayNode& node = nodes[share.node];
    ids.push_back(node.id);
    seats.push_back({.host = {},
                     .node_id = node.id,
                     .ip = node.ip,
                     .slots = request.slots[share.bundle] * share.count,
                     .amounts = SumOfBundles(request.bundles[share.bundle], share.count)});
  }
  std::vector<std::string> names = RayHostNames(ids, nodes);
  for (size_t i = 0; i < seats.size(); ++i) seats[i].host = std::move(names[i]);
  return seats;
}

}  // namespace hvdray
