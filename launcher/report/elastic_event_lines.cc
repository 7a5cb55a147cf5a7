// SPDX-License-Identifier: Apache-2.0
#include "launcher/report/elastic_event_lines.h"

#include <algorithm>
#include <type_traits>
#include <utility>

#include "launcher/report/facts_json.h"
#include "launcher/report/memberships.h"

namespace hvdray {
namespace {

Json Line(std::string_view event) {
  Json json;
  json["event"] = event;
  return json;
}

std::string_view NameOf(UpdateCode code) {
  switch (code) {
    case UpdateCode::kNone:
      return "none";
    case UpdateCode::kRemoved:
      return "removed";
    case UpdateCode::kAdded:
      return "added";
    case UpdateCode::kMixed:
      return "mixed";
  }
  return "none";
}

Json ChangeLine(const effect::MembershipChanged& change) {
  Json line = Line("membership");
  line["generation"] = change.generation;
  line["size"] = change.size;
  line["changes"] = ChangesJson(change.changes);
  line["stood_still_s"] = RoundedSeconds(change.stood_still);
  line["counted"] = change.is_counted;
  return line;
}

template <typename T, typename Variant>
struct IsOneOf;
template <typename T, typename... Kinds>
struct IsOneOf<T, std::variant<Kinds...>> : std::disjunction<std::is_same<T, Kinds>...> {};

template <typename To, typename From>
std::optional<To> Shared(const From& from) {
  return std::visit(
      [](const auto& kind) -> std::optional<To> {
        if constexpr (IsOneOf<std::decay_t<decltype(kind)>, To>::value) return To(kind);
        return std::nullopt;
      },
      from);
}

}  // namespace

Json ElasticEventLines::HostNames(const std::vector<int>& hosts) const {
  Json names = Json::array();
  for (const int host : hosts) names.push_back(HostName(host));
  return names;
}

Json ElasticEventLines::WorkerLine(std::string_view event, WorkerId worker) const {
  Json line = Line(event);
  const ElasticNames::Worker* known = names_.Find(worker);
  const ElasticNames::Worker as_started = known != nullptr ? *known : ElasticNames::Worker();
  line["worker"] = worker;
  line["generation"] = as_started.generation;
  line["rank"] = as_started.rank;
  line["host"] = HostName(as_started.host);
  line["local_rank"] = as_started.local_rank;
  return line;
}

std::vector<Json> ElasticEventLines::Discovered(const event::HostsDiscovered& found) {
  Json line = Line("hosts_discovered");
  line["hosts"] = Json::array();
  for (const HostSlots& one : found.hosts) {
    Json host;
    host["host"] = one.host;
    host["slots"] = one.slots;
    line["hosts"].push_back(std::move(host));
  }
  line["final"] = found.is_final;
  if (DumpJson(line) == std::exchange(last_answer_, DumpJson(line))) return {};
  return {std::move(line)};
}

std::vector<Json> ElasticEventLines::Failed(const event::DiscoveryFailed& failed) {
  Json line = Line("discovery_failed");
  line["error"] = ErrorJson(failed.why);
  if (DumpJson(line) == std::exchange(last_answer_, DumpJson(line))) return {};
  return {std::move(line)};
}

std::vector<Json> ElasticEventLines::Lines(const ElasticEvent& event) {
  names_.Learn(event);
  if (const auto* found = std::get_if<event::HostsDiscovered>(&event)) return Discovered(*found);
  if (const auto* failed = std::get_if<event::DiscoveryFailed>(&event)) return Failed(*failed);
  if (const auto* started = std::get_if<event::ProcessStarted>(&event)) {
    Json line = WorkerLine("worker_started", started->worker);
    line["pid"] = started->pid;
    return {std::move(line)};
  }
  if (const auto* exited = std::get_if<event::ProcessExited>(&event)) {
    Json line = WorkerLine("worker_exited", exited->worker);
    AddEnd(line, exited->status);
    const ElasticNames::Worker* known = names_.Find(exited->worker);
    line["stopping"] = known != nullptr && known->is_told_to_end;
    return {std::move(line)};
  }
  if (const auto* arrived = std::get_if<event::WorkerArrived>(&event)) {
    return {WorkerLine("worker_arrived", arrived->worker)};
  }
  if (const auto* met = std::get_if<event::WorkerMet>(&event)) {
    return {WorkerLine("worker_met", met->worker)};
  }
  if (const auto* connected = std::get_if<event::WorkerConnected>(&event)) {
    return {WorkerLine("worker_connected", connected->worker)};
  }
  if (const auto* asked = std::get_if<event::RankAsked>(&event)) {
    return {WorkerLine("rank_asked", asked->worker)};
  }
  if (const auto* registered = std::get_if<event::AddressesRegistered>(&event)) {
    return {WorkerLine("worker_registered", registered->worker)};
  }
  if (const auto* leaving = std::get_if<event::HostLeaving>(&event)) {
    Json line = Line("host_leaving");
    line["host"] = HostName(leaving->host);
    line["in_s"] = RoundedSeconds(leaving->in);
    return {std::move(line)};
  }
  return {};
}

std::vector<Json> ElasticEventLines::Starting(const effect::StartWorkers& start) const {
  std::vector<Json> lines;
  for (const NewWorker& one : start.workers) {
    if (const WorkerId former = names_.FormerOf(one.worker); former != kNoWorker) {
      lines.push_back(WorkerLine("worker_replaced", former));
      lines.back()["by"] = one.worker;
    }
    lines.push_back(WorkerLine("worker_starting", one.worker));
    lines.back()["restart"] = start.restart_count;
  }
  return lines;
}

Json ElasticEventLines::Published(const effect::PublishGeneration& publish) const {
  Json line = Line("generation");
  line["generation"] = publish.generation;
  line["ranks"] = Json::array();
  const size_t count = std::min(publish.ranks.size(), publish.workers.size());
  for (size_t i = 0; i < count; ++i) {
    const ElasticNames::Worker* known = names_.Find(publish.workers[i]);
    Json row;
    row["rank"] = publish.ranks[i].rank;
    row["host"] = publish.ranks[i].host;
    row["local_rank"] = publish.ranks[i].local_rank;
    row["worker"] = publish.workers[i];
    row["pid"] = nullptr;
    if (known != nullptr && known->pid != 0) row["pid"] = known->pid;
    line["ranks"].push_back(std::move(row));
  }
  return line;
}

std::vector<Json> ElasticEventLines::Lines(const ElasticEffect& effect) {
  names_.Learn(effect);
  if (const auto* start = std::get_if<effect::StartWorkers>(&effect)) return Starting(*start);
  if (const auto* publish = std::get_if<effect::PublishGeneration>(&effect)) {
    return {Published(*publish)};
  }
  if (const auto* change = std::get_if<effect::MembershipChanged>(&effect)) {
    return {ChangeLine(*change)};
  }
  Json line;
  if (const auto* connect = std::get_if<effect::ConnectHost>(&effect)) {
    line = Line("host_connecting");
    line["host"] = connect->slots.host;
    line["slots"] = connect->slots.slots;
  } else if (const auto* release = std::get_if<effect::ReleaseHost>(&effect)) {
    line = Line("host_released");
    line["host"] = HostName(release->host);
  } else if (const auto* stop = std::get_if<effect::StopWorkers>(&effect)) {
    line = Line("stop_workers");
    line["workers"] = stop->workers;
    line["grace_s"] = RoundedSeconds(stop->grace);
  } else if (const auto* order = std::get_if<effect::BreakConnections>(&effect)) {
    line = Line("break_connections");
    line["generation"] = order->generation;
    line["hosts"] = HostNames(order->hosts);
  } else if (const auto* open = std::get_if<effect::OpenBarrier>(&effect)) {
    line = Line("meeting_opened");
    line["generation"] = open->generation;
  } else if (const auto* notify = std::get_if<effect::Notify>(&effect)) {
    line = Line("notice");
    line["worker"] = notify->worker;
    line["host"] = HostName(notify->host);
    line["timestamp"] = notify->timestamp;
    line["code"] = NameOf(notify->code);
  } else {
    return {};
  }
  return {std::move(line)};
}

Json ElasticEventLines::Broken(int host, Generation generation,
                               const wire::ConnectionsBroken& broken) const {
  Json line = Line("connections_broken");
  line["host"] = HostName(host);
  line["generation"] = generation;
  line["shut"] = broken.shut;
  line["destroyed"] = broken.destroyed;
  line["refused"] = broken.refused;
  line["took_s"] = RoundedSeconds(std::chrono::microseconds(broken.took_us));
  line["why"] = broken.why;
  line["hint"] = broken.hint;
  return line;
}

std::optional<Event> AsStatic(const ElasticEvent& event) { return Shared<Event>(event); }
std::optional<Effect> AsStatic(const ElasticEffect& effect) { return Shared<Effect>(effect); }

void ElasticNames::LearnHost(int host, const std::string& name) {
  if (!name.empty()) hosts_[host] = name;
}

void ElasticNames::LearnWorker(WorkerId worker, const RankInfo& place, Generation generation) {
  LearnHost(place.host_index, place.host);
  workers_.try_emplace(worker, Worker{.host = place.host_index,
                                      .local_rank = place.local_rank,
                                      .rank = place.rank,
                                      .generation = generation});
}

void ElasticNames::LearnReplaced(const NewWorker& started, Generation generation) {
  const auto rank = static_cast<size_t>(started.place.rank);
  if (generation != published_ || rank >= members_.size()) return;
  const WorkerId former = std::exchange(members_[rank], started.worker);
  if (former != started.worker) formers_[started.worker] = former;
}

void ElasticNames::Learn(const ElasticEvent& event) {
  const auto* started = std::get_if<event::ProcessStarted>(&event);
  if (started == nullptr) return;
  const auto found = workers_.find(started->worker);
  if (found != workers_.end()) found->second.pid = started->pid;
}

void ElasticNames::Learn(const ElasticEffect& effect) {
  if (const auto* connect = std::get_if<effect::ConnectHost>(&effect)) {
    LearnHost(connect->host, connect->slots.host);
  } else if (const auto* start = std::get_if<effect::StartWorkers>(&effect)) {
    for (const NewWorker& one : start->workers) {
      LearnWorker(one.worker, one.place, start->generation);
      LearnReplaced(one, start->generation);
    }
  } else if (const auto* publish = std::get_if<effect::PublishGeneration>(&effect)) {
    published_ = publish->generation;
    members_ = publish->workers;
    const size_t count = std::min(publish->ranks.size(), publish->workers.size());
    for (size_t i = 0; i < count; ++i) {
      LearnWorker(publish->workers[i], publish->ranks[i], publish->generation);
    }
  } else if (const auto* stop = std::get_if<effect::StopWorkers>(&effect)) {
    for (const WorkerId worker : stop->workers) {
      const auto found = workers_.find(worker);
      if (found != workers_.end()) found->second.is_told_to_end = true;
    }
  } else if (const auto* end = std::get_if<effect::StopGeneration>(&effect)) {
    for (auto& [id, worker] : workers_) {
      const bool is_there =
          std::find(end->hosts.begin(), end->hosts.end(), worker.host) != end->hosts.end();
      if (is_there) worker.is_told_to_end = true;
    }
  }
}

std::string ElasticNames::HostName(int host) const {
  const auto found = hosts_.find(host);
  return found == hosts_.end() ? std::string() : found->second;
}

WorkerId ElasticNames::FormerOf(WorkerId worker) const {
  const auto found = formers_.find(worker);
  return found == formers_.end() ? kNoWorker : found->second;
}

const ElasticNames::Worker* ElasticNames::Find(WorkerId worker) const {
  const auto found = workers_.find(worker);
  return found == workers_.end() ? nullptr : &found->second;
}

}  // namespace hvdray
