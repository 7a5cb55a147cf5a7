// SPDX-License-Identifier: Apache-2.0
#include "cluster/ray/ray_hosts.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <map>
#include <utility>

namespace hvdray {
namespace {

constexpr Duration kSayPeriod = std::chrono::seconds(10);
// A cloud's usual notice for a machine that it takes back, for when Ray knows no time.
constexpr Seconds kUnknownLeave(30);
constexpr Seconds kLongestLeave(86'400);

}  // namespace

RayHosts::RayHosts(Loop& loop, RayBroker& broker, RayTransport& transport, RayHostsOptions options)
    : loop_(loop),
      broker_(broker),
      transport_(transport),
      options_(std::move(options)),
      plan_(options_.policy) {}

Status RayHosts::Start(Handlers handlers) {
  handlers_ = std::move(handlers);
  is_running_ = true;
  say_timer_ = loop_.Every(kSayPeriod, [this] { SayWhatIsMissing(); });
  if (nodes_) {
    first_ = loop_.After(Duration::zero(), [this] {
      first_.Cancel();
      OnNodes(BrokerNodes(*nodes_));
    });
  }
  return {};
}

void RayHosts::Stop() {
  is_running_ = false;
  first_.Cancel();
  timer_.Cancel();
  say_timer_.Cancel();
  tell_.Cancel();
}

void RayHosts::Limit(const std::vector<HostSlots>& hosts) {
  std::map<std::string, int> slots;
  for (const HostSlots& host : hosts) slots[host.host] += host.slots;
  RayHostPlan::Orders orders = plan_.Limit(std::move(slots), loop_.Now());
  if (is_running_) Apply(orders);
}

void RayHosts::OnNodes(const BrokerNodes& nodes) {
  nodes_ = nodes;
  if (!is_running_) return;
  RayHostPlan::Orders orders = plan_.OnNodes(nodes, loop_.Now());
  // Report the first list even if it is empty: from now on the job waits for slots.
  orders.has_news |= !std::exchange(has_told_, true);
  Apply(orders);
  TellLeaving(nodes);
}

void RayHosts::TellLeaving(const BrokerNodes& nodes) {
  using std::chrono::system_clock;
  const double now = Seconds(system_clock::now().time_since_epoch()).count();
  for (const RayNode& node : nodes) {
    if (!node.is_alive || !node.leaves_at || !options_.on_leaving) continue;
    if (!leaving_.insert(node.id).second) continue;
    const double left = *node.leaves_at > 0 ? *node.leaves_at - now : kUnknownLeave.count();
    const Seconds in(std::clamp(left, 0.0, kLongestLeave.count()));
    for (const std::string& host : plan_.HostsOn(node.id)) {
      options_.on_leaving(host, std::chrono::duration_cast<Duration>(in));
    }
  }
}

void RayHosts::OnGroup(const BrokerGroup& group) {
  if (is_running_) Apply(plan_.OnGroup(group, loop_.Now()));
}

void RayHosts::OnEndpoint(const std::string& host, bool is_live) {
  if (is_running_) Apply(plan_.OnEndpoint(host, is_live, loop_.Now()));
}

void RayHosts::Apply(const RayHostPlan::Orders& orders) {
  for (const std::string& group : orders.release) broker_.Release(group);
  for (const BrokerReserve& reserve : orders.reserve) broker_.Reserve(reserve);
  for (const std::string& host : orders.removed) transport_.Remove(host);
  for (const auto& [host, place] : orders.placed) transport_.Place(host, place);
  Arm();
  if (!orders.has_news) return;
  tell_ = loop_.After(Duration::zero(), [this, on_hosts = handlers_.on_hosts] {
    on_hosts(plan_.hosts(), /*is_final=*/false);
  });
}

void RayHosts::Arm() {
  timer_.Cancel();
  const std::optional<TimePoint> next = plan_.NextDeadline();
  if (!next) return;
  timer_ = loop_.After(*next - loop_.Now(), [this] {
    timer_.Cancel();
    Apply(plan_.Tick(loop_.Now()));
  });
}

void RayHosts::SayWhatIsMissing() {
  const int held = plan_.held_slots();
  if (held >= options_.wanted_slots || !options_.say) return;
  int free = 0;
  int alive = 0;
  for (const RayNode& node : plan_.nodes()) {
    if (!node.is_alive) continue;
    ++alive;
    free += FreeSlotsOn(node, options_.policy.ask);
  }
  options_.say(fmt::format("waiting for slots: {} of {} reserved, {} more free on {} nodes", held,
                           options_.wanted_slots, free, alive));
}

}  // namespace hvdray
