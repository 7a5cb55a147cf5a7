// SPDX-License-Identifier: Apache-2.0
#include "launcher/engine/host_check.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <map>
#include <set>
#include <utility>

#include "base/digest.h"
#include "base/log.h"
#include "base/terminal.h"
#include "base/text.h"
#include "launcher/engine/generation_start.h"

namespace hvdray {
namespace {

// Agents accept probes for a future generation.
constexpr Generation kProbeGeneration = 1;
// Another one, so that a late answer to the probe is no answer to a measurement.
constexpr Generation kMeasureGeneration = 2;
constexpr size_t kTokenRandomBytes = wire::kMeasureTokenBytes / 2;

uint64_t WallNs() {
  const auto now = std::chrono::system_clock::now().time_since_epoch();
  return static_cast<uint64_t>(std::chrono::duration_cast<std::chrono::nanoseconds>(now).count());
}

std::vector<std::string> Names(const LaunchPlan& plan) {
  std::vector<std::string> names;
  for (const HostSlots& host : plan.hosts) names.push_back(host.host);
  return names;
}

CheckFacts FactsOf(const LaunchPlan& plan) {
  const JobSpec& spec = plan.spec;
  CheckFacts facts;
  facts.build = plan.build;
  facts.np = *spec.np;
  if (!spec.command->empty()) facts.command = spec.command->front();
  facts.is_directory_synced = plan.worker_place.has_value();
  facts.working_directory =
      spec.working_directory->empty() ? plan.current_directory : *spec.working_directory;
  for (size_t i = 0; i < plan.hosts.size(); ++i) {
    CheckedHost host;
    host.name = plan.hosts[i].host;
    host.slots = plan.hosts[i].slots;
    host.is_remote = plan.is_remote[i];
    host.workers = static_cast<int>(std::count_if(
        plan.ranks.begin(), plan.ranks.end(),
        [i](const RankInfo& rank) { return rank.host_index == static_cast<int>(i); }));
    facts.hosts.push_back(std::move(host));
  }
  return facts;
}

using Choices = Result<std::vector<NicChoice>>;

/// The choice for one host among equal ones: what it would get if all others were fine.
Choices SelectAmongLike(const HostNics& host, std::span<const std::string> wanted,
                        HostSpread spread) {
  const HostNics twice[] = {host, host};
  return SelectNics(twice, wanted, spread);
}

Status WhyUnfit(const HostNics& host, std::span<const std::string> wanted, HostSpread spread) {
  // One of the names is enough.
  for (const std::string& name : wanted) {
    if (SelectAmongLike(host, std::span(&name, 1), spread).ok()) return {};
  }
  return SelectAmongLike(host, wanted, spread).status();
}

Choices SelectAll(std::span<const HostNics> hosts, size_t planned,
                  std::span<const std::string> wanted, HostSpread spread) {
  if (hosts.size() != 1 || planned == 1) return SelectNics(hosts, wanted, spread);
  HVDRAY_ASSIGN_OR_RETURN(std::vector<NicChoice> both, SelectAmongLike(hosts[0], wanted, spread));
  both.pop_back();
  return both;
}

}  // namespace

HostCheck::HostCheck(Loop& loop, Transport& transport, LaunchPlan plan, CheckLimits limits,
                     CheckWishes wishes)
    : loop_(loop),
      plan_(std::move(plan)),
      limits_(limits),
      wishes_(std::move(wishes)),
      facts_(FactsOf(plan_)),
      rows_(plan_.hosts.size()),
      agents_(loop, transport, Names(plan_), plan_.build, ToWelcome(plan_), *this) {}

HostCheck::Outcome HostCheck::Run() {
  const UserSignals signals(loop_, MakeSignalHandlers());
  facts_.script = wishes_.script;
  began_ = loop_.Now();
  start_timer_ = loop_.After(*plan_.spec.start_timeout, [this] { OnStartTimeout(); });
  agents_.StartAll();
  loop_.Run();
  agents_.EndStarts();
  return {std::move(facts_), signo_};
}

void HostCheck::OnNoise(int number, ByteView line) {
  Log(LogLevel::kInfo, "host " + plan_.hosts[static_cast<size_t>(number)].host, "{}", line);
}

SignalHandlers HostCheck::MakeSignalHandlers() {
  SignalHandlers handlers;
  handlers.on_stop = [this](int signo) {
    // On a second signal do not wait for agents: they end with their links.
    if (std::exchange(signo_, signo) != 0) return loop_.Stop();
    Close();
  };
  handlers.on_pause = [this](const std::function<void()>& stop_now) {
    agents_.SendAll({0, wire::Heartbeat{true}});
    stop_now();
  };
  handlers.on_resume = [this] { agents_.SendAll({0, wire::Heartbeat{false}}); };
  return handlers;
}

void HostCheck::OnReady(int number, const wire::HostFacts& facts) {
  const auto host = static_cast<size_t>(number);
  if (rows_[host].state != State::kStarting) return;  // already given up
  CheckedHost& checked = facts_.hosts[host];
  checked.ready_after = loop_.Now() - began_;
  checked.build = agents_.BuildOf(static_cast<int>(host));
  checked.facts = facts;
  Ask(host);
  Advance();
}

void HostCheck::Ask(size_t host) {
  const bool is_remote = plan_.is_remote[host];
  wire::Inspect inspect;
  const auto limit =
      limits_.inspect + limits_.import_each * static_cast<int>(wishes_.modules.size());
  inspect.timeout_ms = static_cast<uint32_t>(limit.count());
  inspect.working_directory = *plan_.spec.working_directory;
  if (is_remote && inspect.working_directory.empty())
    inspect.working_directory = plan_.current_directory;
  inspect.directory_trust = {is_remote, plan_.directory_trustees};
  inspect.command = facts_.command;
  const Environment environment = WorkerEnvironment(plan_.spec, plan_.environment, !is_remote);
  inspect.path = environment.GetOr("PATH", "");
  inspect.files = wishes_.files;
  inspect.modules = wishes_.modules;
  // Agents that know nothing of packages need it for modules only.
  const bool is_python_asked = !inspect.modules.empty() || facts_.hosts[host].facts.measures;
  if (is_python_asked) inspect.environment = environment.ToStrings();
  Row& row = rows_[host];
  row.state = State::kAsked;
  row.timer = loop_.After(limit + limits_.spare, [this, host] {
    rows_[host].state = State::kSilent;
    Advance();
  });
  row.asked_ns = WallNs();
  agents_.Send(static_cast<int>(host), {0, std::move(inspect)});
}

void HostCheck::OnLost(int number, Status why) {
  const auto host = static_cast<size_t>(number);
  Row& row = rows_[host];
  if (row.state == State::kLost || is_closing_) return;
  row.state = State::kLost;
  row.timer.Cancel();
  facts_.hosts[host].lost = std::move(why);
  if (row.is_probed && probe_) probe_->OnLost(row.place);
  if (row.is_probed && measure_) measure_->OnLost(row.place);
  Advance();
}

void HostCheck::OnMessage(int number, wire::Message&& message) {
  const auto host = static_cast<size_t>(number);
  Row& row = rows_[host];
  if (const auto* inspection = std::get_if<wire::Inspection>(&message.body)) {
    if (row.state != State::kAsked) return;
    row.state = State::kAnswered;
    row.timer.Cancel();
    facts_.hosts[host].clock = ReadClock(row.asked_ns, WallNs(), *inspection);
    facts_.hosts[host].inspection = *inspection;
    Advance();
  } else if (const auto* probed = std::get_if<wire::ProbeResult>(&message.body)) {
    if (!row.is_probed) return;
    const bool is_measured = message.generation == kMeasureGeneration;
    if (is_measured && measure_) measure_->OnResult(row.place, *probed);
    if (!is_measured && probe_) probe_->OnResult(row.place, *probed);
  }
}

void HostCheck::OnStartTimeout() {
  // Waiting for a user's password does not make a host slow.
  const TimePoint limit = began_ + *plan_.spec.start_timeout + TimeOfTerminalQuestions();
  if (const TimePoint now = loop_.Now(); now < limit) {
    start_timer_ = loop_.After(limit - now, [this] { OnStartTimeout(); });
    return;
  }
  const std::string timeout = SecondsText(*plan_.spec.start_timeout);
  for (size_t host = 0; host < rows_.size(); ++host) {
    if (rows_[host].state != State::kStarting) continue;
    OnLost(host,
           {ErrorCode::kDeadlineExceeded,
            fmt::format("host {}: did not become ready within {}", plan_.hosts[host].host, timeout),
            fmt::format("look at what it is doing, or raise --start-timeout (now {})", timeout)});
  }
}

void HostCheck::Advance() {
  const auto is_any = [this](State state) {
    return std::any_of(rows_.begin(), rows_.end(),
                       [state](const Row& row) { return row.state == state; });
  };
  if (is_closing_ || is_any(State::kStarting)) return;
  start_timer_.Cancel();
  if (!std::exchange(is_probe_begun_, true)) StartProbe();
  if (!is_probe_done_ || is_any(State::kAsked)) return;
  // Last, so that nothing else runs on the hosts meanwhile.
  if (!std::exchange(is_measure_begun_, true)) StartMeasure();
  if (is_measure_done_) Close();
}

void HostCheck::ChooseNics() {
  std::vector<HostNics> nics;
  std::vector<size_t> ready;
  for (size_t host = 0; host < rows_.size(); ++host) {
    if (rows_[host].state == State::kLost) continue;
    ready.push_back(host);
    nics.push_back({plan_.hosts[host].host, facts_.hosts[host].facts.interfaces});
  }
  CheckedNics chosen =
      SelectNicsOfEach(nics, plan_.hosts.size(), *plan_.spec.network_interfaces, plan_.spread);
  facts_.interfaces = std::move(chosen.all);
  for (size_t i = 0; i < ready.size(); ++i) {
    CheckedHost& host = facts_.hosts[ready[i]];
    host.nic_status = std::move(chosen.why[i]);
    if (!chosen.choices[i]) continue;
    host.nic = chosen.choices[i]->gloo_interface;
    host.address = chosen.choices[i]->address;
  }
}

void HostCheck::StartProbe() {
  ChooseNics();
  std::vector<ProbedHost> hosts;
  for (size_t host = 0; host < rows_.size(); ++host) {
    const CheckedHost& facts = facts_.hosts[host];
    if (rows_[host].state == State::kLost || facts.nic.empty()) continue;
    rows_[host].is_probed = true;
    rows_[host].place = probing_.size();
    probing_.push_back(host);
    hosts.push_back({facts.name, facts.nic, facts.address, facts.facts.probe_port});
  }
  if (!IsProbeWanted(plan_.spread, hosts.size())) {
    is_probe_done_ = true;
    return;
  }
  facts_.is_probed = true;
  probe_ = std::make_unique<ReachProbe>(
      loop_, std::move(hosts), ReachProbe::kAll, ProbeLimitsWithin(*plan_.spec.start_timeout),
      [this](size_t place, wire::Probe probe) {
        agents_.Send(static_cast<int>(probing_[place]), {kProbeGeneration, std::move(probe)});
      },
      [this](std::vector<ClosedWay> closed) {
        for (ClosedWay& way : closed) {
          facts_.closed_ways.push_back({probing_[way.from], probing_[way.to], std::move(way.why)});
        }
        is_probe_done_ = true;
        Advance();
      });
  probe_->Start();
}

void HostCheck::StartMeasure() {
  if (!facts_.is_probed) {
    is_measure_done_ = true;
    return;
  }
  std::vector<MeasuredHost> hosts;
  std::map<size_t, size_t> places;
  for (size_t place = 0; place < probing_.size(); ++place) {
    const CheckedHost& facts = facts_.hosts[probing_[place]];
    places[probing_[place]] = place;
    hosts.push_back({{facts.name, facts.nic, facts.address, facts.facts.probe_port},
                     facts.facts.measures && facts.lost.ok()});
  }
  std::set<HostPair> closed;
  for (const ClosedWay& way : facts_.closed_ways) {
    closed.insert({places.at(way.from), places.at(way.to)});
  }
  const MeasureLimits limits = MeasureLimitsFor(RoundsOf(hosts.size()).size());
  measure_ = std::make_unique<PairMeasure>(
      loop_, std::move(hosts), std::move(closed), Hex(RandomBytes(kTokenRandomBytes)), limits,
      [this](size_t place, wire::Probe probe) {
        agents_.Send(static_cast<int>(probing_[place]), {kMeasureGeneration, std::move(probe)});
      },
      [this](std::vector<MeasuredPair> pairs) {
        for (MeasuredPair& pair : pairs) {
          pair.from = probing_[pair.from];
          pair.to = probing_[pair.to];
        }
        facts_.pairs = std::move(pairs);
        is_measure_done_ = true;
        Advance();
      });
  measure_->Start();
}

void HostCheck::Close() {
  if (std::exchange(is_closing_, true)) return;
  start_timer_.Cancel();
  for (Row& row : rows_) row.timer.Cancel();
  // Not from within a callback of the agents or the probe.
  loop_.Post([this] {
    probe_.reset();
    measure_.reset();
    agents_.Close(kAgentsCloseLimit, [this] { loop_.Stop(); });
  });
}

CheckedNics SelectNicsOfEach(std::span<const HostNics> hosts, size_t planned,
                             std::span<const std::string> wanted, HostSpread spread) {
  CheckedNics nics{.choices = std::vector<std::optional<NicChoice>>(hosts.size()),
                   .why = std::vector<Status>(hosts.size())};
  std::vector<HostNics> fit(hosts.begin(), hosts.end());
  std::vector<size_t> index(hosts.size());
  for (size_t i = 0; i < index.size(); ++i) index[i] = i;
  Choices choices = SelectAll(fit, planned, wanted, spread);
  if (!choices.ok()) {
    fit.clear();
    index.clear();
    for (size_t i = 0; i < hosts.size(); ++i) {
      nics.why[i] = WhyUnfit(hosts[i], wanted, spread);
      if (!nics.why[i].ok()) continue;
      fit.push_back(hosts[i]);
      index.push_back(i);
    }
    if (fit.size() < hosts.size()) choices = SelectAll(fit, planned, wanted, spread);
  }
  if (!choices.ok()) {
    nics.all = choices.status();
    return nics;
  }
  for (size_t i = 0; i < choices->size(); ++i) nics.choices[index[i]] = std::move((*choices)[i]);
  return nics;
}

}  // namespace hvdray
