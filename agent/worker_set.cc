// SPDX-License-Identifier: Apache-2.0
#include "agent/worker_set.h"

#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <utility>

#include "base/fd.h"
#include "base/log.h"

namespace hvdray {
namespace {

// libc headers older than Linux 5.4 do not define P_PIDFD.
constexpr int kPidfdIdType = 3;
constexpr Duration kLastWait = std::chrono::seconds(1);

bool Reap(int pidfd, int options, siginfo_t& info) {
  info = {};
  for (;;) {
    const int rc = ::waitid(static_cast<idtype_t>(kPidfdIdType), static_cast<id_t>(pidfd), &info,
                            WEXITED | options);
    if (rc == 0) return info.si_pid != 0;
    if (errno != EINTR) return false;
  }
}

}  // namespace

wire::ExitStatus DecodeExit(int code, int value) {
  wire::ExitStatus status;
  if (code == CLD_EXITED) {
    status.exit_code = value;
  } else {
    status.signal = value;
    status.has_core = code == CLD_DUMPED;
  }
  return status;
}

WorkerSet::~WorkerSet() {
  SignalAllGroups(SIGKILL);
  siginfo_t info;
  for (const auto& [pid, rank] : live_) {
    // With a limit: the keeper reaps a worker that hangs in the kernel.
    const int pidfd = workers_.at(rank).pidfd.get();
    if (AwaitEnd(pidfd, kLastWait)) Reap(pidfd, WNOHANG, info);
  }
}

WorkerSet::Pipes WorkerSet::Take(int rank, SpawnedProcess child) {
  HVDRAY_CHECK(!workers_.contains(rank));
  Worker& worker = workers_[rank];
  worker.pid = child.pid;
  worker.pidfd = std::move(child.pidfd);
  worker.report = std::move(child.report);
  live_[worker.pid] = rank;
  worker.report_watch =
      loop_.OnFd(worker.report.get(), FdEvent::kRead, [this, rank] { OnReport(rank); });
  worker.exit_watch =
      loop_.OnFd(worker.pidfd.get(), FdEvent::kRead, [this, rank] { OnExit(rank); });
  return {std::move(child.stdin_pipe), std::move(child.stdout_pipe), std::move(child.stderr_pipe),
          std::move(child.channel)};
}

void WorkerSet::OnReport(int rank) {
  Worker& worker = workers_.at(rank);
  const ReportKind kind = ReadReport(worker.report.get(), worker.failure);
  if (kind == ReportKind::kPending) return;
  worker.report_watch.Cancel();
  worker.report.Reset();
  if (kind == ReportKind::kStarted) owner_.OnStarted(rank, worker.pid);
}

void WorkerSet::OnExit(int rank) {
  Worker& worker = workers_.at(rank);
  siginfo_t info;
  if (!Reap(worker.pidfd.get(), WNOHANG, info)) return;
  worker.is_reaped = true;
  live_.erase(worker.pid);
  worker.exit_watch.Cancel();
  worker.pidfd.Reset();
  // The exit may be seen before the exec report.
  if (worker.report.is_valid()) OnReport(rank);
  worker.report_watch.Cancel();
  worker.report.Reset();
  IsGroupOurs(worker);
  wire::ExitStatus status = DecodeExit(info.si_code, info.si_status);
  if (worker.failure.stage != wire::ExecStage::kNone) {
    status = {};
    status.stage = worker.failure.stage;
    status.error = worker.failure.error;
  }
  owner_.OnExited(rank, status);
}

bool WorkerSet::IsGroupOurs(Worker& worker) {
  if (worker.is_group_gone) return false;
  if (!worker.is_reaped) return true;
  // The kernel reuses a group's number only once the group is empty. So the group is not ours if a
  // process of that number exists (the worker was reaped) or if the group has no member.
  const bool is_number_reused = ::kill(worker.pid, 0) == 0 || errno == EPERM;
  if (is_number_reused || (::kill(-worker.pid, 0) != 0 && errno == ESRCH)) {
    worker.is_group_gone = true;
  }
  return !worker.is_group_gone;
}

void WorkerSet::SignalGroup(int rank, int signo) {
  const auto found = workers_.find(rank);
  if (found == workers_.end() || !IsGroupOurs(found->second)) return;
  const Worker& worker = found->second;
  const pid_t group = worker.pid;
  HVDRAY_CHECK(group > 1);
  if (::kill(-group, signo) == 0) return;
  if (errno == ESRCH) {
    // A worker may have moved to another group: signals the process itself.
    if (!worker.is_reaped) ::syscall(SYS_pidfd_send_signal, worker.pidfd.get(), signo, nullptr, 0);
  } else {
    Log(LogLevel::kWarning, "agent", "rank={}: signal {} to group {}: {}", rank, signo, group,
        ErrnoStatus("kill", errno).message());
  }
}

void WorkerSet::SignalAllGroups(int signo) {
  for (const auto& [rank, worker] : workers_) SignalGroup(rank, signo);
}

void WorkerSet::LeaveGroup(int rank) {
  const auto found = workers_.find(rank);
  if (found != workers_.end() && found->second.is_reaped) found->second.is_group_gone = true;
}

void WorkerSet::ReapDead() {
  for (const int rank : LiveRanks()) OnExit(rank);
}

std::vector<int> WorkerSet::LiveRanks() const {
  std::vector<int> ranks;
  for (const auto& [pid, rank] : live_) ranks.push_back(rank);
  return ranks;
}

void WorkerSet::ForEachLive(const std::function<void(int, pid_t, int)>& visit) const {
  for (const auto& [pid, rank] : live_) visit(rank, pid, workers_.at(rank).pidfd.get());
}

bool WorkerSet::HasLivingGroup() {
  bool has_living = false;
  for (auto& [rank, worker] : workers_) has_living = IsGroupOurs(worker) || has_living;
  return has_living;
}

}  // namespace hvdray
