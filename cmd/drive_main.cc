#include "cmd/drive_main.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <csignal>
#include <string>
#include <utility>

#include "base/fd.h"
#include "base/log.h"
#include "base/standard_streams.h"
#include "cmd/drive_job.h"
#include "cmd/drive_log.h"
#include "launcher/agent/agent_run.h"

namespace hvdray {
namespace {

constexpr int kUsage = 2;
constexpr int kFailed = 125;
constexpr uint64_t kOpenFiles = 65536;

int Fail(const Status& status, int exit_code) {
  DriveLog(STDERR_FILENO).Note(fmt::format("drive: {}", status.ToString()));
  return exit_code;
}

Result<std::string> ReadFile(const std::string& path) {
  const UniqueFd file(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
  if (!file.is_valid()) return ErrnoStatus("open", errno);
  std::string text;
  std::string piece(size_t{64} << 10, '\0');
  for (;;) {
    const ssize_t n = ::read(file.get(), piece.data(), piece.size());
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) return ErrnoStatus("read", errno);
    if (n == 0) return text;
    text.append(piece, 0, static_cast<size_t>(n));
    if (text.size() > kMaxRayJobFileBytes) {
      return Status(ErrorCode::kFileUnreadable, "it is larger than any that a client writes");
    }
  }
}

Result<RayJobFile> LoadJob(const std::string& folder) {
  const std::string path = fmt::format("{}/{}", folder, kRayJobFileName);
  Result<std::string> text = ReadFile(path);
  if (!text.ok()) {
    return std::move(text).status().WithCode(ErrorCode::kFileUnreadable).WithContext(path);
  }
  Result<RayJobFile> job = ParseRayJobFile(*text);
  if (!job.ok()) {
    return std::move(job).status().WithContext(fmt::format("'{}' reads {}", kAgentBuild, path));
  }
  return job;
}

/// Moves the pipe away from 0 and 1: nothing that prints by mistake may end up in it.
Result<std::pair<UniqueFd, UniqueFd>> TakePipe() {
  UniqueFd in(::fcntl(STDIN_FILENO, F_DUPFD_CLOEXEC, STDERR_FILENO + 1));
  UniqueFd out(::fcntl(STDOUT_FILENO, F_DUPFD_CLOEXEC, STDERR_FILENO + 1));
  const UniqueFd null(::open("/dev/null", O_RDONLY | O_CLOEXEC));
  if (!in.is_valid() || !out.is_valid() || !null.is_valid()) return ErrnoStatus("dup", errno);
  ::dup2(null.get(), STDIN_FILENO);
  ::dup2(STDERR_FILENO, STDOUT_FILENO);
  return std::pair{std::move(in), std::move(out)};
}

// Ray sends these to every process of the job, and ray_driver.py tells us of them: one stop must
// not count as two, of which the second means "at once".
void LeaveSignalsToPython() {
  for (const int signo : {SIGTERM, SIGINT, SIGHUP, SIGQUIT, SIGPIPE, SIGTSTP, SIGTTOU, SIGTTIN}) {
    ::signal(signo, SIG_IGN);
  }
}

}  // namespace

int DriveMain(std::span<const std::string_view> words) {
  const TimePoint began = std::chrono::steady_clock::now();
  FillStandardStreams();
  if (words.size() != 1 || words.front().starts_with("-")) {
    return Fail({ErrorCode::kUsage, "wants the folder of one job; ray_driver.py starts it"},
                kUsage);
  }
  LeaveSignalsToPython();
  if (!IsPollable(STDIN_FILENO) || !IsPollable(STDOUT_FILENO)) {
    return Fail({ErrorCode::kUsage, "stdin and stdout have to be pipes of ray_driver.py"}, kUsage);
  }
  DriveJobOptions options;
  options.began = began;
  Result<RayJobFile> job = LoadJob(std::string(words.front()));
  if (!job.ok()) return Fail(job.status(), kFailed);
  options.job = std::move(job).value();
  SetLogLevel(*options.job.spec.is_verbose ? LogLevel::kInfo : LogLevel::kWarning);
  SetLogFormat(*options.job.spec.is_log_json ? LogFormat::kJson : LogFormat::kText);

  auto pipe = TakePipe();
  if (!pipe.ok()) return Fail(pipe.status(), kFailed);
  Result<std::unique_ptr<Loop>> loop = Loop::Create();
  if (!loop.ok()) return Fail(loop.status(), kFailed);
  (void)RaiseOpenFileLimit(kOpenFiles).ok();
  options.python = MakeFdStream(**loop, std::move(pipe->first), std::move(pipe->second));
  return DriveJob(**loop, std::move(options)).Run();
}

}  // namespace hvdray
