#include "agent/inspector.h"

#include <fcntl.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <chrono>
#include <csignal>
#include <utility>

#include "agent/spawn.h"
#include "base/json.h"
#include "base/log.h"
#include "base/standard_streams.h"
#include "wire/message_fields.h"

namespace hvdray {
namespace {

constexpr int kFindingsFd = 3;

uint64_t WallNs() {
  const auto now = std::chrono::system_clock::now().time_since_epoch();
  return static_cast<uint64_t>(std::chrono::duration_cast<std::chrono::nanoseconds>(now).count());
}

// A child that hangs in the kernel can't be killed: it must hold nothing that others wait for, such
// as the link or the stderr of a remote shell.
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
    if (!WriteAll(kFindingsFd, wire::FieldsToJson(inspection) + "\n").ok()) ::_exit(0);
  });
  ::_exit(0);
}

pid_t ForkChild(const wire::Inspect& inspect, const Inspector::GatherFn& gather, int report_fd) {
  // No signal handler may run in the child: libevent's would write into our loop.
  sigset_t all;
  sigset_t before;
  ::sigfillset(&all);
  ::sigprocmask(SIG_SETMASK, &all, &before);
  const pid_t parent = ::getpid();
  const pid_t pid = ::fork();
  if (pid == 0) RunChild(inspect, gather, report_fd, parent);
  ::sigprocmask(SIG_SETMASK, &before, nullptr);
  return pid;
}

/// Empty when there is none: `lines` ends in the middle of the first.
wire::Inspection LastReport(std::string_view lines) {
  const size_t end = lines.rfind('\n');
  if (end == std::string_view::npos) return {.unanswered = {"all"}};
  lines = lines.substr(0, end);
  const size_t begin = lines.rfind('\n');
  if (begin != std::string_view::npos) lines.remove_prefix(begin + 1);
  wire::RawSizes sizes;
  const Result<Json> json = ParseJson(lines);
  if (!json.ok()) return {.unanswered = {"all"}};
  Result<wire::Body> body = wire::FieldsFromJson(wire::MessageType::kInspection, *json, sizes);
  if (!body.ok()) return {.unanswered = {"all"}};
  return std::get<wire::Inspection>(std::move(body).value());
}

}  // namespace

Inspector::Inspector(Loop& loop, const wire::Inspect& inspect, DoneFn on_done,
                     const GatherFn& gather)
    : on_done_(std::move(on_done)), received_ns_(WallNs()) {
  Result<Pipe> pipe = MakePipe();
  if (pipe.ok()) child_ = ForkChild(inspect, gather, pipe->write_end.get());
  if (child_ <= 0 || !SetNonBlocking(pipe->read_end.get()).ok()) {
    Log(LogLevel::kWarning, "agent", "no process to look at this host with: {}",
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
  // Nothing in front of the last two line ends is wanted any more.
  received_.append(buffer.data(), static_cast<size_t>(n));
  const size_t last = received_.rfind('\n');
  const size_t before =
      last == std::string::npos || last == 0 ? last : received_.rfind('\n', last - 1);
  if (before != std::string::npos && before < last) received_.erase(0, before + 1);
}

void Inspector::EndChild() {
  if (child_ <= 1) return;
  // Its group holds the programs that it asks. What can't die now is reaped by the keeper one day.
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
  // The callee may destroy us, so the function it runs in must not be ours.
  const DoneFn done = std::exchange(on_done_, nullptr);
  done(std::move(inspection));
}

}  // namespace hvdray
