// SPDX-License-Identifier: Apache-2.0
#include "agent/gang_start.h"

#include <fcntl.h>

#include <algorithm>
#include <bit>
#include <cerrno>
#include <utility>

namespace hvdray {
namespace {

using wire::ExecStage;

constexpr size_t kForksPerTurn = 16;  // The loop serves heartbeats and the rendezvous in between.
// All pipes together stay below half of Linux's limit for a user (fs.pipe-user-pages-soft, 64 MiB;
// beyond it, new pipes get one page).
constexpr int kAllPipesBytes = 32 << 20;
constexpr int kLargestPipeBytes = 1 << 20;
constexpr int kKernelPipeBytes = 64 << 10;

int PipeBytes(size_t workers) {
  const int pipes = static_cast<int>(2 * std::max<size_t>(1, workers));
  const int share = static_cast<int>(std::bit_floor(static_cast<unsigned>(kAllPipesBytes / pipes)));
  return share > kKernelPipeBytes ? std::min(share, kLargestPipeBytes) : 0;
}

}  // namespace

GangStart::GangStart(Loop& loop, const wire::StartGeneration& start,
                     const GangEnvironment& environment, Owner& owner)
    : loop_(loop),
      start_(start),
      environment_(environment),
      owner_(owner),
      plan_(PlanExec(start.command, FindPath(environment.shared()), start.working_directory)) {}

void GangStart::Start(const Cgroup* cgroup, int directory_error, bool may_preload) {
  cgroup_ = cgroup;
  directory_error_ = directory_error;
  const bool has_server = may_preload && !start_.preload.empty() && directory_error == 0;
  if (has_server && !start_.workers.empty()) PlanServer();
  StartSome();
}

void GangStart::PlanServer() {
  Result<ForkServerPlan> plan =
      PlanForkServer(start_, environment_.shared(), environment_.ForWorker(start_.workers[0], 0));
  if (!plan.ok()) return owner_.OnNoServer(plan.status().message());
  server_plan_ = std::move(plan).value();
}

void GangStart::StartSome() {
  ForkServer* server = server_plan_ ? owner_.FindServer(*server_plan_) : nullptr;
  if (server != nullptr && !server->is_settled()) return;
  if (server != nullptr && server->is_warm()) return Fork(*server);
  for (size_t i = 0; i < kForksPerTurn && next_ < start_.workers.size(); ++i) {
    if (const auto beginner = Prepare(start_.workers[next_++])) Exec(*beginner);
  }
  Continue();
}

void GangStart::OnWarmed() {
  if (next_ == start_.workers.size() || !in_flight_.empty()) return;
  timer_ = loop_.After(Duration::zero(), [this] { StartSome(); });
}

void GangStart::Continue() {
  timer_.Cancel();
  if (next_ == start_.workers.size()) return owner_.OnSettled();
  timer_ = loop_.After(Duration::zero(), [this] { StartSome(); });
}

std::optional<GangStart::Beginner> GangStart::Prepare(const wire::WorkerSlot& slot) {
  Beginner beginner;
  beginner.name = slot.name();
  if (slot.rank == start_.stdin_rank) beginner.stdin_kind = StdinKind::kPipe;
  ExecFailure failure;
  if (owner_.IsUnwanted(beginner.name)) {
    failure = {ExecStage::kFork, ECANCELED};
  } else if (directory_error_ != 0) {
    failure = {ExecStage::kDirectory, directory_error_};
  } else if (plan_.paths.empty()) {
    failure = {ExecStage::kExec, plan_.error};
  } else {
    failure = owner_.Equip(slot, &beginner.environment);
  }
  if (failure == ExecFailure()) return beginner;
  owner_.OnRefused(beginner.name, failure);
  return std::nullopt;
}

SpawnRequest GangStart::RequestFor(const Beginner& beginner) const {
  SpawnRequest request;
  request.plan = &plan_;
  request.shared_environment = environment_.shared();
  request.own_environment = beginner.environment;
  request.stdin_kind = beginner.stdin_kind;
  request.has_channel = start_.has_channel;
  if (cgroup_ != nullptr) {
    request.cgroup_directory_fd = cgroup_->directory_fd();
    request.cgroup_procs_fd = cgroup_->procs_fd();
  }
  request.pipe_bytes = PipeBytes(start_.workers.size());
  return request;
}

void GangStart::Exec(const Beginner& beginner) {
  SpawnedProcess process;
  const ExecFailure failure = Spawn(RequestFor(beginner), process);
  if (failure != ExecFailure()) return Refuse(beginner, failure);
  owner_.OnProcess(beginner.name, std::move(process));
}

void GangStart::Fork(ForkServer& server) {
  ForkRequest request;
  while (in_flight_.size() < kMaxForks && next_ < start_.workers.size()) {
    std::optional<Beginner> beginner = Prepare(start_.workers[next_++]);
    if (!beginner) continue;
    ChildEnds ends;
    const ExecFailure failure = OpenEnds(RequestFor(*beginner), ends, beginner->process);
    if (failure != ExecFailure()) {
      Refuse(*beginner, failure);
      continue;
    }
    request.own_environments.push_back(beginner->environment);
    request.ends.push_back(std::move(ends));
    in_flight_.push_back(std::move(*beginner));
  }
  if (in_flight_.empty()) return Continue();
  request.shared_environment = environment_.shared();
  if (cgroup_ != nullptr) {
    request.cgroup_procs.Reset(::fcntl(cgroup_->procs_fd(), F_DUPFD_CLOEXEC, 0));
  }
  server_ = &server;
  server.Fork(std::move(request), [this](Forked answer) { OnForked(std::move(answer)); });
}

void GangStart::OnForked(Forked answer) {
  std::vector<Beginner> beginners = std::exchange(in_flight_, {});
  server_ = nullptr;
  // One byte for each: those that are killed may take one, too.
  const std::string bytes(beginners.size(), 'g');
  for (size_t i = 0; i < beginners.size(); ++i) {
    Beginner& beginner = beginners[i];
    const pid_t pid = i < answer.pids.size() ? answer.pids[i] : 0;
    if (pid > 0) {
      if (const int error = Adopt(pid, beginner.process); error != 0) {
        Refuse(beginner, {ExecStage::kFork, error});
      } else {
        owner_.OnProcess(beginner.name, std::move(beginner.process));
      }
    } else if (pid < 0) {
      Refuse(beginner, {ExecStage::kFork, -pid});
    } else if (owner_.IsUnwanted(beginner.name)) {
      Refuse(beginner, {ExecStage::kFork, ECANCELED});
    } else {
      Exec(beginner);  // the server is gone
    }
  }
  if (!is_cancelled_ && answer.gate.is_valid()) (void)WriteAll(answer.gate.get(), bytes).ok();
  Continue();
}

void GangStart::Refuse(const Beginner& beginner, const ExecFailure& failure) {
  owner_.Unequip(beginner.name);
  owner_.OnRefused(beginner.name, failure);
}

void GangStart::Cancel() {
  is_cancelled_ = true;
  timer_.Cancel();
  while (next_ < start_.workers.size()) {
    owner_.OnRefused(start_.workers[next_++].name(), {ExecStage::kFork, ECANCELED});
  }
}

void GangStart::KillServer() {
  if (server_ != nullptr) server_->Kill();
}

}  // namespace hvdray
