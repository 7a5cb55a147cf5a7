#include "cluster/script_run.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <poll.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstring>
#include <utility>

#include "base/shown_text.h"

namespace hvdray {
namespace {

constexpr size_t kMaxErrorLine = 4096;
// Reads of one turn, so that a script that floods its stderr does not keep the loop.
constexpr int kReadsAtOnce = 16;
// A process that got SIGKILL is gone in a moment, unless the kernel holds it.
constexpr int kReapWaitMs = 100;

}  // namespace

Result<std::unique_ptr<ScriptRun>> ScriptRun::Start(Loop& loop, ScriptRunOptions options,
                                                    DoneFn on_done) {
  std::unique_ptr<ScriptRun> run(new ScriptRun(std::move(options), std::move(on_done)));
  UniqueFd input(::open("/dev/null", O_RDONLY | O_CLOEXEC));
  if (!input.is_valid()) return ErrnoStatus("open /dev/null", errno);
  HVDRAY_ASSIGN_OR_RETURN(Pipe output, MakePipe());
  HVDRAY_RETURN_IF_ERROR(SetNonBlocking(output.read_end.get()));
  Pipe errors;
  if (run->options_.on_stderr) {
    HVDRAY_ASSIGN_OR_RETURN(errors, MakePipe());
    HVDRAY_RETURN_IF_ERROR(SetNonBlocking(errors.read_end.get()));
  }
  HVDRAY_ASSIGN_OR_RETURN(
      run->helper_, SpawnHelper({"/bin/sh", "-c", run->options_.command},
                                {input.get(), output.write_end.get(), errors.write_end.get()}));
  run->output_fd_ = std::move(output.read_end);
  run->error_fd_ = std::move(errors.read_end);
  ScriptRun* raw = run.get();
  raw->output_watch_ = loop.OnFd(raw->output_fd_.get(), FdEvent::kRead, [raw] {
    if (raw->ReadOutput() == PipeState::kEnded) raw->output_watch_.Cancel();
  });
  if (raw->error_fd_.is_valid()) {
    raw->error_watch_ = loop.OnFd(raw->error_fd_.get(), FdEvent::kRead, [raw] {
      if (raw->ReadErrors() == PipeState::kEnded) raw->error_watch_.Cancel();
    });
  }
  raw->exit_watch_ = loop.OnFd(raw->helper_.pidfd.get(), FdEvent::kRead, [raw] { raw->OnExit(); });
  raw->limit_watch_ = loop.After(raw->options_.limit, [raw] {
    raw->GiveUp(Status(
        ErrorCode::kDeadlineExceeded,
        fmt::format("did not end within {} s and was killed", Seconds(raw->options_.limit).count()),
        "find out what it waits for, or raise --discovery-timeout"));
  });
  return run;
}

ScriptRun::ScriptRun(ScriptRunOptions options, DoneFn on_done)
    : options_(std::move(options)), on_done_(std::move(on_done)) {}

ScriptRun::~ScriptRun() {
  if (helper_.pid <= 1) return;
  KillGroup();
  pollfd ended{helper_.pidfd.get(), POLLIN, 0};
  ::poll(&ended, 1, kReapWaitMs);
  ::waitpid(helper_.pid, nullptr, WNOHANG);
}

ScriptRun::PipeState ScriptRun::ReadOutput() {
  std::array<char, 65536> buffer;
  for (int i = 0; i < kReadsAtOnce; ++i) {
    const ssize_t got = ::read(output_fd_.get(), buffer.data(), buffer.size());
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) return PipeState::kEmpty;
    if (got == 0) return PipeState::kEnded;
    if (!why_.ok()) continue;
    output_.append(buffer.data(), static_cast<size_t>(got));
    if (output_.size() > options_.max_output_bytes) {
      GiveUp(Status(ErrorCode::kSpecInvalid,
                    fmt::format("printed more than {} bytes", options_.max_output_bytes)));
    }
  }
  return PipeState::kOpen;
}

ScriptRun::PipeState ScriptRun::ReadErrors() {
  std::array<char, 4096> buffer;
  for (int i = 0; i < kReadsAtOnce; ++i) {
    const ssize_t got = ::read(error_fd_.get(), buffer.data(), buffer.size());
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) return PipeState::kEmpty;
    if (got == 0) return PipeState::kEnded;
    for (ssize_t at = 0; at < got; ++at) {
      const char c = buffer[static_cast<size_t>(at)];
      if (c == '\n' || error_line_.size() == kMaxErrorLine) FlushErrorLine();
      if (c != '\n' && c != '\r') error_line_ += c;
    }
  }
  return PipeState::kOpen;
}

void ScriptRun::FlushErrorLine() {
  std::string line = std::exchange(error_line_, {});
  if (line.find_first_not_of(" \t") != std::string::npos) last_error_line_ = line;
  options_.on_stderr(std::move(line));
}

void ScriptRun::GiveUp(Status why) {
  if (!why_.ok()) return;
  why_ = std::move(why);
  limit_watch_.Cancel();
  KillGroup();
}

void ScriptRun::KillGroup() const {
  if (helper_.pid > 1) ::kill(-helper_.pid, SIGKILL);
}

void ScriptRun::OnExit() {
  int wait_status = 0;
  if (::waitpid(helper_.pid, &wait_status, WNOHANG) != helper_.pid) return;
  helper_.pid = -1;
  exit_watch_.Cancel();
  output_watch_.Cancel();
  error_watch_.Cancel();
  limit_watch_.Cancel();
  // What is in the pipes is all that it said; a grandchild may hold them open for ever.
  int turns = 0;
  while (ReadOutput() == PipeState::kOpen && why_.ok() && ++turns < kReadsAtOnce) {
  }
  if (error_fd_.is_valid()) {
    (void)ReadErrors();
    if (!error_line_.empty()) FlushErrorLine();
  }
  Status status = why_.ok() ? Explain(wait_status) : std::move(why_);
  const auto done = std::exchange(on_done_, nullptr);
  if (status.ok()) return done(std::move(output_));
  done(std::move(status));
}

Status ScriptRun::Explain(int wait_status) const {
  if (WIFEXITED(wait_status) && WEXITSTATUS(wait_status) == 0) return {};
  std::string how = WIFEXITED(wait_status)
                        ? fmt::format("exited with code {}", WEXITSTATUS(wait_status))
                        : fmt::format("was killed by SIG{}", ::sigabbrev_np(WTERMSIG(wait_status)));
  if (!last_error_line_.empty()) how += fmt::format(": {}", ShownText(last_error_line_));
  return {ErrorCode::kSpecInvalid, std::move(how)};
}

}  // namespace hvdray
