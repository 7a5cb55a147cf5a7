#include "launcher/spec/ray_ask.h"

#include "launcher/spec/value_text.h"

namespace hvdray {
namespace {

std::string StrategyName(RayStrategy strategy) {
  switch (strategy) {
    case RayStrategy::kAuto:
      return {};
    case RayStrategy::kPack:
      return "PACK";
    case RayStrategy::kSpread:
      return "SPREAD";
    case RayStrategy::kStrictPack:
      return "STRICT_PACK";
    case RayStrategy::kStrictSpread:
      return "STRICT_SPREAD";
  }
  return {};
}

}  // namespace

RayAsk RayAskOf(const JobSpec& spec) {
  const RaySpec& ray = spec.ray;
  RayAsk ask;
  ask.np = *spec.np;
  ask.num_hosts = *ray.num_hosts;
  for (const HostSlots& host : *spec.hosts) ask.named.push_back({host.dial_name(), host.slots});
  ask.cpus_per_slot = *ray.cpus_per_slot;
  ask.gpus_per_slot = ray.slot_gpus();
  // Both are lists of NAME=VALUE that the resolver has checked.
  for (const std::string& text : *ray.slot_resources) {
    const size_t equals = text.find('=');
    const Result<double> amount = ParseNumber(std::string_view(text).substr(equals + 1));
    if (amount.ok()) ask.slot_resources[text.substr(0, equals)] = *amount;
  }
  for (const std::string& text : *ray.label_selectors) {
    const size_t equals = text.find('=');
    ask.labels[text.substr(0, equals)] = text.substr(equals + 1);
  }
  ask.strategy = StrategyName(*ray.strategy);
  return ask;
}

}  // namespace hvdray
