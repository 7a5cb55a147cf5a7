// SPDX-License-Identifier: Apache-2.0
#include "launcher/job/ray_request.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <map>
#include <numeric>
#include <set>
#include <utility>

#include "base/text.h"

namespace hvdray {
namespace {

constexpr std::string_view kNodePrefix = "node:";
// Enough to pin a bundle, and too little to block other users. Ray counts in steps of 0.0001.
constexpr double kPin = 0.001;
// Half of Ray's step: smaller remainders are rounding errors.
constexpr double kTolerance = 0.00005;
constexpr int kMost = 65536;  // slots on a node

bool IsPin(std::string_view name) { return name.starts_with(kNodePrefix); }

RayAmounts Times(const RayAmounts& amounts, int count) {
  RayAmounts product;
  for (const auto& [name, amount] : amounts) {
    // One pin suffices for any number of slots.
    product[name] = IsPin(name) ? amount : amount * count;
  }
  return product;
}

double Amount(const RayAmounts& amounts, const std::string& name) {
  const auto found = amounts.find(name);
  return found == amounts.end() ? 0 : found->second;
}

/// How many of these bundles fit into `room`, at most `most`.
int Holds(const RayAmounts& room, const RayAmounts& bundle, int most) {
  double count = most;
  for (const auto& [name, amount] : bundle) {
    count = std::min(count, std::floor((Amount(room, name) + kTolerance) / amount));
  }
  return static_cast<int>(std::max(count, 0.0));
}

/// Ray's label selectors: "x", "!x", "in(x,y)", "!in(x,y)".
bool MatchesValue(const std::string* label, std::string_view wanted) {
  if (wanted.starts_with('!')) return !MatchesValue(label, wanted.substr(1));
  if (label == nullptr) return false;
  if (!wanted.starts_with("in(") || !wanted.ends_with(')')) return *label == wanted;
  wanted = wanted.substr(3, wanted.size() - 4);
  while (!wanted.empty()) {
    const size_t end = std::min(wanted.find(','), wanted.size());
    std::string_view word = wanted.substr(0, end);
    while (word.starts_with(' ')) word.remove_prefix(1);
    while (word.ends_with(' ')) word.remove_suffix(1);
    if (*label == word) return true;
    wanted.remove_prefix(std::min(end + 1, wanted.size()));
  }
  return false;
}

bool Matches(const RayLabels& labels, const RayLabels& selector) {
  return std::all_of(selector.begin(), selector.end(), [&labels](const auto& wanted) {
    const auto found = labels.find(wanted.first);
    return MatchesValue(found == labels.end() ? nullptr : &found->second, wanted.second);
  });
}

/// How many of these bundles fit on a node now, at most `most`. selector: must match the node's
/// labels. A dead node has no room.
int FreeBundlesOn(const RayNode& node, const RayAmounts& bundle, const RayLabels& selector,
                  int most) {
  if (!node.is_alive || !Matches(node.labels, selector)) return 0;
  return Holds(node.free, bundle, most);
}

/// A part of a request: `count` equal bundles.
struct Wish {
  const RayAmounts& bundle;
  const RayLabels& selector;
  int count = 0;
  std::string_view strategy;

  /// `rooms`: how many of the bundles fit on each node.
  bool IsMet(const std::vector<int>& rooms) const {
    int64_t sum = 0;
    int hosts = 0;
    int largest = 0;
    for (const int room : rooms) {
      sum += room;
      hosts += room > 0 ? 1 : 0;
      largest = std::max(largest, room);
    }
    if (strategy == "STRICT_SPREAD") return hosts >= count;
    if (strategy == "STRICT_PACK") return largest >= count;
    return sum >= count;
  }
};

std::string WishText(const Wish& wish) {
  const std::string amounts = AmountsText(wish.bundle);
  const std::string each = wish.count == 1 ? "" : " each";
  if (wish.strategy == "STRICT_SPREAD") {
    return fmt::format("{} with {}{}", Count(wish.count, "host"), amounts, each);
  }
  return fmt::format("{} of {}{}{}", Count(wish.count, "slot"), amounts, each,
                     wish.strategy == "STRICT_PACK" ? " on one host" : "");
}

/// Which resources count: those that are free now, or all.
enum class Room : uint8_t { kFree, kTotal };

/// Names a resource of which no node has enough for one bundle; empty: no resource is that scarce.
std::string ScarceText(const Wish& wish, const std::vector<const RayNode*>& nodes, Room room) {
  for (const auto& [name, amount] : wish.bundle) {
    if (IsPin(name)) continue;
    double largest = 0;
    for (const RayNode* node : nodes) {
      largest = std::max(largest, Amount(room == Room::kFree ? node->free : node->total, name));
    }
    if (largest + kTolerance >= amount) continue;
    const std::string_view free = room == Room::kFree ? " free" : "";
    if (largest < kTolerance) return fmt::format("no live node has {}{}", name, free);
    return fmt::format("no live node has more than {:g} {}{}", largest, name, free);
  }
  return {};
}

std::string MissingText(const Wish& wish, const std::vector<const RayNode*>& nodes,
                        const std::vector<int>& rooms, Room room) {
  const std::string text =
      fmt::format("{} {} requested, but ", WishText(wish), wish.count == 1 ? "is" : "are");
  if (const std::string scarce = ScarceText(wish, nodes, room); !scarce.empty()) {
    return text + scarce;
  }
  const auto live = static_cast<int64_t>(nodes.size());
  const std::string_view now = room == Room::kFree ? " now" : "";
  if (wish.strategy == "STRICT_SPREAD") {
    const auto hosts = std::count_if(rooms.begin(), rooms.end(), [](int n) { return n > 0; });
    if (hosts == live) {
      return text + fmt::format("there {} {}", live == 1 ? "is" : "are", Count(live, "live node"));
    }
    return text + fmt::format("{} of {} {} that much{}", hosts, Count(live, "live node"),
                              hosts == 1 ? "has" : "have", room == Room::kFree ? " free" : "");
  }
  if (wish.strategy == "STRICT_PACK") {
    return text + fmt::format("no live node has room for more than {}{}",
                              *std::max_element(rooms.begin(), rooms.end()), now);
  }
  return text + fmt::format("{} {} room for {}{}", Count(live, "live node"),
                            live == 1 ? "has" : "have",
                            std::accumulate(rooms.begin(), rooms.end(), int64_t{0}), now);
}

std::string SelectorText(const RayLabels& selector) {
  std::string text;
  for (const auto& [name, value] : selector) {
    text += fmt::format("{}{}={}", text.empty() ? "" : " and ", name, value);
  }
  return text;
}

std::vector<int> Rooms(const Wish& wish, const std::vector<const RayNode*>& nodes, bool is_free) {
  std::vector<int> rooms;
  rooms.reserve(nodes.size());
  for (const RayNode* node : nodes) {
    rooms.push_back(Holds(is_free ? node->free : node->total, wish.bundle, wish.count));
  }
  return rooms;
}

/// The address that a bundle is pinned to; empty: any.
std::string PinOf(const RayAmounts& bundle) {
  for (const auto& [name, amount] : bundle) {
    if (IsPin(name)) return name.substr(kNodePrefix.size());
  }
  return {};
}

RayFit FitWish(const Wish& wish, std::span<const RayNode> nodes) {
  std::vector<const RayNode*> usable;
  size_t live = 0;
  const std::string pin = PinOf(wish.bundle);
  for (const RayNode& node : nodes) {
    if (!node.is_alive) continue;
    ++live;
    const bool is_meant = pin.empty() || Amount(node.total, std::string(kNodePrefix) + pin) > 0;
    if (is_meant && Matches(node.labels, wish.selector)) usable.push_back(&node);
  }
  if (live == 0) return {RayRoom::kInfeasible, "the cluster has no live node"};
  if (usable.empty() && !pin.empty()) {
    return {RayRoom::kInfeasible, fmt::format("the cluster has no live node {}", pin)};
  }
  if (usable.empty()) {
    return {RayRoom::kInfeasible,
            fmt::format("none of {} has the label {}", Count(live, "live node"),
                        SelectorText(wish.selector))};
  }
  const std::vector<int> free = Rooms(wish, usable, /*is_free=*/true);
  if (wish.IsMet(free)) return {};
  const std::vector<int> total = Rooms(wish, usable, /*is_free=*/false);
  std::vector<int> most = free;
  int64_t unknown = 0;
  for (size_t i = 0; i < usable.size(); ++i) {
    if (usable[i]->is_free_known) continue;
    most[i] = total[i];
    ++unknown;
  }
  if (unknown > 0 && wish.IsMet(most)) {
    return {RayRoom::kBusy, fmt::format("what is free on {} of {} is not known yet", unknown,
                                        Count(usable.size(), "live node"))};
  }
  const std::string where = pin.empty() ? "" : fmt::format("{}: ", pin);
  if (wish.IsMet(total))
    return {RayRoom::kBusy, where + MissingText(wish, usable, free, Room::kFree)};
  return {RayRoom::kInfeasible, where + MissingText(wish, usable, total, Room::kTotal)};
}

Status CheckAmounts(const RayAsk& ask) {
  const RayAmounts slot = SlotBundle(ask);
  for (const auto& [name, amount] : slot) {
    if (std::isfinite(amount) && amount > 0) continue;
    return {ErrorCode::kUsage, fmt::format("a slot can't have {:g} {}", amount, name)};
  }
  if (!slot.empty()) return {};
  return {ErrorCode::kUsage, "a slot has no resources", "--cpus-per-slot N"};
}

RayRequest NamedRequest(const RayAsk& ask) {
  RayRequest request;
  request.strategy = "STRICT_SPREAD";
  int rest = ask.np;
  for (const HostSlots& host : ask.named) {
    const int slots = std::min(rest, host.slots);
    if (slots <= 0) continue;
    rest -= slots;
    RayAmounts bundle = Times(SlotBundle(ask), slots);
    bundle[std::string(kNodePrefix) + host.host] = kPin;
    request.bundles.push_back(std::move(bundle));
    request.slots.push_back(slots);
  }
  return request;
}

/// Distributes `count` slots, nodes with most room first. Returns the slots of each used node;
/// empty: not enough room.
std::vector<int> Pack(int count, const std::vector<int>& rooms) {
  std::vector<size_t> order(rooms.size());
  std::iota(order.begin(), order.end(), size_t{0});
  std::stable_sort(order.begin(), order.end(),
                   [&rooms](size_t a, size_t b) { return rooms[a] > rooms[b]; });
  std::vector<int> taken;
  for (const size_t node : order) {
    const int slots = std::min(count, rooms[node]);
    if (slots == 0) break;
    taken.push_back(slots);
    count -= slots;
  }
  return count == 0 ? taken : std::vector<int>();
}

std::vector<int> Spread(int count, const std::vector<int>& rooms) {
  std::vector<int> taken(rooms.size(), 0);
  for (bool has_taken = true; has_taken && count > 0;) {
    has_taken = false;
    for (size_t node = 0; node < rooms.size() && count > 0; ++node) {
      if (taken[node] == rooms[node]) continue;
      ++taken[node];
      --count;
      has_taken = true;
    }
  }
  std::erase(taken, 0);
  return count == 0 ? taken : std::vector<int>();
}

constexpr size_t kShortId = 8;

}  // namespace

RayRequest GroupByNode(const RayRequest& request, std::span<const RayNode> nodes) {
  if (request.strategy == "STRICT_SPREAD" || request.bundles.size() < 2) return request;
  const RayLabels selector = request.selectors.empty() ? RayLabels() : request.selectors.front();
  const auto count = static_cast<int>(request.bundles.size());
  std::vector<int> rooms;
  for (const RayNode& node : nodes) {
    rooms.push_back(FreeBundlesOn(node, request.bundles.front(), selector, kMost));
  }
  std::vector<int> shares = {count};
  if (request.strategy == "PACK") shares = Pack(count, rooms);
  if (request.strategy == "SPREAD") shares = Spread(count, rooms);
  if (shares.empty()) return request;
  RayRequest grouped;
  grouped.strategy = request.strategy;
  grouped.slots = shares;
  for (const int slots : shares) grouped.bundles.push_back(Times(request.bundles.front(), slots));
  if (!request.selectors.empty()) grouped.selectors.assign(shares.size(), selector);
  return grouped;
}

RayAmounts SlotBundle(const RayAsk& ask) {
  RayAmounts bundle = ask.slot_resources;
  if (ask.cpus_per_slot != 0) bundle["CPU"] = ask.cpus_per_slot;
  if (ask.gpus_per_slot != 0) bundle["GPU"] = ask.gpus_per_slot;
  return bundle;
}

Result<RayRequest> MakeRayRequest(const RayAsk& ask) {
  constexpr std::array<std::string_view, 5> kStrategies = {"", "PACK", "SPREAD", "STRICT_PACK",
                                                           "STRICT_SPREAD"};
  HVDRAY_RETURN_IF_ERROR(CheckAmounts(ask));
  if (std::find(kStrategies.begin(), kStrategies.end(), ask.strategy) == kStrategies.end()) {
    return Status(ErrorCode::kUsage, fmt::format("Ray has no strategy {}", ask.strategy));
  }
  const bool is_by_host = ask.num_hosts.has_value() || !ask.named.empty();
  if (is_by_host && !ask.strategy.empty() && ask.strategy != "STRICT_SPREAD") {
    return Status(ErrorCode::kUsage,
                  fmt::format("strategy {} contradicts a request for whole hosts", ask.strategy));
  }
  RayRequest request;
  if (!ask.named.empty()) {
    request = NamedRequest(ask);
  } else if (ask.num_hosts) {
    const int hosts = *ask.num_hosts;
    if (hosts < 1 || ask.np < 1 || ask.np % hosts != 0) {
      return Status(ErrorCode::kUsage,
                    fmt::format("{} slots can't be divided among {} hosts", ask.np, hosts));
    }
    request.strategy = "STRICT_SPREAD";
    request.bundles.assign(static_cast<size_t>(hosts), Times(SlotBundle(ask), ask.np / hosts));
    request.slots.assign(static_cast<size_t>(hosts), ask.np / hosts);
  } else {
    request.strategy = ask.strategy.empty() ? "PACK" : ask.strategy;
    request.bundles.assign(static_cast<size_t>(std::max(ask.np, 0)), SlotBundle(ask));
    request.slots.assign(request.bundles.size(), 1);
  }
  if (request.bundles.empty()) return Status(ErrorCode::kUsage, "no slots requested");
  if (!ask.labels.empty()) request.selectors.assign(request.bundles.size(), ask.labels);
  return request;
}

RayFit FitRequest(const RayRequest& request, std::span<const RayNode> nodes) {
  static const RayLabels no_labels;
  RayFit worst;
  // Bundles are either all equal or pinned to different nodes, so different bundles never compete.
  std::set<size_t> seen;
  for (size_t i = 0; i < request.bundles.size(); ++i) {
    if (seen.contains(i)) continue;
    int count = 0;
    for (size_t j = i; j < request.bundles.size(); ++j) {
      if (request.bundles[j] != request.bundles[i]) continue;
      seen.insert(j);
      ++count;
    }
    const Wish wish{request.bundles[i],
                    request.selectors.empty() ? no_labels : request.selectors[i], count,
                    request.strategy};
    RayFit fit = FitWish(wish, nodes);
    if (fit.room > worst.room) worst = std::move(fit);
  }
  return worst;
}

int FreeSlotsOn(const RayNode& node, const RayAsk& ask) {
  const RayAmounts bundle = SlotBundle(ask);
  return bundle.empty() ? 0 : FreeBundlesOn(node, bundle, ask.labels, kMost);
}

std::string AmountsText(const RayAmounts& amounts) {
  std::string text;
  for (const auto& [name, amount] : amounts) {
    if (IsPin(name)) continue;
    text += fmt::format("{}{:g} {}", text.empty() ? "" : ", ", amount, name);
  }
  return text;
}

std::string RayIp(const std::string& id, std::span<const RayNode> nodes) {
  const auto found = std::find_if(nodes.begin(), nodes.end(),
                                  [&id](const RayNode& node) { return node.id == id; });
  return found == nodes.end() ? "node" : found->ip;
}

std::vector<std::string> RayHostNames(std::span<const std::string> ids,
                                      std::span<const RayNode> nodes) {
  std::map<std::string, int> nodes_at;
  // Counts all nodes of the cluster, so a host keeps its name when its neighbour joins the job.
  for (const RayNode& node : nodes) nodes_at[node.ip] += node.is_alive ? 1 : 0;
  std::vector<std::string> names;
  for (const std::string& id : ids) {
    std::string name = RayIp(id, nodes);
    if (nodes_at[name] > 1) name += "-" + id.substr(0, kShortId);
    // HostSlots does not allow ':' in a plain name.
    std::replace(name.begin(), name.end(), ':', '.');
    const bool is_taken = std::find(names.begin(), names.end(), name) != names.end();
    names.push_back(is_taken ? fmt::format("{}-{}", name, id) : std::move(name));
  }
  return names;
}

}  // namespace hvdray
