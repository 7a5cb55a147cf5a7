// SPDX-License-Identifier: Apache-2.0
#include "launcher/engine/elastic_agents.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <utility>
#include <vector>

#include "base/log.h"

namespace hvdray {
namespace {

// How long the last output of a released host may take.
constexpr Duration kReleaseLimit = std::chrono::seconds(5);
// Copies precede a host's first generation, whichever that will be.
constexpr Generation kCopyGeneration = 1;

}  // namespace

ElasticAgents::ElasticAgents(Loop& loop, const JobReach& reach, const LaunchPlan& plan,
                             KvBridge::Hold hold, KvBridge::Listener& workers, Listener& listener,
                             Owner& owner)
    : JobAgents(loop, reach.transport, plan, ObjectFeed::Hosts::kElastic, listener, hold, &workers),
      loop_(loop),
      reach_(*reach.hosts),
      plan_(plan),
      owner_(owner),
      nics_(*plan.spec.network_interfaces, /*is_fixed=*/false) {}

void ElasticAgents::OnNoise(int agent, ByteView line) {
  const int host = hosts_.HostOf(agent);
  if (host < 0) return;
  listener_.OnNoise(NoticeLine(LogLevel::kInfo, hosts_.At(host).slots.host, line));
}

void ElasticAgents::Connect(int host, const HostSlots& slots) {
  if (auto kept = kept_.extract(slots.host); !kept.empty()) {
    if (kept.mapped().slots.address == slots.address) {
      hosts_.Adopt(host, slots, std::move(kept.mapped()));
      return owner_.OnReady(host, hosts_.At(host).facts);
    }
    GiveUp(kept.mapped());
  }
  reach_.AddHost(slots);
  const int agent = agents_.Add(slots.host);
  hosts_.Connect(host, slots, agent);
  agents_.Start(agent);
}

void ElasticAgents::OnReady(int agent, const wire::HostFacts& facts) {
  const int number = hosts_.HostOf(agent);
  if (number < 0) return;
  JobHost& host = hosts_.At(number);
  host.facts = facts;
  host.is_remote = reach_.IsRemote(host.slots.host);
  host.is_elsewhere = reach_.IsElsewhere(host.slots.host);
  if (Status status = hosts_.CheckNic(nics_, number); !status.ok()) {
    agents_.Reject(agent, std::move(status));
    return;
  }
  if (host.is_remote && !plan_.synced.empty()) return Copy(number);
  CopyObjects(number);
}

void ElasticAgents::CopyObjects(int host) {
  if (objects_.Join(hosts_.At(host).agent)) return BeReady(host);
  owner_.OnCopying(host);
}

void ElasticAgents::OnOutputRoom(int agent) {
  if (objects_.OnRoom(agent)) BeReady(hosts_.HostOf(agent));
  listener_.OnOutputRoom();
}

void ElasticAgents::BeReady(int host) {
  hosts_.At(host).is_ready = true;
  owner_.OnReady(host, hosts_.At(host).facts);
}

void ElasticAgents::Copy(int host) {
  DirectorySync::Handlers handlers;
  handlers.send = [this](int to, wire::Body body) {
    SendTo(to, {kCopyGeneration, std::move(body)});
  };
  handlers.on_host_done = [this](int done, const SyncStats& stats,
                                 const std::vector<std::string>& roots) {
    hosts_.NoteCopy(done, stats, roots, plan_.worker_place);
    owner_.OnSynced(done, stats);
  };
  handlers.on_failed = [this](int failed, Status why) {
    agents_.Reject(hosts_.At(failed).agent, std::move(why));
  };
  handlers.on_done = [this, host] {
    copies_.erase(host);
    CopyObjects(host);
  };
  auto& copy = copies_[host];
  copy = std::make_unique<DirectorySync>(loop_, std::vector{host}, plan_.synced,
                                         *plan_.spec.start_timeout, std::move(handlers));
  copy->Start();
  owner_.OnCopying(host);
}

void ElasticAgents::OnMessage(int agent, wire::Message&& message) {
  const int host = hosts_.HostOf(agent);
  if (const auto* problem = std::get_if<wire::ObjectProblem>(&message.body)) {
    objects_.OnMapped(agent, problem->object);
    if (problem->error == 0) return;
    // Its workers could not get what they are to work on; those of other hosts can.
    return agents_.Reject(
        agent, {ErrorCode::kOutOfResources, fmt::format("can't hold object {}: {}", problem->object,
                                                        ::strerror(problem->error))});
  }
  const auto copy = copies_.find(host);
  if (copy != copies_.end() && copy->second->OnMessage(host, message)) return;
  const bool is_end = std::holds_alternative<wire::GenerationStopped>(message.body);
  owner_.OnMessage(agent, host, std::move(message));
  // The answer to Release()'s stop comes after all output.
  if (host < 0 && is_end) loop_.Post([this, agent] { EndRelease(agent); });
}

void ElasticAgents::OnLost(int agent, Status why) {
  const int number = hosts_.HostOf(agent);
  if (number >= 0) {
    const JobHost& host = hosts_.At(number);
    if (!host.is_remote && host.facts.agent_pid != 0) lost_here_.insert(host.facts.agent_pid);
    copies_.erase(number);
    objects_.Leave(agent);
    hosts_.Disconnect(number);
    owner_.OnLeft(agent);
    kv_.DropAgent(agent);
    owner_.OnLost(number, std::move(why));
  } else if (std::erase_if(kept_, [agent](const auto& k) { return k.second.agent == agent; }) > 0) {
    objects_.Leave(agent);
    kv_.DropAgent(agent);
  } else {
    EndRelease(agent);
  }
}

void ElasticAgents::Release(int host, Generation newest) {
  if (!hosts_.IsKnown(host) || hosts_.At(host).agent < 0) return;
  const bool has_worked = hosts_.At(host).has_workers;
  const int agent = hosts_.Disconnect(host);
  copies_.erase(host);
  objects_.Leave(agent);
  owner_.OnLeft(agent);
  if (has_worked && agents_.IsReady(agent)) {
    agents_.Send(agent, {newest, wire::StopGeneration{0}});
    released_[agent] = loop_.After(
        kReleaseLimit, [this, agent] { loop_.Post([this, agent] { EndRelease(agent); }); });
  } else {
    agents_.Release(agent);
    kv_.DropAgent(agent);
  }
}

void ElasticAgents::EndRelease(int agent) {
  if (released_.erase(agent) == 0) return;
  agents_.Release(agent);
  kv_.DropAgent(agent);
  CheckReleased();
}

void ElasticAgents::EndReleases() {
  is_ending_ = true;
  CheckReleased();
}

void ElasticAgents::Keep() {
  is_ending_ = false;
  copies_.clear();
  for (int host = 0; host < hosts_.size(); ++host) {
    const JobHost& entry = hosts_.At(host);
    if (entry.agent >= 0 && !entry.is_ready) GiveUp(entry);
  }
  for (JobHost& host : hosts_.TakeReady()) {
    std::string name = host.slots.host;
    kept_[std::move(name)] = std::move(host);
  }
}

void ElasticAgents::KeepOnly(const std::vector<HostSlots>& hosts) {
  std::erase_if(kept_, [&](const auto& kept) {
    const bool is_listed = std::any_of(
        hosts.begin(), hosts.end(), [&](const HostSlots& host) { return host.host == kept.first; });
    if (!is_listed) GiveUp(kept.second);
    return !is_listed;
  });
}

void ElasticAgents::GiveUp(const JobHost& host) {
  objects_.Leave(host.agent);
  agents_.Release(host.agent);
  kv_.DropAgent(host.agent);
}

void ElasticAgents::CheckReleased() {
  if (is_ending_ && released_.empty()) owner_.OnReleased();
}

void ElasticAgents::SendTo(int host, wire::Message message) {
  if (hosts_.IsKnown(host) && hosts_.At(host).agent >= 0) {
    agents_.Send(hosts_.At(host).agent, std::move(message));
  }
}

}  // namespace hvdray
