// SPDX-License-Identifier: Apache-2.0
#include "agent/inspector.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <poll.h>
#include <spawn.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <chrono>
#include <csignal>
#include <utility>

#include "base/exec.h"
#include "base/fd.h"
#include "base/log.h"
#include "base/signals.h"
#include "base/standard_streams.h"
#include "wire/message_codec.h"

namespace hvdray {
namespace {

constexpr int kFindingsFd = 3;

uint64_t WallNs() {
  const auto now = std::chrono::system_clock::now().time_since_epoch();
  return static_cast<uint64_t>(std::chrono::duration_cast<std::chrono::nanoseconds>(now).count());
}

// A child that hangs in the kernel can't be killed. It must hold no descriptor that others wait
// for, such as the link or the stderr of a remote shell.
void LetGoOfAll(int report_fd) {
  if (report_fd != kFindingsFd) ::dup3(report_fd, kFindingsFd, O_CLOEXEC);
  const int null = ::open("/dev/null", O_RDWR | O_CLOEXEC);
  for (int fd = STDIN_FILENO; fd <= STDERR_FILENO; ++fd) ::dup2(null, fd);
  CloseFrom(kFindingsFd + 1);
}

[[noreturn]] void RunChild(const wire::Inspect& inspect, const Inspector::GatherFn& gather,
                           int report_fd, pid_t parent) {
  ::setpgid(0, 0);
  ::prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (::getppid() != parent) ::_exit(0);
  ResetSignals();
  LetGoOfAll(report_fd);
  gather(inspect, [](const wire::Inspection& inspection) {
    if (!WriteAll(kFindingsFd, wire::ToJson(inspection) + "\n").ok()) ::_exit(0);
  });
  ::_exit(0);
}

pid_t ForkChild(const wire::Inspect& inspect, const Inspector::GatherFn& gather, int report_fd) {
  const HeldSignals held(AllSignals());
  const pid_t parent = ::getpid();
  const pid_t pid = ::fork();
  if (pid == 0) RunChild(inspect, gather, report_fd, parent);
  return pid;
}

/// The last complete report in `lines`. Without one, all steps are unanswered.
wire::Inspection LastReport(std::string_view lines) {
  const size_t end = lines.rfind('\n');
  if (end == std::string_view::npos) return {.unanswered = {"all"}};
  lines = lines.substr(0, end);
  const size_t begin = lines.rfind('\n');
  if (begin != std::string_view::npos) lines.remove_prefix(begin + 1);
  Result<wire::Inspection> report = wire::InspectionFromJson(lines);
  if (!report.ok()) return {.unanswered = {"all"}};
  return std::move(report).value();
}

constexpr size_t kMaxText = size_t{64} << 10;

Result<pid_t> Start(const std::vector<std::string>& argv, const AskedPlace& place, int output_fd) {
  const std::vector<char*> words = ExecArray(argv);
  const std::vector<char*> variables = ExecArray(place.environment);
  posix_spawn_file_actions_t actions;
  ::posix_spawn_file_actions_init(&actions);
  ::posix_spawn_file_actions_addopen(&actions, STDIN_FILENO, "/dev/null", O_RDONLY, 0);
  ::posix_spawn_file_actions_adddup2(&actions, output_fd, STDOUT_FILENO);
  ::posix_spawn_file_actions_adddup2(&actions, output_fd, STDERR_FILENO);
  if (!place.directory.empty()) {
    ::posix_spawn_file_actions_addchdir_np(&actions, place.directory.c_str());
  }
  pid_t pid = -1;
  const int error = ::posix_spawn(&pid, argv[0].c_str(), &actions, nullptr, words.data(),
                                  place.environment.empty() ? environ : variables.data());
  ::posix_spawn_file_actions_destroy(&actions);
  if (error != 0) return ErrnoStatus(argv[0], error);
  return pid;
}

/// False: the deadline passed before the end of file.
bool ReadToEnd(int fd, TimePoint deadline, std::string& text) {
  std::array<char, 4096> buffer;
  for (;;) {
    const auto left = std::chrono::ceil<std::chrono::milliseconds>(
        deadline - TimePoint(std::chrono::steady_clock::now()));
    if (left.count() <= 0) return false;
    pollfd wait{fd, POLLIN, 0};
    if (::poll(&wait, 1, static_cast<int>(left.count())) <= 0) continue;
    const ssize_t n = ::read(fd, buffer.data(), buffer.size());
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) return true;
    text.append(buffer.data(), std::min(static_cast<size_t>(n), kMaxText - text.size()));
  }
}

}  // namespace

Inspector::Inspector(Loop& loop, const wire::Inspect& inspect, DoneFn on_done,
                     const GatherFn& gather)
    : on_done_(std::move(on_done)), received_ns_(WallNs()) {
  Result<Pipe> pipe = MakePipe();
  if (pipe.ok()) child_ = ForkChild(inspect, gather, pipe->write_end.get());
  if (child_ <= 0 || !SetNonBlocking(pipe->read_end.get()).ok()) {
    Log(LogLevel::kWarning, "agent", "cannot start a process to inspect this host: {}",
        ErrnoStatus("fork", errno).message());
    timer_ = loop.After(Duration::zero(), [this] { Finish(); });
    return;
  }
  ::setpgid(child_, child_);
  pipe_ = std::move(pipe->read_end);
  watch_ = loop.OnFd(pipe_.get(), FdEvent::kRead, [this] { OnReadable(); });
  timer_ = loop.After(std::chrono::milliseconds(inspect.timeout_ms), [this] { Finish(); });
}

Inspector::~Inspector() { EndChild(); }

void Inspector::OnReadable() {
  std::array<char, 16384> buffer;
  const ssize_t n = ::read(pipe_.get(), buffer.data(), buffer.size());
  if (n < 0 && (errno == EAGAIN || errno == EINTR)) return;
  if (n <= 0) return Finish();
  // Only the text after the last but one line end is still needed.
  received_.append(buffer.data(), static_cast<size_t>(n));
  const size_t last = received_.rfind('\n');
  const size_t before =
      last == std::string::npos || last == 0 ? last : received_.rfind('\n', last - 1);
  if (before != std::string::npos && before < last) received_.erase(0, before + 1);
}

void Inspector::EndChild() {
  if (child_ <= 1) return;
  // Its group contains the programs that it runs. The keeper reaps what can't die now.
  ::kill(-child_, SIGKILL);
  ::kill(child_, SIGKILL);
  if (::waitpid(child_, nullptr, WNOHANG) == child_) child_ = -1;
}

void Inspector::Finish() {
  watch_.Cancel();
  timer_.Cancel();
  pipe_.Reset();
  EndChild();
  wire::Inspection inspection = LastReport(received_);
  inspection.received_ns = received_ns_;
  inspection.sent_ns = WallNs();
  std::exchange(on_done_, nullptr)(std::move(inspection));
}

Result<ProgramAnswer> AskProgram(const std::vector<std::string>& argv, Duration limit,
                                 const AskedPlace& place) {
  HVDRAY_ASSIGN_OR_RETURN(Pipe pipe, MakePipe());
  HVDRAY_ASSIGN_OR_RETURN(const pid_t pid, Start(argv, place, pipe.write_end.get()));
  pipe.write_end.Reset();
  ProgramAnswer answer;
  const TimePoint deadline = TimePoint(std::chrono::steady_clock::now()) + limit;
  if (!ReadToEnd(pipe.read_end.get(), deadline, answer.text)) {
    // A program that hangs in a driver can't die: waiting could block forever.
    ::kill(pid, SIGKILL);
    ::waitpid(pid, nullptr, WNOHANG);
    return Status(ErrorCode::kDeadlineExceeded, fmt::format("{} did not end in time", argv[0]));
  }
  answer.exit_code = ShellCode(ReapChild(pid));
  return answer;
}

}  // namespace hvdray
