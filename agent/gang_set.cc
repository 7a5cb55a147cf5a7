// SPDX-License-Identifier: Apache-2.0
#include "agent/gang_set.h"

#include <fmt/format.h>

#include <algorithm>
#include <set>
#include <utility>

#include "agent/gang_environment.h"
#include "agent/host_facts.h"
#include "agent/orphans.h"
#include "agent/start_directory.h"
#include "base/log.h"
#include "rendezvous/horovod_protocol.h"

namespace hvdray {
namespace {

// Pipes, pidfd, listener and a few connections to the relay.
constexpr uint64_t kFilesPerWorker = 12;
constexpr uint64_t kFilesBesides = 512;
constexpr int kMaxLostServers = 3;
constexpr Generation kNoGeneration = 0;  // of what no gang has asked for

Status CheckStart(const wire::StartGeneration& start) {
  if (start.command.empty()) return {ErrorCode::kProtocolError, "StartGeneration without command"};
  std::set<int32_t> names;
  for (const wire::WorkerSlot& slot : start.workers) {
    if (slot.rank < 0 || !names.insert(slot.name()).second) {
      return {ErrorCode::kProtocolError,
              fmt::format("StartGeneration with a duplicate or negative worker {}", slot.name())};
    }
  }
  return {};
}

void RaiseLimitFor(size_t workers) {
  const uint64_t files = kFilesBesides + kFilesPerWorker * workers;
  const Result<uint64_t> limit = RaiseOpenFileLimit(files);
  if (limit.ok() && *limit >= files) return;
  Log(LogLevel::kWarning, "agent", "open file limit is {}; {} would be safe", limit.value_or(0),
      files);
}

}  // namespace

GangSet::~GangSet() {
  if (!server_) return;
  gangs_.clear();
  server_.reset();
  // What its imports have started is ours now, and the keeper may be dead.
  KillChildren(std::chrono::seconds(1));
}

Status GangSet::Start(Generation generation, wire::StartGeneration start) {
  if (IsStale(generation)) {
    CountStale();
    return {};
  }
  HVDRAY_RETURN_IF_ERROR(CheckStart(start));
  for (const auto& gang : gangs_) {
    if (!options_.is_elastic) {
      return {ErrorCode::kProtocolError, fmt::format("StartGeneration {} while {} still runs",
                                                     generation, gang->generation())};
    }
    for (const wire::WorkerSlot& slot : start.workers) {
      if (!gang->Has(slot.name())) continue;
      return {
          ErrorCode::kProtocolError,
          fmt::format("StartGeneration with worker {}, which was already started", slot.name())};
    }
  }
  size_t workers = start.workers.size();
  for (const auto& gang : gangs_) workers += gang->workers().live_count();
  RaiseLimitFor(workers);
  LocalGang::Options options;
  options.directory_error = SettleStartDirectory(start);
  if (!options_.is_elastic) last_generation_ = generation;
  options.job_id = options_.job_id;
  options.generation = generation;
  options.ends_one_by_one = options_.is_elastic;
  options.keeps_processes = options_.keeps_processes;
  options.node = options_.node;
  if (!options_.cgroup_directory.empty()) {
    options.cgroup_directory = fmt::format("{}/gen-{}", options_.cgroup_directory, generation);
    if (options_.is_elastic) options.cgroup_directory += fmt::format("-{}", ++started_);
  }
  gangs_.push_back(std::make_unique<LocalGang>(loop_, link_, std::move(start), std::move(options),
                                               static_cast<LocalGang::Owner&>(*this)));
  gangs_.back()->Start();
  return {};
}

Result<uint16_t> GangSet::OpenRelay(const LocalGang& gang, const wire::WorkerSlot& slot) {
  if (options_.keeps_processes) return uint16_t{0};  // no rendezvous for it
  return relay_.OpenWorker(slot.name(), JoinSlot(gang.host_name(), slot.local_rank),
                           gang.generation());
}

void GangSet::CloseRelay(int worker) {
  if (!options_.keeps_processes) relay_.CloseWorker(worker);
  owner_.OnReaped(worker);
}

bool GangSet::IsOurs(pid_t pid) const {
  if (server_ && (server_->pid() == pid || server_->is_forking())) return true;
  return std::any_of(gangs_.begin(), gangs_.end(),
                     [pid](const auto& gang) { return gang->workers().IsLive(pid); });
}

ForkServer* GangSet::FindServer(const ForkServerPlan& plan, Generation generation, Duration limit) {
  if (server_ && server_->is_lost()) {
    server_.reset();
    ++lost_servers_;
  }
  if (is_ending_ || lost_servers_ > kMaxLostServers) return nullptr;
  if (server_ && server_->plan() == plan) return server_.get();
  // Another gang waits for it.
  if (server_ && (!server_->is_settled() || server_->is_forking())) return nullptr;
  server_ = std::make_unique<ForkServer>(
      loop_, plan, limit,
      [this, generation](const wire::Warmed& result) { OnWarmed(generation, result); });
  return server_.get();
}

void GangSet::OnWarmed(Generation generation, const wire::Warmed& result) {
  warmed_ = result;
  if (generation != kNoGeneration) link_.Send({generation, result});
  for (; warm_owed_ > 0; --warm_owed_) link_.Send({kNoGeneration, result});
  for (const auto& gang : gangs_) gang->OnWarmed();
}

Status GangSet::Warm(wire::StartGeneration start) {
  if (start.command.empty() || start.preload.empty() || !start.workers.empty()) {
    return {ErrorCode::kProtocolError, "Warm without command or modules, or with workers"};
  }
  // As its workers' start will be read.
  const int directory_error = SettleStartDirectory(start);
  start = WithNodePython(std::move(start), options_.node.python);
  const GangEnvironment environment(start, options_.job_id, kNoGeneration, options_.node);
  const Result<ForkServerPlan> plan =
      PlanForkServer(start, environment.shared(), environment.ForWorker({}, 0));
  const auto refuse = [this](std::string why) {
    link_.Send({kNoGeneration, wire::Warmed{.why = std::move(why)}});
    return Status();
  };
  if (directory_error != 0) return refuse("its working directory is refused");
  if (!plan.ok()) return refuse(plan.status().message());
  if (options_.keeps_processes) return refuse("its processes outlive the job");
  const ForkServer* server =
      FindServer(*plan, kNoGeneration, std::chrono::milliseconds(start.preload_limit_ms));
  if (server == nullptr) {
    return refuse(lost_servers_ > kMaxLostServers ? "too many fork servers have died"
                                                  : "another fork server is still importing");
  }
  if (server->is_settled()) {
    link_.Send({kNoGeneration, warmed_});
  } else {
    ++warm_owed_;
  }
  return {};
}

void GangSet::OnStopped(LocalGang& gang, uint32_t swept) {
  const Generation generation = gang.generation();
  std::erase_if(gangs_, [&gang](const auto& one) { return one.get() == &gang; });
  if (!options_.is_elastic) {
    owner_.OnStopped(generation, swept);
  } else {
    swept_ += swept;
    if (stopping_ > 0 && !IsRunningUpTo(stopping_)) {
      owner_.OnStopped(std::exchange(stopping_, Generation{0}), std::exchange(swept_, uint32_t{0}));
    }
  }
  if (gangs_.empty()) owner_.OnIdle();
}

bool GangSet::IsRunningUpTo(Generation generation) const {
  return std::any_of(gangs_.begin(), gangs_.end(),
                     [&](const auto& gang) { return gang->generation() <= generation; });
}

void GangSet::Stop(Generation generation, Duration grace) {
  if (!options_.is_elastic) {
    if (generation > last_generation_) {
      // It never started here: reports it as stopped, and makes a late StartGeneration stale.
      last_generation_ = generation;
      owner_.OnStopped(generation, 0);
    } else if (LocalGang* gang = Find(generation, -1)) {
      gang->Stop(grace);
    }
    return;
  }
  if (generation < last_generation_) return CountStale();
  last_generation_ = generation;
  if (!IsRunningUpTo(generation)) {
    owner_.OnStopped(generation, std::exchange(swept_, uint32_t{0}));
    return;
  }
  stopping_ = generation;
  for (const auto& gang : gangs_) {
    if (gang->generation() <= generation) gang->Stop(grace);
  }
}

void GangSet::StopWorkers(const wire::StopWorkers& stop) {
  for (const auto& gang : gangs_) {
    gang->StopWorkers(stop.workers, std::chrono::milliseconds(stop.grace_ms));
  }
}

void GangSet::StopAll(Duration grace) {
  is_ending_ = true;
  if (server_) server_->Kill();
  for (const auto& gang : gangs_) {
    gang->output().Discard();
    gang->Stop(grace);
  }
}

void GangSet::OnOutputRoom() {
  for (const auto& gang : gangs_) gang->output().OnRoom();
}

void GangSet::Signal(Generation generation, int worker, int signo) {
  if (worker >= 0) {
    if (LocalGang* gang = Find(generation, worker)) gang->Signal(worker, signo);
    return;
  }
  if (!IsRunningUpTo(generation)) CountStale();
  for (const auto& gang : gangs_) {
    if (gang->generation() <= generation) gang->Signal(-1, signo);
  }
}

LocalGang* GangSet::Find(Generation generation, int worker) {
  for (const auto& gang : gangs_) {
    if (gang->generation() == generation && (worker < 0 || gang->Has(worker))) return gang.get();
  }
  CountStale();
  return nullptr;
}

std::vector<LivingWorker> GangSet::LivingOf(Generation generation) const {
  std::vector<LivingWorker> living;
  for (const auto& gang : gangs_) {
    gang->workers().ForEachLive([&](int worker, pid_t pid, int pidfd) {
      if (relay_.GenerationOf(worker) != generation) return;
      living.push_back({.pid = pid, .pidfd = pidfd, .is_parked = relay_.IsParked(worker)});
    });
  }
  return living;
}

}  // namespace hvdray
