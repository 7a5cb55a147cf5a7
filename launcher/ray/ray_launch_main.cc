// SPDX-License-Identifier: Apache-2.0
#include "launcher/ray/ray_launch_main.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <csignal>
#include <string>
#include <utility>

#include "base/fd.h"
#include "base/log.h"
#include "base/standard_streams.h"
#include "launcher/ray/ray_launch.h"
#include "launcher/ray/ray_launch_log.h"

namespace hvdray {
namespace {

constexpr int kUsage = 2;
constexpr uint64_t kOpenFiles = 65536;

int Fail(const Status& status, int exit_code) {
  RayLaunchLog(STDERR_FILENO).Note(fmt::format("launch: {}", status.ToString()));
  return exit_code;
}

/// Moves the pipe away from 0 and 1, so that accidental prints can't reach it.
Result<std::pair<UniqueFd, UniqueFd>> TakePipe() {
  UniqueFd in(::fcntl(STDIN_FILENO, F_DUPFD_CLOEXEC, STDERR_FILENO + 1));
  UniqueFd out(::fcntl(STDOUT_FILENO, F_DUPFD_CLOEXEC, STDERR_FILENO + 1));
  const UniqueFd null(::open("/dev/null", O_RDONLY | O_CLOEXEC));
  if (!in.is_valid() || !out.is_valid() || !null.is_valid()) return ErrnoStatus("dup", errno);
  ::dup2(null.get(), STDIN_FILENO);
  ::dup2(STDERR_FILENO, STDOUT_FILENO);
  return std::pair{std::move(in), std::move(out)};
}

// Ray sends SIGTERM and SIGINT to every process of the job, and ray_driver.py reports them to us.
// One stop must not count as two, since a second one forces the stop.
void IgnoreSignals() {
  for (const int signo : {SIGHUP, SIGQUIT, SIGPIPE, SIGTSTP, SIGTTOU, SIGTTIN, SIGTERM, SIGINT}) {
    ::signal(signo, SIG_IGN);
  }
}

void UseLogOf(const JobSpec& spec) {
  SetLogLevel(*spec.is_verbose ? LogLevel::kInfo : LogLevel::kWarning);
  SetLogFormat(*spec.is_log_json ? LogFormat::kJson : LogFormat::kText);
}

int Drive(const std::string& directory, TimePoint began) {
  IgnoreSignals();
  if (!IsPollable(STDIN_FILENO) || !IsPollable(STDOUT_FILENO)) {
    return Fail({ErrorCode::kUsage, "stdin and stdout have to be pipes of ray_driver.py"}, kUsage);
  }
  RayLaunchOptions options;
  options.began = began;
  Result<RayJobFile> job = LoadJob(directory);
  if (!job.ok()) return Fail(job.status(), kLaunchFailed);
  options.job = std::move(job).value();
  UseLogOf(options.job.spec);

  auto pipe = TakePipe();
  if (!pipe.ok()) return Fail(pipe.status(), kLaunchFailed);
  Result<std::unique_ptr<Loop>> loop = Loop::Create();
  if (!loop.ok()) return Fail(loop.status(), kLaunchFailed);
  (void)RaiseOpenFileLimit(kOpenFiles).ok();
  options.python = MakeFdStream(**loop, std::move(pipe->first), std::move(pipe->second));
  return RayLaunch(**loop, std::move(options)).Run();
}

}  // namespace

int RayLaunchMain(std::span<const std::string_view> words) {
  const TimePoint began = std::chrono::steady_clock::now();
  if (words.size() == 1 && !words[0].starts_with("-")) return Drive(std::string(words[0]), began);
  return Fail({ErrorCode::kUsage, "wants the directory of one job; ray_driver.py starts it"},
              kUsage);
}

}  // namespace hvdray
