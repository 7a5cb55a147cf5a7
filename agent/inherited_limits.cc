// SPDX-License-Identifier: Apache-2.0
#include "agent/inherited_limits.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/resource.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <cstdlib>
#include <cstring>

#include "base/fd.h"

namespace hvdray {
namespace {

constexpr char kOomFile[] = "/proc/self/oom_score_adj";

void UnblockSignals() {
  sigset_t none;
  ::sigemptyset(&none);
  ::sigprocmask(SIG_SETMASK, &none, nullptr);
}

void RaiseOpenFiles() {
  rlimit limit{};
  if (::getrlimit(RLIMIT_NOFILE, &limit) != 0 || limit.rlim_cur == limit.rlim_max) return;
  limit.rlim_cur = limit.rlim_max;
  ::setrlimit(RLIMIT_NOFILE, &limit);
}

}  // namespace

std::vector<std::string> RepairInheritedLimits() {
  std::vector<std::string> complaints;
  UnblockSignals();
  RaiseOpenFiles();
  errno = 0;
  const int nice = ::getpriority(PRIO_PROCESS, 0);
  if (errno == 0 && nice > 0 && ::setpriority(PRIO_PROCESS, 0, 0) != 0) {
    complaints.push_back(fmt::format("workers run at niceness {}: {}", nice, ::strerror(errno)));
  }
  const Result<std::string> score = ReadFile(kOomFile, 64);
  if (score.ok() && ::atoi(score->c_str()) > 0) {
    const UniqueFd file(::open(kOomFile, O_WRONLY | O_CLOEXEC));
    if (!file.is_valid() || ::write(file.get(), "0", 1) != 1) {
      complaints.push_back(
          fmt::format("workers are killed first when memory runs out "
                      "(oom_score_adj {}): {}",
                      ::atoi(score->c_str()), ::strerror(errno)));
    }
  }
  return complaints;
}

}  // namespace hvdray
