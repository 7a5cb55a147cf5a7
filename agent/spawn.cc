// SPDX-License-Identifier: Apache-2.0
#include "agent/spawn.h"

#include <fcntl.h>
#include <linux/sched.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>
#include <climits>
#include <csignal>
#include <cstring>
#include <vector>

#include "base/exec.h"
#include "base/signals.h"
#include "base/standard_streams.h"

namespace hvdray {
namespace {

using wire::ExecStage;

constexpr int kReportFd = 3;  // In the child, after 0, 1 and 2.

// All memory that the child uses, prepared before the fork: the child must not allocate.
struct ChildPlan {
  const char* const* paths;
  size_t path_count;
  bool has_executable;
  char* const* argv;
  char** shell_argv;  // {"/bin/sh", path, argv[1]..., null}; the child fills in [1].
  char* const* envp;
  const char* directory;  // Null: no chdir.
  int stdin_fd, stdout_fd, stderr_fd, report_fd;
  int channel_fd;  // Above kChannelFd; -1: none.
  int cgroup_procs_fd;
  pid_t parent;
};

[[noreturn]] void FailExec(int report_fd, ExecStage stage, int error) {
  const ExecFailure record{stage, error};
  (void)!::write(report_fd, &record, sizeof record);  // Shorter than PIPE_BUF, so atomic.
  ::_exit(127);
}

void TakeDescriptors(const ChildPlan& plan) {
  if (::dup2(plan.stdin_fd, 0) < 0 || ::dup2(plan.stdout_fd, 1) < 0 ||
      ::dup2(plan.stderr_fd, 2) < 0) {
    FailExec(plan.report_fd, ExecStage::kDescriptors, errno);
  }
  if (plan.report_fd != kReportFd && ::dup3(plan.report_fd, kReportFd, O_CLOEXEC) < 0) {
    FailExec(plan.report_fd, ExecStage::kDescriptors, errno);
  }
  if (plan.channel_fd >= 0 && ::dup2(plan.channel_fd, kChannelFd) < 0) {
    FailExec(kReportFd, ExecStage::kDescriptors, errno);
  }
  // Close-on-exec is not enough: a library may have opened descriptors without it.
  CloseFrom(plan.channel_fd >= 0 ? kChannelFd + 1 : kReportFd + 1);
}

// execvp's rules for existing paths: after EACCES, continues with the other paths.
[[noreturn]] void ExecFirst(const ChildPlan& plan) {
  int error = ENOENT;
  bool was_denied = false;
  for (size_t i = 0; i < plan.path_count; ++i) {
    ::execve(plan.paths[i], plan.argv, plan.envp);
    if (errno == ENOEXEC) {
      plan.shell_argv[1] = const_cast<char*>(plan.paths[i]);
      ::execve(plan.shell_argv[0], plan.shell_argv, plan.envp);
    }
    error = errno;
    if (error == EACCES) was_denied = true;
    const bool may_go_on = error == EACCES || error == ENOENT || error == ENOTDIR ||
                           error == ESTALE || error == ENODEV || error == ETIMEDOUT;
    if (!may_go_on) FailExec(kReportFd, ExecStage::kExec, error);
  }
  if (was_denied) error = EACCES;
  // The program exists and is executable, so its interpreter is missing.
  if (error == ENOENT && plan.has_executable) error = ELIBACC;
  FailExec(kReportFd, ExecStage::kExec, error);
}

[[noreturn]] void RunChild(const ChildPlan& plan) {
  if (::setpgid(0, 0) != 0) FailExec(plan.report_fd, ExecStage::kLimits, errno);
  if (::prctl(PR_SET_PDEATHSIG, SIGKILL) != 0) {
    FailExec(plan.report_fd, ExecStage::kLimits, errno);
  }
  // If the parent died before prctl(), no signal will come.
  if (::getppid() != plan.parent) ::_exit(127);
  // Best effort: without the cgroup, process group and subreaper still cover the worker.
  if (plan.cgroup_procs_fd >= 0) (void)!::write(plan.cgroup_procs_fd, "0", 1);
  // Before any call that may hang: the child must not keep copies of the agent's link and sockets.
  TakeDescriptors(plan);
  if (plan.directory != nullptr && ::chdir(plan.directory) != 0) {
    FailExec(kReportFd, ExecStage::kDirectory, errno);
  }
  ResetSignals();
  ExecFirst(plan);
}

Status OpenOutputPipe(int bytes, UniqueFd& ours, UniqueFd& childs) {
  HVDRAY_ASSIGN_OR_RETURN(Pipe pipe, MakePipe());
  HVDRAY_RETURN_IF_ERROR(SetNonBlocking(pipe.read_end.get()));
  // Larger pipes mean fewer wake-ups. Best effort.
  if (bytes > 0) ::fcntl(pipe.write_end.get(), F_SETPIPE_SZ, bytes);
  ours = std::move(pipe.read_end);
  childs = std::move(pipe.write_end);
  return {};
}

Status OpenChannel(UniqueFd& ours, UniqueFd& childs) {
  HVDRAY_ASSIGN_OR_RETURN(auto sockets, MakeSocketPair());
  HVDRAY_RETURN_IF_ERROR(SetNonBlocking(sockets.first.get()));
  ours = std::move(sockets.first);
  // Where the child's report can't take its place.
  childs.Reset(::fcntl(sockets.second.get(), F_DUPFD_CLOEXEC, kChannelFd + 1));
  return childs.is_valid() ? Status() : ErrnoStatus("fcntl", errno);
}

Status OpenStdin(const SpawnRequest& request, UniqueFd& ours, UniqueFd& childs) {
  if (request.stdin_fd >= 0) return {};
  if (request.stdin_kind == StdinKind::kNull) {
    childs.Reset(::open("/dev/null", O_RDONLY | O_CLOEXEC));
    return childs.is_valid() ? Status() : ErrnoStatus("/dev/null", errno);
  }
  HVDRAY_ASSIGN_OR_RETURN(Pipe pipe, MakePipe());
  HVDRAY_RETURN_IF_ERROR(SetNonBlocking(pipe.write_end.get()));
  childs = std::move(pipe.read_end);
  ours = std::move(pipe.write_end);
  return {};
}

Status OpenAll(const SpawnRequest& request, ChildEnds& ends, SpawnedProcess& child) {
  HVDRAY_RETURN_IF_ERROR(OpenOutputPipe(request.pipe_bytes, child.stdout_pipe, ends.stdout_pipe));
  HVDRAY_RETURN_IF_ERROR(OpenOutputPipe(request.pipe_bytes, child.stderr_pipe, ends.stderr_pipe));
  HVDRAY_RETURN_IF_ERROR(OpenOutputPipe(0, child.report, ends.report));
  HVDRAY_RETURN_IF_ERROR(OpenStdin(request, child.stdin_pipe, ends.stdin_fd));
  return request.has_channel ? OpenChannel(child.channel, ends.channel) : Status();
}

pid_t Clone(uint64_t flags, int cgroup_fd, int& pidfd) {
  clone_args args{};
  args.flags = flags;
  args.pidfd = reinterpret_cast<uint64_t>(&pidfd);
  args.exit_signal = SIGCHLD;
  args.cgroup = static_cast<uint64_t>(cgroup_fd);
  return static_cast<pid_t>(::syscall(SYS_clone3, &args, sizeof args));
}

// Forks with the best call that the kernel offers: clone3() into the cgroup (a later move waits for
// an RCU grace period per process), else clone3() with a pidfd, else fork(). Returns 0 in the
// child; adjusts `plan` for the call used.
pid_t Fork(const SpawnRequest& request, ChildPlan& plan, int& pidfd) {
  if (request.cgroup_directory_fd >= 0) {
    const int procs_fd = std::exchange(plan.cgroup_procs_fd, -1);
    const pid_t pid = Clone(CLONE_PIDFD | CLONE_INTO_CGROUP, request.cgroup_directory_fd, pidfd);
    if (pid >= 0 || errno == EAGAIN || errno == ENOMEM) return pid;
    plan.cgroup_procs_fd = procs_fd;
  }
  const pid_t pid = Clone(CLONE_PIDFD, 0, pidfd);
  if (pid >= 0 || errno == EAGAIN || errno == ENOMEM) return pid;
  return ::fork();  // A sandbox may not permit clone3.
}

}  // namespace

ExecFailure OpenEnds(const SpawnRequest& request, ChildEnds& ends, SpawnedProcess& child) {
  errno = 0;
  if (OpenAll(request, ends, child).ok()) return {};
  return {ExecStage::kDescriptors, errno == 0 ? EMFILE : errno};
}

int Adopt(pid_t pid, SpawnedProcess& child) {
  HVDRAY_CHECK(pid > 1);
  ::setpgid(pid, pid);  // In the parent as well, so that the group exists before any signal.
  if (!child.pidfd.is_valid()) {
    child.pidfd = OpenPidFd(pid);
  }
  if (!child.pidfd.is_valid()) {
    const int error = errno;
    ::kill(pid, SIGKILL);
    ReapChild(pid);
    return error;
  }
  child.pid = pid;
  return 0;
}

ExecFailure Spawn(const SpawnRequest& request, SpawnedProcess& child) {
  const ExecPlan& exec = *request.plan;
  HVDRAY_CHECK(!exec.paths.empty());
  ChildEnds ends;
  SpawnedProcess made;
  if (const ExecFailure failure = OpenEnds(request, ends, made); failure != ExecFailure()) {
    return failure;
  }
  HVDRAY_CHECK(made.stdout_pipe.get() > 2);

  const std::vector<char*> paths = ExecArray(exec.paths);
  const std::vector<char*> argv = ExecArray(exec.argv);
  const std::vector<char*> envp = ExecArray(request.shared_environment, request.own_environment);
  char shell[] = "/bin/sh";
  std::vector<char*> shell_argv{shell, nullptr};
  shell_argv.insert(shell_argv.end(), argv.begin() + 1, argv.end());
  ChildPlan plan{paths.data(),
                 exec.paths.size(),
                 exec.has_executable,
                 argv.data(),
                 shell_argv.data(),
                 envp.data(),
                 exec.working_directory.empty() ? nullptr : exec.working_directory.c_str(),
                 request.stdin_fd >= 0 ? request.stdin_fd : ends.stdin_fd.get(),
                 ends.stdout_pipe.get(),
                 ends.stderr_pipe.get(),
                 ends.report.get(),
                 ends.channel.get(),
                 request.cgroup_procs_fd,
                 ::getpid()};
  int pidfd = -1;
  pid_t pid = -1;
  int error = 0;
  {
    const HeldSignals held(AllSignals());
    pid = Fork(request, plan, pidfd);
    if (pid == 0) RunChild(plan);
    error = errno;
  }
  if (pid < 0) return {ExecStage::kFork, error};
  made.pidfd.Reset(pidfd);
  if (const int failed = Adopt(pid, made); failed != 0) return {ExecStage::kFork, failed};
  child = std::move(made);
  return {};
}

ReportKind ReadReport(int fd, ExecFailure& failure) {
  ExecFailure record;
  ssize_t n = 0;
  do {
    n = ::read(fd, &record, sizeof record);
  } while (n < 0 && errno == EINTR);
  if (n < 0 && errno == EAGAIN) return ReportKind::kPending;
  if (n != static_cast<ssize_t>(sizeof record)) return ReportKind::kStarted;
  failure = record;
  return ReportKind::kFailed;
}

}  // namespace hvdray
