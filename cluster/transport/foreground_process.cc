// SPDX-License-Identifier: Apache-2.0
#include "cluster/transport/foreground_process.h"

#include <fmt/format.h>
#include <poll.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/signalfd.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <optional>
#include <utility>

#include "base/exec.h"
#include "base/fd.h"
#include "base/report_file.h"
#include "base/signals.h"
#include "base/text.h"
#include "cluster/transport/child_process.h"
#include "cluster/transport/remote_shell.h"

namespace hvdray {
namespace {

constexpr size_t kMaxOutputBytes = size_t{1} << 20;
constexpr int kGroupLookMs = 20;  // for those whose end is not told to us

/// Blocks signals while it lives and reads them from a descriptor.
class ReadSignals {
 public:
  ReadSignals() = default;
  ReadSignals(const ReadSignals&) = delete;
  ReadSignals& operator=(const ReadSignals&) = delete;
  ~ReadSignals() {
    // What came last has been acted on; it must not kill this process now.
    signalfd_siginfo info{};
    while (fd_.is_valid() && ::read(fd_.get(), &info, sizeof info) == sizeof info) {
    }
  }
  int fd() const { return fd_.get(); }
  /// What was blocked before, for the child.
  const sigset_t& before() const { return held_.before(); }

 private:
  const sigset_t set_ = SignalSet({SIGHUP, SIGINT, SIGQUIT, SIGTERM, SIGCHLD});
  const HeldSignals held_{set_};
  const UniqueFd fd_{::signalfd(-1, &set_, SFD_CLOEXEC | SFD_NONBLOCK)};
};

enum class Place : uint8_t { kOurGroup, kOwnSession };

/// In the child of fork, before anything may allocate or lock. Never returns.
[[noreturn]] void BecomeCommand(char* const* argv, const sigset_t& mask, pid_t parent, Place place,
                                int report_fd, int output_fd, int error_fd) {
  if (place == Place::kOwnSession) ::setsid();
  // Whoever kills us wants the command to end, too; ssh's end ends it over there.
  ::prctl(PR_SET_PDEATHSIG, SIGTERM);
  if (::getppid() != parent) ::_exit(127);
  if (output_fd >= 0) ::dup2(output_fd, STDOUT_FILENO);
  if (error_fd >= 0) ::dup2(error_fd, STDERR_FILENO);
  ::signal(SIGPIPE, SIG_DFL);  // this process ignores them
  ::signal(SIGXFSZ, SIG_DFL);
  ::sigprocmask(SIG_SETMASK, &mask, nullptr);
  ExecOrReport(argv, report_fd);
}

/// Only while this process has one thread that goes on: nothing else runs meanwhile.
/// `output_fd`, `error_fd`: become its stdout and stderr; -1: ours do.
Result<pid_t> SpawnHere(const std::vector<std::string>& command, const sigset_t& mask, Place place,
                        int output_fd, int error_fd) {
  HVDRAY_ASSIGN_OR_RETURN(Pipe report, MakePipe());
  const std::vector<char*> argv = ExecArray(command);
  const pid_t self = ::getpid();
  const pid_t pid = ::fork();
  if (pid < 0) return ErrnoStatus("fork", errno);
  if (pid == 0) {
    BecomeCommand(argv.data(), mask, self, place, report.write_end.get(), output_fd, error_fd);
  }
  const int error = AwaitExec(pid, std::move(report));
  if (error == 0) return pid;
  return Status(
      ErrorCode::kAgentStartFailed, fmt::format("{}: {}", command.front(), ::strerror(error)),
      error == ENOENT ? fmt::format("hvdray starts {} for this: install it", command.front()) : "");
}

/// Passes on the signals that are waiting; child -1: only notes them. Those of the terminal's keys
/// have reached the child already, but of its end the kernel tells the session's leader alone.
void PassSignals(int fd, pid_t child, int* last) {
  signalfd_siginfo info{};
  while (::read(fd, &info, sizeof info) == sizeof info) {
    const int signo = static_cast<int>(info.ssi_signo);
    if (signo == SIGCHLD) continue;
    *last = signo;
    if (child > 1 && (info.ssi_code != SI_KERNEL || signo == SIGHUP)) ::kill(child, signo);
  }
}

/// ssh prints a line end of its own choosing.
std::vector<std::string> LinesIn(std::string_view text) {
  std::vector<std::string> lines;
  for (std::string_view line : LinesOf(text)) {
    line = Trimmed(line);
    if (!line.empty()) lines.push_back(ShownLine(line));
  }
  return lines;
}

/// Copies a child's stdout to ours, where that is a file or a device: ssh says nothing of what it
/// could not write there, and ends as if it had. A terminal, pipe or socket is the child's own.
class StdoutCopier {
 public:
  Status Open() {
    struct stat info {};
    const bool is_file = ::fstat(STDOUT_FILENO, &info) == 0 &&
                         (S_ISREG(info.st_mode) || S_ISCHR(info.st_mode)) &&
                         ::isatty(STDOUT_FILENO) == 0;
    if (!is_file) return {};
    HVDRAY_ASSIGN_OR_RETURN(pipe_, MakePipe());
    return SetNonBlocking(pipe_.read_end.get());
  }
  /// -1: the child has our stdout.
  int child_fd() const { return pipe_.write_end.get(); }
  void CloseChildEnd() { pipe_.write_end.Reset(); }
  /// To poll; -1: nothing more comes.
  int fd() const { return pipe_.read_end.get(); }
  /// Copies a piece. Returns whether there was one. After a failed write the child's next one
  /// fails, too.
  bool Copy() {
    std::array<char, 65536> bytes;
    const ssize_t n = ::read(pipe_.read_end.get(), bytes.data(), bytes.size());
    if (n < 0 && (errno == EAGAIN || errno == EINTR)) return false;
    if (n > 0 && WriteAll(STDOUT_FILENO, {bytes.data(), static_cast<size_t>(n)}).ok()) return true;
    if (n > 0) status_ = OutputLost("stdout", errno);
    pipe_.read_end.Reset();
    return false;
  }
  const Status& status() const { return status_; }

 private:
  Pipe pipe_;
  Status status_;
};

Result<UniqueFd> MakeMemoryFile() {
  UniqueFd fd(::memfd_create("hvdray-messages", MFD_CLOEXEC));
  if (!fd.is_valid()) return ErrnoStatus("memfd_create", errno);
  return fd;
}

std::string ContentsOf(int fd) {
  std::string text;
  std::array<char, 4096> bytes{};
  for (off_t at = 0; text.size() < kMaxOutputBytes;) {
    const ssize_t n = ::pread(fd, bytes.data(), bytes.size(), at);
    if (n <= 0) break;
    text.append(bytes.data(), static_cast<size_t>(n));
    at += n;
  }
  return text;
}

Status WhySshFailed(const OpensshOptions& options, const std::vector<std::string>& lines) {
  const Status how(ErrorCode::kAgentStartFailed,
                   fmt::format("ssh exited with code {}", kSshFailed));
  return ExplainOpenssh(how, lines, options.proxy);
}

// Functions of ssh that speak when asked to by LogVerbose: of a log-in that succeeds (not where a
// master connection has it), and of the command's end, which quiet levels don't tell apart from
// that of the connection: 255 may be either's code.
constexpr std::string_view kLogIn = "ssh_userauth2()";
constexpr std::string_view kEnd = "client_input_channel_req()";

/// Removes the lines that the function of ssh wrote, and returns whether there were any.
bool TakeLinesOf(std::string_view function, std::vector<std::string>& lines) {
  return std::erase_if(lines, [function](const std::string& line) {
           return line.find(function) != std::string::npos;
         }) > 0;
}

/// A child's three pipes, and what went through them.
class Conversation {
 public:
  Conversation(Helper helper, UniqueFd in, UniqueFd out, UniqueFd err, std::string_view input)
      : helper_(std::move(helper)),
        in_(std::move(in)),
        out_(std::move(out)),
        err_(std::move(err)),
        input_(input) {}

  Result<CapturedRun> ToItsEnd(TimePoint deadline, int cancel_fd) {
    if (input_.empty()) in_.Reset();
    while (out_.is_valid() || err_.is_valid() || in_.is_valid()) {
      const auto left =
          std::chrono::ceil<std::chrono::milliseconds>(deadline - std::chrono::steady_clock::now());
      if (left.count() <= 0) return GiveUp({ErrorCode::kDeadlineExceeded, "no answer in time"});
      std::array<pollfd, 4> ready = {pollfd{in_.get(), POLLOUT, 0}, pollfd{out_.get(), POLLIN, 0},
                                     pollfd{err_.get(), POLLIN, 0}, pollfd{cancel_fd, POLLIN, 0}};
      const int count = ::poll(ready.data(), ready.size(), static_cast<int>(left.count()));
      if (count < 0 && errno != EINTR) return ErrnoStatus("poll", errno);
      if (count <= 0) continue;
      if (ready[3].revents != 0) return GiveUp({ErrorCode::kCancelled, "cancelled"});
      if (ready[0].revents != 0) Feed();
      if (ready[1].revents != 0) Take(out_, &run_.output);
      if (ready[2].revents != 0) Take(err_, &errors_);
    }
    const int status = ReapChild(helper_.pid);
    run_.exit_code = WIFEXITED(status) ? WEXITSTATUS(status) : -1;
    run_.error_lines = LinesIn(errors_);
    return std::move(run_);
  }

 private:
  void Feed() {
    const ssize_t n = ::write(in_.get(), input_.data(), input_.size());
    if (n < 0 && (errno == EAGAIN || errno == EINTR)) return;
    if (n > 0) input_.remove_prefix(static_cast<size_t>(n));
    if (n < 0 || input_.empty()) in_.Reset();
  }

  static void Take(UniqueFd& fd, std::string* text) {
    std::array<char, 16384> bytes{};
    const ssize_t n = ::read(fd.get(), bytes.data(), bytes.size());
    if (n < 0 && (errno == EAGAIN || errno == EINTR)) return;
    if (n <= 0) return fd.Reset();
    const size_t room = kMaxOutputBytes - std::min(text->size(), kMaxOutputBytes);
    text->append(bytes.data(), std::min(static_cast<size_t>(n), room));
  }

  Status GiveUp(Status why) {
    ::kill(-helper_.pid, SIGKILL);
    ReapChild(helper_.pid);
    return why;
  }

  Helper helper_;
  UniqueFd in_, out_, err_;
  std::string_view input_;
  std::string errors_;
  CapturedRun run_;
};

}  // namespace

Result<ProcessEnd> RunInForeground(const std::vector<std::string>& command, ErrorsOf errors,
                                   OutputBy output) {
  const ReadSignals signals;
  if (signals.fd() < 0) return ErrnoStatus("signalfd", errno);
  UniqueFd kept;
  if (errors == ErrorsOf::kAreKept) {
    HVDRAY_ASSIGN_OR_RETURN(kept, MakeMemoryFile());
  }
  StdoutCopier copier;
  if (output == OutputBy::kUs) HVDRAY_RETURN_IF_ERROR(copier.Open());
  HVDRAY_ASSIGN_OR_RETURN(const pid_t child, SpawnHere(command, signals.before(), Place::kOurGroup,
                                                       copier.child_fd(), kept.get()));
  copier.CloseChildEnd();
  ProcessEnd end;
  while (true) {
    int status = 0;
    const pid_t got = ::waitpid(child, &status, WNOHANG | WUNTRACED);
    if (got == child && !WIFSTOPPED(status)) {
      end.exit_code = ShellCode(status);
      // A signal of the terminal may have ended the child before we read it.
      PassSignals(signals.fd(), /*child=*/-1, &end.signo);
      while (copier.Copy()) {
      }
      end.output_damage = copier.status();
      if (kept.is_valid()) end.error_lines = LinesIn(ContentsOf(kept.get()));
      return end;
    }
    if (got == child) {
      // ssh's "~^Z" stops ssh alone; the user's shell wants this process stopped, too.
      ::raise(SIGSTOP);
      ::kill(child, SIGCONT);
    }
    std::array<pollfd, 2> ready = {pollfd{signals.fd(), POLLIN, 0}, pollfd{copier.fd(), POLLIN, 0}};
    if (::poll(ready.data(), ready.size(), -1) <= 0) continue;
    PassSignals(signals.fd(), child, &end.signo);
    if (ready[1].revents != 0) (void)copier.Copy();
  }
}

Result<ProcessEnd> RunInOwnSession(const std::vector<std::string>& command, Duration grace) {
  const ReadSignals signals;
  if (signals.fd() < 0) return ErrnoStatus("signalfd", errno);
  HVDRAY_ASSIGN_OR_RETURN(const pid_t child,
                          SpawnHere(command, signals.before(), Place::kOwnSession, /*output_fd=*/-1,
                                    /*error_fd=*/-1));
  ProcessEnd end;
  bool is_reaped = false;
  std::optional<TimePoint> kill_at;
  while (true) {
    PassSignals(signals.fd(), /*child=*/-1, &end.signo);
    int status = 0;
    if (!is_reaped && ::waitpid(child, &status, WNOHANG) == child) {
      is_reaped = true;
      end.exit_code = ShellCode(status);
    }
    if (is_reaped && (end.signo == 0 || ::kill(-child, 0) != 0)) return end;
    const TimePoint now = std::chrono::steady_clock::now();
    if (end.signo != 0 && !kill_at) {
      ::kill(-child, SIGTERM);
      kill_at = now + grace;
    } else if (kill_at && *kill_at <= now) {
      ::kill(-child, SIGKILL);
    }
    pollfd ready = {signals.fd(), POLLIN, 0};
    (void)::poll(&ready, 1, kill_at ? kGroupLookMs : -1);
  }
}

Result<int> RunOverSsh(OpensshOptions options, const std::string& host, const std::string& command,
                       std::vector<std::string>* warnings) {
  // ssh's own messages, apart from those of the command.
  HVDRAY_ASSIGN_OR_RETURN(const UniqueFd log, MakeMemoryFile());
  options.log_file = fmt::format("/proc/{}/fd/{}", ::getpid(), log.get());
  for (std::string& option : options.session_options) {
    if (option.starts_with("LogVerbose=")) option += fmt::format(",*:{}:*,*:{}:*", kLogIn, kEnd);
  }
  HVDRAY_ASSIGN_OR_RETURN(
      const ProcessEnd end,
      RunInForeground(OpensshArgv(options, host, command), ErrorsOf::kGoToOurs, OutputBy::kUs));
  const bool has_failed = end.exit_code == kSshFailed || end.exit_code > 128;
  if (has_failed && end.signo != 0) return 128 + end.signo;
  HVDRAY_RETURN_IF_ERROR(end.output_damage);
  std::vector<std::string> lines = LinesIn(ContentsOf(log.get()));
  const bool has_begun = TakeLinesOf(kLogIn, lines);
  const bool has_ended = TakeLinesOf(kEnd, lines);
  if (end.exit_code == kSshFailed && !lines.empty()) return WhySshFailed(options, lines);
  if (end.exit_code == kSshFailed && has_begun && !has_ended) {
    return Status(ErrorCode::kAgentLost, "the connection broke before the command had ended",
                  "check the network, and whether the host is up");
  }
  *warnings = lines;
  return end.exit_code;
}

Result<CapturedRun> RunForOutput(const std::vector<std::string>& command, std::string_view input,
                                 Duration limit, int cancel_fd) {
  const TimePoint deadline = std::chrono::steady_clock::now() + limit;
  HVDRAY_ASSIGN_OR_RETURN(Pipe in, MakePipe());
  HVDRAY_ASSIGN_OR_RETURN(Pipe out, MakePipe());
  HVDRAY_ASSIGN_OR_RETURN(Pipe err, MakePipe());
  for (const int fd : {in.write_end.get(), out.read_end.get(), err.read_end.get()}) {
    HVDRAY_RETURN_IF_ERROR(SetNonBlocking(fd));
  }
  HVDRAY_ASSIGN_OR_RETURN(Helper helper, SpawnHelper(command, in.read_end.get(),
                                                     out.write_end.get(), err.write_end.get()));
  in.read_end.Reset();
  out.write_end.Reset();
  err.write_end.Reset();
  return Conversation(std::move(helper), std::move(in.write_end), std::move(out.read_end),
                      std::move(err.read_end), input)
      .ToItsEnd(deadline, cancel_fd);
}

Result<CapturedRun> RunOverSshForOutput(const OpensshOptions& options, const std::string& host,
                                        const std::string& command, std::string_view input,
                                        Duration limit) {
  Result<CapturedRun> run = RunForOutput(OpensshArgv(options, host, command), input, limit);
  if (!run.ok() && run.status().code() == ErrorCode::kDeadlineExceeded) {
    return std::move(run).status().WithHint(HintForSilence(host));
  }
  if (run.ok() && run->exit_code == kSshFailed) return WhySshFailed(options, run->error_lines);
  return run;
}

}  // namespace hvdray
