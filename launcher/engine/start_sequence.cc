// SPDX-License-Identifier: Apache-2.0
#include "launcher/engine/start_sequence.h"

#include <fmt/format.h>

#include <utility>

#include "base/log.h"
#include "launcher/job/nic_select.h"

namespace hvdray {

void StartSequence::Begin(Generation generation) {
  Drop();
  generation_ = generation;
  if (Status status = ChooseNics(); !status.ok()) {
    // Nothing was started: to the driver these are unusable hosts.
    for (int host = 0; host < hosts_.size(); ++host) owner_.OnStepFailed(host, status);
    return;
  }
  std::vector<int> remote;
  for (int host = 0; host < hosts_.size(); ++host) {
    if (hosts_.At(host).is_remote) remote.push_back(host);
  }
  const bool has_copies = generation == 1 && !plan_.synced.empty() && !remote.empty();
  if (has_copies) return Copy(remote);
  Probe();
}

Status StartSequence::ChooseNics() {
  std::vector<HostNics> nics;
  nics.reserve(plan_.hosts.size());
  for (int host = 0; host < hosts_.size(); ++host) {
    nics.push_back({hosts_.At(host).slots.host, hosts_.At(host).facts.interfaces});
  }
  HVDRAY_ASSIGN_OR_RETURN(std::vector<NicChoice> choices,
                          SelectNics(nics, *plan_.spec.network_interfaces, plan_.spread));
  for (int host = 0; host < hosts_.size(); ++host) {
    hosts_.At(host).nic = std::move(choices[static_cast<size_t>(host)]);
  }
  return {};
}

void StartSequence::Copy(const std::vector<int>& hosts) {
  trace_.Begin(kPhaseSync, loop_.Now());
  owner_.OnCopying(true);
  DirectorySync::Handlers handlers;
  handlers.send = [this](int host, wire::Body body) { owner_.SendStep(host, std::move(body)); };
  handlers.on_host_done = [this](int host, const SyncStats& stats,
                                 const std::vector<std::string>& roots) {
    OnHostCopied(host, stats, roots);
  };
  handlers.on_failed = [this](int host, Status why) {
    Drop();
    owner_.OnStepFailed(
        host, std::move(why).WithContext(fmt::format("host {}", hosts_.At(host).slots.host)));
  };
  handlers.on_done = [this] { OnCopied(); };
  sync_ = std::make_unique<DirectorySync>(loop_, hosts, plan_.synced, *plan_.spec.start_timeout,
                                          std::move(handlers));
  sync_->Start();
}

void StartSequence::OnHostCopied(int host, const SyncStats& stats,
                                 const std::vector<std::string>& roots) {
  hosts_.NoteCopy(host, stats, roots, plan_.worker_place);
  Log(LogLevel::kInfo, "launcher", "{}: copied {} files, {} bytes in {:.3f} s",
      hosts_.At(host).slots.host, stats.files, stats.bytes,
      std::chrono::duration_cast<Seconds>(stats.time).count());
  owner_.OnSynced(host, stats);
}

void StartSequence::OnCopied() {
  trace_.End(kPhaseSync, loop_.Now());
  const std::unique_ptr<DirectorySync> done = std::move(sync_);
  owner_.OnCopying(false);
  // The callback may have ended the generation.
  if (generation_ != 0) Probe();
}

void StartSequence::Probe() {
  if (generation_ != 1 || !IsProbeWanted(plan_.spread, plan_.hosts.size())) {
    return owner_.OnMayStart();
  }
  trace_.Begin(kPhaseProbe, loop_.Now());
  std::vector<ProbedHost> hosts;
  hosts.reserve(plan_.hosts.size());
  for (int i = 0; i < hosts_.size(); ++i) {
    const JobHost& host = hosts_.At(i);
    hosts.push_back(
        {host.slots.host, host.nic->gloo_interface, host.nic->address, host.facts.probe_port});
  }
  probe_ = std::make_unique<ReachProbe>(
      loop_, std::move(hosts), /*targets_each=*/1, ProbeLimitsWithin(*plan_.spec.start_timeout),
      [this](size_t host, wire::Probe probe) {
        owner_.SendStep(static_cast<int>(host), std::move(probe));
      },
      [this](const std::vector<ClosedWay>& closed) {
        OnProbed(FailureOf(probe_->hosts(), closed));
      });
  probe_->Start();
}

void StartSequence::OnProbed(std::optional<ProbeFailure> failure) {
  trace_.End(kPhaseProbe, loop_.Now());
  probe_.reset();
  if (failure) {
    owner_.OnStepFailed(static_cast<int>(failure->host), std::move(failure->why));
  } else {
    owner_.OnMayStart();
  }
}

bool StartSequence::OnMessage(int host, const wire::Message& message) {
  if (const auto* probed = std::get_if<wire::ProbeResult>(&message.body)) {
    if (probe_) probe_->OnResult(static_cast<size_t>(host), *probed);
    return true;
  }
  return sync_ && sync_->OnMessage(host, message);
}

void StartSequence::Drop() {
  if (sync_) trace_.End(kPhaseSync, loop_.Now());
  if (probe_) trace_.End(kPhaseProbe, loop_.Now());
  generation_ = 0;
  sync_.reset();
  probe_.reset();
}

}  // namespace hvdray
