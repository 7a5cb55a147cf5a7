// SPDX-License-Identifier: Apache-2.0
#include "launcher/engine/start_sequence.h"

#include <fmt/format.h>

#include <utility>

#include "base/log.h"
#include "launcher/engine/generation_start.h"

namespace hvdray {

StartSequence::StartSequence(Loop& loop, Trace& trace, const LaunchPlan& plan,
                             StartSequenceHandlers handlers)
    : loop_(loop),
      trace_(trace),
      plan_(plan),
      handlers_(std::move(handlers)),
      worker_directories_(plan.hosts.size()) {}

void StartSequence::Begin(Generation generation, std::span<const wire::HostFacts> facts) {
  Drop();
  generation_ = generation;
  facts_.assign(facts.begin(), facts.end());
  Result<std::vector<NicChoice>> nics = ChooseNics(plan_, facts_);
  if (!nics.ok()) {
    // Nothing was started: to the driver these are unusable hosts.
    for (size_t host = 0; host < plan_.hosts.size(); ++host) {
      handlers_.on_failed(static_cast<int>(host), nics.status());
    }
    return;
  }
  nics_ = std::move(nics).value();
  if (generation == 1) {
    Copy();
  } else {
    handlers_.on_ready(nics_);
  }
}

void StartSequence::Copy() {
  std::vector<int> hosts;
  for (size_t host = 0; host < plan_.hosts.size(); ++host) {
    if (plan_.is_remote[host]) hosts.push_back(static_cast<int>(host));
  }
  if (plan_.synced.empty() || hosts.empty()) return Probe();
  trace_.Begin(kPhaseSync, loop_.Now());
  handlers_.on_copying(true);
  DirectorySyncHandlers handlers;
  handlers.send = handlers_.send;
  handlers.on_host_done = [this](int host, const SyncStats& stats,
                                 const std::vector<std::string>& roots) {
    OnHostCopied(host, stats, roots);
  };
  handlers.on_failed = [this](int host, Status why) {
    Drop();
    const std::string& name = plan_.hosts[static_cast<size_t>(host)].host;
    handlers_.on_failed(host, std::move(why).WithContext(fmt::format("host {}", name)));
  };
  handlers.on_done = [this] { OnCopied(); };
  sync_ = std::make_unique<DirectorySync>(loop_, std::move(hosts), plan_.synced,
                                          *plan_.spec.start_timeout, std::move(handlers));
  sync_->Start();
}

void StartSequence::OnHostCopied(int host, const SyncStats& stats,
                                 const std::vector<std::string>& roots) {
  const auto index = static_cast<size_t>(host);
  if (plan_.worker_place) {
    std::string directory = roots[plan_.worker_place->directory];
    if (!plan_.worker_place->path.empty()) directory += "/" + plan_.worker_place->path;
    worker_directories_[index] = std::move(directory);
  }
  Log(LogLevel::kInfo, "launcher", "{}: copied {} files, {} bytes in {:.3f} s",
      plan_.hosts[index].host, stats.files, stats.bytes,
      std::chrono::duration_cast<Seconds>(stats.time).count());
  handlers_.on_synced(host, stats);
}

void StartSequence::OnCopied() {
  trace_.End(kPhaseSync, loop_.Now());
  const std::unique_ptr<DirectorySync> done = std::move(sync_);
  handlers_.on_copying(false);
  // The callback may have ended the generation.
  if (generation_ != 0) Probe();
}

void StartSequence::Probe() {
  if (generation_ != 1 || !IsProbeWanted(plan_.spread, plan_.hosts.size())) {
    return handlers_.on_ready(nics_);
  }
  trace_.Begin(kPhaseProbe, loop_.Now());
  probe_ = std::make_unique<NeighbourProbe>(
      loop_, ProbedHostsOf(plan_, nics_, facts_), ProbeLimitsWithin(*plan_.spec.start_timeout),
      [this](int host, wire::Probe probe) { handlers_.send(host, std::move(probe)); },
      [this](std::optional<ProbeFailure> failure) { OnProbed(std::move(failure)); });
  probe_->Start();
}

void StartSequence::OnProbed(std::optional<ProbeFailure> failure) {
  trace_.End(kPhaseProbe, loop_.Now());
  probe_.reset();
  if (failure) {
    handlers_.on_failed(failure->host, std::move(failure->why));
  } else {
    handlers_.on_ready(nics_);
  }
}

bool StartSequence::OnMessage(int host, const wire::Message& message) {
  if (const auto* probed = std::get_if<wire::ProbeResult>(&message.body)) {
    if (probe_) probe_->OnResult(host, *probed);
  } else if (const auto* wanted = std::get_if<wire::DirectoryWanted>(&message.body)) {
    if (sync_) sync_->OnWanted(host, *wanted);
  } else if (const auto* taken = std::get_if<wire::FileTaken>(&message.body)) {
    if (sync_) sync_->OnTaken(host, *taken);
  } else if (const auto* problem = std::get_if<wire::DirectoryProblem>(&message.body)) {
    if (sync_) sync_->OnProblem(host, *problem);
  } else {
    return false;
  }
  return true;
}

void StartSequence::Drop() {
  if (sync_) trace_.End(kPhaseSync, loop_.Now());
  if (probe_) trace_.End(kPhaseProbe, loop_.Now());
  generation_ = 0;
  sync_.reset();
  probe_.reset();
}

}  // namespace hvdray
