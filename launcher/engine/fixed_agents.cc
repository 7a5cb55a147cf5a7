// SPDX-License-Identifier: Apache-2.0
#include "launcher/engine/fixed_agents.h"

#include <fmt/format.h>

#include <utility>

#include "base/log.h"
#include "launcher/job/value_text.h"

namespace hvdray {

void StartLimit::Wait(TimePoint began, std::function<void()> on_late) {
  const auto& held_up = plan_.place.held_up;
  const Duration held = held_up ? held_up() : Duration::zero();
  timer_ = loop_.After(began + *plan_.spec.start_timeout + held - loop_.Now(),
                       [this, began, held, on_late = std::move(on_late)] {
                         if (plan_.place.held_up && plan_.place.held_up() > held)
                           return Wait(began, on_late);
                         on_late();
                       });
}

FixedAgents::FixedAgents(Loop& loop, Transport& transport, Trace& trace, const LaunchPlan& plan,
                         Listener& listener, Owner& owner)
    : JobAgents(loop, transport, plan, ObjectFeed::Hosts::kFixed, listener),
      plan_(plan),
      owner_(owner),
      steps_(loop, trace, plan, hosts_, *this),
      object_limit_(loop, plan) {
  for (size_t i = 0; i < plan.hosts.size(); ++i) {
    const auto host = static_cast<int>(i);
    hosts_.Connect(host, plan.hosts[i], host);
    hosts_.At(host).is_remote = plan.is_remote[i];
  }
}

void FixedAgents::BeginSteps(Generation generation) {
  generation_ = generation;
  steps_.Begin(generation);
}

void FixedAgents::OnReady(int host, const wire::HostFacts& facts) {
  hosts_.At(host).facts = facts;
  Log(LogLevel::kInfo, "host " + Name(host), "its agent is ready: process {}, {} CPUs",
      facts.agent_pid, facts.cpu_count);
  ++ready_count_;
  objects_.Join(host);
  owner_.OnReady(host, facts);
}

void FixedAgents::OnLost(int host, Status why) {
  kv_.DropAgent(host);
  steps_.Drop();
  lost_.emplace(host, why);
  const JobHost& entry = hosts_.At(host);
  if (!entry.is_remote) lost_here_.insert(entry.facts.agent_pid);
  objects_.Leave(host);
  owner_.OnLost(host, std::move(why));
}

void FixedAgents::OnMessage(int host, wire::Message&& message) {
  owner_.OnMessage(host, std::move(message));
}

void FixedAgents::OnNoise(int host, ByteView line) {
  listener_.OnNoise(NoticeLine(LogLevel::kInfo, Name(host), line));
}

bool FixedAgents::HasObjectRoom() {
  for (int host = 0; host < hosts_.size(); ++host) {
    if (!IsAwaited(host)) continue;
    if (!object_limit_.is_active()) object_limit_.Begin([this] { LoseAwaited(); });
    return false;
  }
  return objects_.HasRoom();
}

void FixedAgents::LoseAwaited() {
  for (int host = 0; host < hosts_.size(); ++host) {
    if (!IsAwaited(host)) continue;
    agents_.Release(host);
    OnLost(host, {ErrorCode::kConnectTimeout,
                  fmt::format("host {}: not ready after {} (--start-timeout)", Name(host),
                              ShowDuration(*plan_.spec.start_timeout))});
  }
}

Status FixedAgents::CheckNoneLost() const {
  if (lost_.empty()) return {};
  const auto& [number, why] = *lost_.begin();
  const std::string host = "host " + Name(number);
  std::string_view cause = why.message();
  if (cause.starts_with(host + ": ")) cause.remove_prefix(host.size() + 2);
  return {ErrorCode::kAgentLost, fmt::format("{} is lost: {}", host, cause),
          "start another hvdray serve"};
}

void FixedAgents::SendStep(int host, wire::Body body) {
  agents_.Send(host, {generation_, std::move(body)});
}

void FixedAgents::OnStepFailed(int host, Status why) {
  owner_.Feed(event::HostLost{host, std::move(why)});
}

void FixedAgents::OnSynced(int host, const SyncStats& stats) {
  owner_.Feed(event::HostSynced{host, stats});
}

}  // namespace hvdray
