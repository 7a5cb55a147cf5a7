// SPDX-License-Identifier: Apache-2.0
#include "launcher/report/elastic_names.h"

#include <algorithm>
#include <type_traits>
#include <utility>

namespace hvdray {
namespace {

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
