// SPDX-License-Identifier: Apache-2.0
#include "cluster/transport/child_process.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <iterator>
#include <memory>
#include <optional>
#include <utility>

#include "base/exec.h"
#include "base/fd.h"
#include "base/signals.h"
#include "base/standard_streams.h"

namespace hvdray {
namespace {

// A grandchild may keep stderr open for ever; such late lines no longer explain the child's end.
constexpr Duration kStderrWait = std::chrono::milliseconds(200);
constexpr size_t kMaxLine = 4096;
// ssh needs milliseconds to end.
constexpr Duration kTermWait = std::chrono::milliseconds(500);

// Reads a pipe line by line until it ends.
class LineReader {
 public:
  LineReader(Loop& loop, UniqueFd fd, std::function<void(std::string)> on_line)
      : fd_(std::move(fd)), on_line_(std::move(on_line)) {
    watch_ = loop.OnFd(fd_.get(), FdEvent::kRead, [this] { Read(); });
  }
  bool has_ended() const { return has_ended_; }
  std::function<void()> on_end;

 private:
  void Read() {
    std::array<char, 4096> buffer;
    const ssize_t got = ::read(fd_.get(), buffer.data(), buffer.size());
    if (got < 0 && (errno == EAGAIN || errno == EINTR)) return;
    for (ssize_t i = 0; i < got; ++i) {
      const char c = buffer[static_cast<size_t>(i)];
      if (c == '\n' || line_.size() == kMaxLine) Flush();
      if (c != '\n' && c != '\r') line_ += c;
    }
    if (got > 0) return;
    if (!line_.empty()) Flush();
    watch_.Cancel();
    has_ended_ = true;
    if (const auto done = std::exchange(on_end, nullptr)) done();
  }
  void Flush() { on_line_(std::exchange(line_, {})); }

  UniqueFd fd_;
  std::function<void(std::string)> on_line_;
  std::string line_;
  Watch watch_;
  bool has_ended_ = false;
};

class ChildProcess : public AgentProcess {
 public:
  ChildProcess(Loop& loop, pid_t pid, UniqueFd pidfd, std::string name,
               std::unique_ptr<LineReader> errors, std::shared_ptr<ChildEnder> ender)
      : loop_(loop),
        pid_(pid),
        pidfd_(std::move(pidfd)),
        name_(std::move(name)),
        errors_(std::move(errors)),
        ender_(std::move(ender)) {
    watch_ = loop_.OnFd(pidfd_.get(), FdEvent::kRead, [this] { Reap(); });
  }

  ~ChildProcess() override {
    watch_.Cancel();
    if (how_) return;
    if (ender_ != nullptr) {
      ender_->End(pid_, std::move(pidfd_));
      return;
    }
    // A child that still runs now becomes a zombie only until hvdray exits; then init reaps it.
    ::waitpid(pid_, nullptr, WNOHANG);
  }

  void OnExit(std::function<void(Status)> callback) override {
    callback_ = std::move(callback);
    if (is_told_) tell_timer_ = loop_.After(Duration::zero(), [this] { Tell(); });
  }

  int pid() const override { return pid_; }

 private:
  void Reap() {
    int status = 0;
    if (::waitpid(pid_, &status, WNOHANG) != pid_) return;
    watch_.Cancel();
    pidfd_.Reset();
    how_ = Explain(status);
    if (errors_ == nullptr || errors_->has_ended()) return Tell();
    errors_->on_end = [this] { Tell(); };
    tell_timer_ = loop_.After(kStderrWait, [this] { Tell(); });
  }

  void Tell() {
    tell_timer_.Cancel();
    is_told_ = true;
    if (errors_ != nullptr) errors_->on_end = nullptr;
    if (const auto callback = std::exchange(callback_, nullptr)) callback(*how_);
  }

  Status Explain(int status) const {
    if (WIFEXITED(status) && WEXITSTATUS(status) == 0) return {};
    if (WIFEXITED(status)) {
      return {ErrorCode::kAgentLost,
              fmt::format("{} exited with code {}", name_, WEXITSTATUS(status))};
    }
    return {ErrorCode::kAgentLost,
            fmt::format("{} was killed by SIG{}", name_, ::sigabbrev_np(WTERMSIG(status)))};
  }

  Loop& loop_;
  pid_t pid_;
  UniqueFd pidfd_;
  std::string name_;
  std::unique_ptr<LineReader> errors_;
  const std::shared_ptr<ChildEnder> ender_;  // null: the child ends by itself
  Watch watch_;
  Watch tell_timer_;
  std::optional<Status> how_;
  bool is_told_ = false;
  std::function<void(Status)> callback_;
};

Result<AgentStart> Start(Loop& loop, std::string name, const std::vector<std::string>& command,
                         std::function<void(std::string line)> on_stderr,
                         std::shared_ptr<ChildEnder> ender) {
  HVDRAY_ASSIGN_OR_RETURN(auto sockets, MakeSocketPair());
  Pipe errors;
  if (on_stderr) {
    HVDRAY_ASSIGN_OR_RETURN(errors, MakePipe());
    HVDRAY_RETURN_IF_ERROR(SetNonBlocking(errors.read_end.get()));
  }
  UniqueFd write_fd(::fcntl(sockets.first.get(), F_DUPFD_CLOEXEC, 3));
  if (!write_fd.is_valid()) return ErrnoStatus("dup", errno);
  const int socket = sockets.second.get();
  const ChildEnd end = ender != nullptr ? ChildEnd::kDropped : ChildEnd::kItself;
  HVDRAY_ASSIGN_OR_RETURN(Helper helper,
                          SpawnHelper(command, socket, socket, errors.write_end.get(), end));
  std::unique_ptr<LineReader> reader;
  if (on_stderr) {
    reader = std::make_unique<LineReader>(loop, std::move(errors.read_end), std::move(on_stderr));
  }
  AgentStart start;
  start.stream = MakeFdStream(loop, std::move(sockets.first), std::move(write_fd));
  start.process =
      std::make_unique<ChildProcess>(loop, helper.pid, std::move(helper.pidfd), std::move(name),
                                     std::move(reader), std::move(ender));
  return start;
}

// All that the child of fork uses: it must not allocate.
struct ForkPlan {
  char* const* argv;
  int in, out, err;  // err -1: ours
  int report;
  pid_t parent;
};

constexpr int kReportFd = 3;  // in the child

/// In the child of fork. Never returns.
[[noreturn]] void BecomeTied(const ForkPlan& plan) {
  ::prctl(PR_SET_PDEATHSIG, SIGTERM);
  ::setsid();
  // All signals are held still: this drops what our parent's group has got until now.
  for (const int signo : {SIGINT, SIGTERM, SIGHUP, SIGQUIT}) {
    ::signal(signo, SIG_IGN);
    ::signal(signo, SIG_DFL);
  }
  if (::getppid() != plan.parent) ::_exit(127);  // too late for that signal
  ::dup2(plan.in, STDIN_FILENO);
  ::dup2(plan.out, STDOUT_FILENO);
  if (plan.err >= 0) ::dup2(plan.err, STDERR_FILENO);
  if (plan.report != kReportFd) ::dup3(plan.report, kReportFd, O_CLOEXEC);
  CloseFrom(kReportFd + 1);
  ResetSignals();
  ExecOrReport(plan.argv, kReportFd);
}

/// As posix_spawn(), which has no word for the signal that comes with our end. Returns an errno.
int ForkTied(pid_t& pid, ForkPlan plan) {
  Result<Pipe> report = MakePipe();
  if (!report.ok()) return EMFILE;
  plan.report = report->write_end.get();
  plan.parent = ::getpid();
  {
    const HeldSignals held(AllSignals());
    pid = ::fork();
    if (pid == 0) BecomeTied(plan);
    if (pid < 0) return errno;
  }
  return AwaitExec(pid, std::move(report).value());
}

}  // namespace

ChildEnder::ChildEnder(Loop& loop) : loop_(loop) {}

ChildEnder::~ChildEnder() { Close(); }

void ChildEnder::End(pid_t pid, UniqueFd pidfd) {
  ::kill(-pid, SIGTERM);
  Child& child = children_[pid];
  child.pidfd = std::move(pidfd);
  child.deadline = std::chrono::steady_clock::now() + kTermWait;
  if (is_closed_) return Close();
  child.ended = loop_.OnFd(child.pidfd.get(), FdEvent::kRead, [this, pid] {
    Reap(pid, children_.at(pid));
    children_.erase(pid);
  });
  child.late = loop_.After(kTermWait, [pid] { ::kill(-pid, SIGKILL); });
}

void ChildEnder::Close() {
  is_closed_ = true;
  for (auto& [pid, child] : children_) {
    child.ended.Cancel();
    child.late.Cancel();
    Reap(pid, child);
  }
  children_.clear();
}

// What it has left in its group goes with it: until then the number is no other group's.
void ChildEnder::Reap(pid_t pid, const Child& child) {
  AwaitEnd(child.pidfd.get(), child.deadline - std::chrono::steady_clock::now());
  ::kill(-pid, SIGKILL);
  ReapChild(pid);
}

std::vector<std::string> TiedShell(const std::string& command, std::vector<std::string> arguments) {
  // What runs in the background has /dev/null as its stdin, unless it gets another one.
  constexpr const char* kScript =
      R"(trap 'kill -KILL 0' TERM; exec 3<&0; /bin/sh -c "$@" <&3 3<&- & exec 3<&-; wait $!)";
  const char* const name = "hvdray-shell";  // $0 of either
  std::vector<std::string> argv = {"/bin/sh", "-c", kScript, name, command, name};
  std::move(arguments.begin(), arguments.end(), std::back_inserter(argv));
  return argv;
}

void StartChild(Loop& loop, std::string name, const std::vector<std::string>& command,
                std::function<void(std::string line)> on_stderr,
                std::function<void(Result<AgentStart>)> done, std::shared_ptr<ChildEnder> ender) {
  // Post() takes copyable functions only.
  auto start = std::make_shared<Result<AgentStart>>(
      Start(loop, std::move(name), command, std::move(on_stderr), std::move(ender)));
  loop.Post([start, done = std::move(done)] { done(std::move(*start)); });
}

int SpawnTied(const std::vector<std::string>& command, int in, int out, int err, pid_t& pid) {
  return ForkTied(pid, {ExecArray(command).data(), in, out, err, -1, 0});
}

Result<Helper> SpawnHelper(const std::vector<std::string>& command, int in, int out, int err,
                           ChildEnd end) {
  Helper helper;
  const int error = end == ChildEnd::kItself
                        ? SpawnApart(ApartAs::kSession, command, in, out, err, helper.pid)
                        : SpawnTied(command, in, out, err, helper.pid);
  if (error != 0) {
    const std::string& program = command.front();
    Status lacking = ErrnoStatus(program, error);
    if (lacking.code() == ErrorCode::kOutOfResources) return lacking;
    return Status(
        ErrorCode::kAgentStartFailed, fmt::format("{}: {}", program, ::strerror(error)),
        error == ENOENT ? fmt::format("hvdray starts {} for this: install it", program) : "");
  }
  helper.pidfd = OpenPidFd(helper.pid);
  if (helper.pidfd.is_valid()) return helper;
  const Status status = ErrnoStatus("pidfd_open", errno);
  ::kill(-helper.pid, SIGKILL);
  ReapChild(helper.pid);
  return status;
}

}  // namespace hvdray
