// SPDX-License-Identifier: Apache-2.0
#include "agent/keeper.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <ctime>
#include <optional>
#include <string>

#include "agent/cgroup.h"
#include "agent/leave_socket.h"
#include "agent/orphans.h"
#include "base/error_code.h"
#include "base/exec.h"
#include "base/log.h"
#include "base/signals.h"
#include "base/standard_streams.h"

namespace hvdray {
namespace {

using std::chrono::milliseconds;

constexpr Duration kSweepLimit = std::chrono::seconds(10);
constexpr Duration kSweepPause = milliseconds(5);

constexpr int kLifelineFd = STDERR_FILENO + 1;  // In keeper and front.

// The end of a child, and what is passed on to the agent.
sigset_t HandledSignals() { return SignalSet({SIGCHLD, SIGTERM, SIGINT, SIGHUP}); }

// Closes all of the agent's descriptors: its link must close when it dies.
void KeepOnlyLifeline(UniqueFd& lifeline) {
  {
    const UniqueFd null(::open("/dev/null", O_RDWR | O_CLOEXEC));
    ::dup2(null.get(), STDIN_FILENO);
    ::dup2(null.get(), STDOUT_FILENO);
  }
  if (lifeline.get() != kLifelineFd) {
    ::dup2(lifeline.get(), kLifelineFd);
    // CloseFrom() closes the old number; kLifelineFd stays open until this process exits.
    (void)!lifeline.Release();
  }
  CloseFrom(kLifelineFd + 1);
}

// Reaps all dead children. Returns the agent's status if it was among them.
std::optional<int> ReapAgent(pid_t agent) {
  std::optional<int> status;
  for (;;) {
    int raw = 0;
    const pid_t pid = ::waitpid(-1, &raw, WNOHANG);
    if (pid < 0 && errno == EINTR) continue;
    if (pid <= 0) return status;
    if (pid == agent) status = ShellCode(raw);
  }
}

int WaitForAgent(pid_t agent, const sigset_t& handled) {
  for (;;) {
    const int signo = ::sigwaitinfo(&handled, nullptr);
    if (signo == SIGCHLD) {
      if (const std::optional<int> status = ReapAgent(agent)) return *status;
    } else if (signo > 0) {
      ::kill(agent, signo);
    }
  }
}

timespec ToTimespec(Duration duration) {
  return {static_cast<time_t>(duration.count() / 1'000'000'000),
          static_cast<long>(duration.count() % 1'000'000'000)};
}

// The agent's orphans are our children now. Kills until the cgroup is gone and no child is left.
void SweepAll(pid_t agent) {
  const std::optional<std::string> own = OwnCgroupDirectory();
  const std::string directory = own ? AgentCgroupDirectory(*own, agent) : std::string();
  const sigset_t child = SignalSet({SIGCHLD});
  const timespec pause = ToTimespec(kSweepPause);
  for (auto left = kSweepLimit; left > Duration::zero(); left -= kSweepPause) {
    const bool is_group_gone = directory.empty() || KillAndRemoveCgroup(directory);
    for (const pid_t pid : ListChildren()) ::kill(pid, SIGKILL);
    ReapAgent(agent);
    const bool has_children = ::waitpid(-1, nullptr, WNOHANG) >= 0 || errno != ECHILD;
    if (is_group_gone && !has_children) return;
    ::sigtimedwait(&child, nullptr, &pause);
  }
  Log(LogLevel::kError, "keeper", "some processes of the job can't be killed");
}

[[noreturn]] void RunKeeper(pid_t agent, UniqueFd lifeline, const sigset_t& handled) {
  KeepOnlyLifeline(lifeline);
  ::prctl(PR_SET_NAME, "hvdray-keeper");
  const int status = WaitForAgent(agent, handled);
  SweepAll(agent);
  // Only now: a child that the agent had just forked held it open.
  RemoveDeadLeaveSocket(LeaveDirectory(), agent);
  ::_exit(status);
}

// Waits until no process holds the read end: the agent is dead.
void WaitForNoReader(int write_end) {
  pollfd entry{write_end, 0, 0};  // poll() always reports POLLERR.
  while (::poll(&entry, 1, -1) < 0 && errno == EINTR) {
  }
}

[[noreturn]] void RunFront(pid_t keeper, UniqueFd lifeline, const sigset_t& handled) {
  KeepOnlyLifeline(lifeline);
  ::prctl(PR_SET_NAME, "hvdray-front");
  const int status = WaitForAgent(keeper, handled);
  // A keeper that exits by itself has swept; a killed one leaves us its agent, which is stopping.
  if (status > 128) WaitForNoReader(kLifelineFd);
  SweepAll(keeper);
  ::_exit(status);
}

}  // namespace

Result<ApartLifelines> ForkKeeperApart() {
  if (::prctl(PR_SET_CHILD_SUBREAPER, 1) != 0) return ErrnoStatus("prctl", errno);
  HVDRAY_ASSIGN_OR_RETURN(Pipe front, MakePipe());
  HVDRAY_ASSIGN_OR_RETURN(Pipe lifeline, MakePipe());
  const sigset_t handled = HandledSignals();
  const HeldSignals held(handled);
  const pid_t keeper = ::fork();
  if (keeper < 0) return ErrnoStatus("fork", errno);
  if (keeper > 0) {
    front.read_end.Reset();
    RunFront(keeper, std::move(front.write_end), handled);
  }
  front.write_end.Reset();
  ::prctl(PR_SET_CHILD_SUBREAPER, 1);
  const pid_t agent = ::fork();
  if (agent < 0) ::_exit(kHvdrayFailed);
  if (agent > 0) {
    ::setsid();  // After the fork: the agent stays in the caller's session.
    RunKeeper(agent, std::move(lifeline.write_end), handled);
  }
  lifeline.write_end.Reset();
  ::prctl(PR_SET_CHILD_SUBREAPER, 1);
  return ApartLifelines{std::move(lifeline.read_end), std::move(front.read_end)};
}

Result<UniqueFd> ForkKeeper() {
  ::setsid();  // Fails only for a group leader, which has no terminal or keeps it.
  if (::prctl(PR_SET_CHILD_SUBREAPER, 1) != 0) return ErrnoStatus("prctl", errno);
  HVDRAY_ASSIGN_OR_RETURN(Pipe lifeline, MakePipe());
  const sigset_t handled = HandledSignals();
  const HeldSignals held(handled);
  const pid_t pid = ::fork();
  if (pid < 0) return ErrnoStatus("fork", errno);
  if (pid > 0) {
    lifeline.read_end.Reset();
    RunKeeper(pid, std::move(lifeline.write_end), handled);
  }
  lifeline.write_end.Reset();
  ::setsid();
  // fork(2) does not pass the subreaper attribute on.
  ::prctl(PR_SET_CHILD_SUBREAPER, 1);
  return std::move(lifeline.read_end);
}

}  // namespace hvdray
