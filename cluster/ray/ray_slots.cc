#include "cluster/ray/ray_slots.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <map>
#include <utility>

#include "base/shown_text.h"
#include "cluster/ray/ray_answers.h"

namespace hvdray {
namespace {

// Ray counts in ten-thousandths.
constexpr double kGrain = 1e-4;
constexpr int kMostSlots = 1000000;

}  // namespace

void FillFree(const RayClusterStatus& status, std::vector<RayNode>& nodes) {
  for (RayNode& node : nodes) {
    node.free = node.total;
    const auto usage = status.usage_by_node.find(node.id);
    if (usage == status.usage_by_node.end()) continue;
    for (auto& [name, amount] : node.free) {
      auto use = usage->second.find(RayCamelCase(name));
      if (use == usage->second.end()) use = usage->second.find(name);
      if (use != usage->second.end()) amount = std::min(amount, use->second.free());
    }
  }
}

void UndoCamelCase(const std::vector<RayNode>& nodes, RayClusterStatus& status) {
  std::map<std::string, std::string> names;
  for (const RayNode& node : nodes) {
    for (const auto& [name, amount] : node.total) names.emplace(RayCamelCase(name), name);
  }
  const auto undo = [&names](auto& amounts) {
    std::remove_reference_t<decltype(amounts)> undone;
    for (auto& [name, amount] : amounts) {
      const auto found = names.find(name);
      undone.emplace(found == names.end() ? name : found->second, std::move(amount));
    }
    amounts = std::move(undone);
  };
  undo(status.usage);
  for (auto& [id, usage] : status.usage_by_node) undo(usage);
  for (RayDemand& demand : status.pending) {
    for (auto& [bundle, count] : demand.bundles) undo(bundle);
  }
}

int SlotsIn(const RayAmounts& free, const RayAmounts& slot) {
  double slots = kMostSlots;
  bool is_something = false;
  for (const auto& [name, amount] : slot) {
    if (amount < kGrain) continue;
    is_something = true;
    const auto found = free.find(name);
    const double there = found == free.end() ? 0 : found->second;
    slots = std::min(slots, std::floor((there + kGrain / 2) / amount));
  }
  return is_something ? static_cast<int>(std::max(slots, 0.0)) : 0;
}

Result<RayAmounts> SlotOf(double cpus, double gpus, const std::vector<std::string>& resources) {
  RayAmounts slot;
  if (cpus > 0) slot["CPU"] = cpus;
  if (gpus > 0) slot["GPU"] = gpus;
  for (const std::string& word : resources) {
    const size_t equals = word.find('=');
    double amount = 0;
    const char* begin = equals == std::string::npos ? nullptr : word.data() + equals + 1;
    const char* end = word.data() + word.size();
    const auto read = begin == nullptr ? std::from_chars_result{nullptr, std::errc()}
                                       : std::from_chars(begin, end, amount);
    if (equals == 0 || begin == nullptr || read.ec != std::errc() || read.ptr != end ||
        !std::isfinite(amount) || amount < 0) {
      return Status(ErrorCode::kUsage,
                    fmt::format("--resources-per-slot: '{}' is not NAME=AMOUNT", ShownText(word)));
    }
    const std::string name = word.substr(0, equals);
    if (name == "CPU" || name == "GPU") {
      return Status(ErrorCode::kUsage,
                    fmt::format("--resources-per-slot: {} has an option of its own", name),
                    name == "CPU" ? "--cpus-per-slot" : "--gpus-per-slot");
    }
    if (amount > 0) slot[name] = amount;
  }
  if (slot.empty()) {
    return Status(ErrorCode::kUsage, "a slot is made of nothing",
                  "--cpus-per-slot, --gpus-per-slot or --resources-per-slot has to be above 0");
  }
  return slot;
}

bool IsBookkeeping(const std::string& resource) {
  return resource.starts_with("node:") || resource.starts_with("bundle") ||
         resource.find("Group") != std::string::npos ||
         resource.find("_group_") != std::string::npos;
}

}  // namespace hvdray
