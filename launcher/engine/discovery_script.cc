// SPDX-License-Identifier: Apache-2.0
#include "launcher/engine/discovery_script.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <signal.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstring>
#include <utility>

#include "base/log.h"
#include "base/text.h"
#include "launcher/engine/host_source.h"

namespace hvdray {
namespace {

constexpr std::string_view kBlanks = " \t\n";
// A word with any of these may be expanded by the shell, so it can't be checked as a path.
constexpr std::string_view kShellCharacters = "|&;<>()$`\\\"'*?[]#~=%!{}";

class DiscoveryScript final : public HostSource {
 public:
  DiscoveryScript(Loop& loop, DiscoveryScriptOptions options)
      : loop_(loop), options_(std::move(options)) {}

  Status Start(Handlers handlers) override {
    HVDRAY_RETURN_IF_ERROR(CheckDiscoveryCommand(options_.command));
    handlers_ = std::move(handlers);
    RunAfter(Duration::zero());
    return {};
  }

  void Stop() override {
    timer_.Cancel();
    run_.reset();
  }

 private:
  void RunAfter(Duration pause) {
    timer_ = loop_.After(pause, [this] { Run(); });
  }

  void Run() {
    Result<std::unique_ptr<ScriptRun>> run = ScriptRun::Start(
        loop_, options_, [this](Result<std::string> output) { OnDone(std::move(output)); });
    if (!run.ok()) return OnDone(std::move(run).status());
    run_ = std::move(run).value();
  }

  void OnDone(Result<std::string> output) {
    run_.reset();
    RunAfter(options_.interval);
    if (!output.ok()) return Fail(std::move(output).status());
    std::string warning;
    Result<std::vector<HostSlots>> hosts = options_.parse(*output, &warning);
    if (!hosts.ok()) return Fail(std::move(hosts).status());
    if (news_.IsNewWarning(warning)) Log(LogLevel::kWarning, "discovery", "{}", warning);
    if (!news_.IsNews(*hosts)) return;
    const auto on_hosts = handlers_.on_hosts;
    on_hosts(std::move(hosts).value(), /*is_final=*/false);
  }

  void Fail(Status why) {
    if (!news_.IsNews(why)) return;
    const auto on_failure = handlers_.on_failure;
    on_failure(std::move(why).WithContext(
        fmt::format("host discovery script '{}'", ShownText(options_.command))));
  }

  Loop& loop_;
  DiscoveryScriptOptions options_;
  Handlers handlers_;
  HostNews news_;
  std::unique_ptr<ScriptRun> run_;
  Watch timer_;
};

constexpr size_t kMaxErrorLine = 4096;
// Reads per turn, so that a script that floods its stderr doesn't block the loop.
constexpr int kReadsAtOnce = 16;
// A process that got SIGKILL ends at once, unless it is stuck in the kernel.
constexpr Duration kReapLimit = std::chrono::milliseconds(100);

}  // namespace

Status CheckDiscoveryCommand(const std::string& command) {
  const size_t first = command.find_first_not_of(kBlanks);
  if (first == std::string::npos) {
    return {ErrorCode::kUsage, "the host discovery script is empty"};
  }
  const size_t end = command.find_first_of(kBlanks, first);
  const std::string word =
      command.substr(first, end == std::string::npos ? std::string::npos : end - first);
  // Without a slash it may be a shell builtin.
  if (word.find('/') == std::string::npos ||
      word.find_first_of(kShellCharacters) != std::string::npos) {
    return {};
  }
  const std::string what = fmt::format("host discovery script '{}'", ShownText(word));
  struct stat info {};
  if (::stat(word.c_str(), &info) != 0) {
    return {ErrorCode::kFileUnreadable, fmt::format("{}: {}", what, ::strerror(errno))};
  }
  if (S_ISDIR(info.st_mode)) return {ErrorCode::kUsage, what + " is a directory"};
  if (::access(word.c_str(), X_OK) != 0) {
    return {ErrorCode::kUsage, what + " is not executable",
            fmt::format("make it executable, or name its interpreter: 'sh {}'", ShownText(word))};
  }
  return {};
}

std::unique_ptr<HostSource> MakeDiscoveryScript(Loop& loop, DiscoveryScriptOptions options) {
  return std::make_unique<DiscoveryScript>(loop, std::move(options));
}

Result<std::unique_ptr<ScriptRun>> ScriptRun::Start(Loop& loop, DiscoveryScriptOptions options,
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
  HVDRAY_ASSIGN_OR_RETURN(run->helper_, SpawnHelper({"/bin/sh", "-c", run->options_.command},
                                                    input.get(), output.write_end.get(),
                                                    errors.write_end.get(), ChildEnd::kDropped));
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

ScriptRun::ScriptRun(DiscoveryScriptOptions options, DoneFn on_done)
    : options_(std::move(options)), on_done_(std::move(on_done)) {}

ScriptRun::~ScriptRun() {
  if (helper_.pid <= 1) return;
  KillGroup();
  AwaitEnd(helper_.pidfd.get(), kReapLimit);
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
  KillGroup();  // What it left in the background. While it isn't reaped, the group's number is
                // ours.
  int wait_status = 0;
  if (::waitpid(helper_.pid, &wait_status, WNOHANG) != helper_.pid) return;
  helper_.pid = -1;
  exit_watch_.Cancel();
  output_watch_.Cancel();
  error_watch_.Cancel();
  limit_watch_.Cancel();
  // Read only what is in the pipes now: a grandchild may hold them open for ever.
  int turns = 0;
  while (ReadOutput() == PipeState::kOpen && why_.ok() && ++turns < kReadsAtOnce) {
  }
  if (error_fd_.is_valid()) {
    (void)ReadErrors();
    if (!error_line_.empty()) FlushErrorLine();
  }
  const Status status = why_.ok() ? Explain(wait_status) : std::move(why_);
  std::exchange(on_done_, nullptr)(status.ok() ? Result<std::string>(std::move(output_)) : status);
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
