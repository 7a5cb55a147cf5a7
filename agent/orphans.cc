// SPDX-License-Identifier: Apache-2.0
#include "agent/orphans.h"

#include <dirent.h>
#include <fmt/format.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <cstdlib>
#include <string>
#include <utility>

#include "agent/process_tree.h"
#include "base/fd.h"
#include "base/text.h"

namespace hvdray {
namespace {

using std::chrono::milliseconds;

constexpr Duration kFirstPause = milliseconds(1);
constexpr Duration kLongestPause = milliseconds(50);

std::optional<pid_t> ParsePid(std::string_view text) {
  const auto pid = ParseInteger<pid_t>(text);
  return pid && *pid > 0 ? pid : std::nullopt;
}

// The numeric names in a directory of /proc.
std::vector<pid_t> ListNumbers(const char* directory) {
  std::vector<pid_t> numbers;
  DIR* handle = ::opendir(directory);
  if (handle == nullptr) return numbers;
  while (const dirent* entry = ::readdir(handle)) {
    if (const auto number = ParsePid(entry->d_name)) numbers.push_back(*number);
  }
  ::closedir(handle);
  return numbers;
}

std::vector<pid_t> ScanForChildren() {
  std::vector<pid_t> children;
  for (const ProcessKin& process : ScanProcesses()) {
    if (process.parent == ::getpid()) children.push_back(process.pid);
  }
  return children;
}

// True: it was a dead child of ours and is reaped now.
bool ReapIfDead(pid_t pid) {
  siginfo_t info{};
  return ::waitid(P_PID, static_cast<id_t>(pid), &info, WEXITED | WNOHANG) == 0 &&
         info.si_pid == pid;
}

}  // namespace

std::vector<pid_t> ListChildren() {
  std::vector<pid_t> children;
  for (const pid_t thread : ListNumbers("/proc/self/task")) {
    Result<std::string> text = ReadFile(fmt::format("/proc/self/task/{}/children", thread));
    if (!text.ok()) return ScanForChildren();
    std::string_view rest = *text;
    while (!rest.empty()) {
      const size_t space = rest.find(' ');
      if (const auto pid = ParsePid(rest.substr(0, space))) children.push_back(*pid);
      if (space == std::string_view::npos) break;
      rest.remove_prefix(space + 1);
    }
  }
  return children;
}

void ReapOrphans(const IsWorkerFn& is_worker) {
  for (;;) {
    siginfo_t info{};
    if (::waitid(P_ALL, 0, &info, WEXITED | WNOHANG | WNOWAIT) != 0 || info.si_pid == 0) return;
    // WorkerSet reaps a dead worker through its pidfd; orphans after it in the queue wait for that.
    if (is_worker(info.si_pid)) return;
    ReapIfDead(info.si_pid);
  }
}

void KillChildren(Duration limit) {
  const TimePoint deadline = std::chrono::steady_clock::now() + limit;
  do {
    for (const pid_t pid : ListChildren()) ::kill(pid, SIGKILL);
    int status = 0;
    while (::waitpid(-1, &status, WNOHANG) > 0) {
    }
    if (::waitpid(-1, &status, WNOHANG) < 0 && errno == ECHILD) return;
    ::usleep(1000);
  } while (std::chrono::steady_clock::now() < deadline);
}

Sweeper::Sweeper(Loop& loop, Cgroup* cgroup, IsWorkerFn is_worker, IsWorkerFn is_foreign)
    : loop_(loop),
      cgroup_(cgroup),
      is_worker_(std::move(is_worker)),
      is_foreign_(std::move(is_foreign)) {}

void Sweeper::Run(Duration limit, std::function<void(uint32_t, bool)> on_done) {
  on_done_ = std::move(on_done);
  deadline_ = loop_.Now() + limit;
  pause_ = kFirstPause;
  timer_ = loop_.After(Duration::zero(), [this] { Step(); });
}

void Sweeper::Step() {
  const bool is_clean = KillOnce();
  if (!is_clean && loop_.Now() < deadline_) {
    timer_ = loop_.After(pause_, [this] { Step(); });
    pause_ = std::min(pause_ * 2, kLongestPause);
    return;
  }
  timer_.Cancel();
  std::exchange(on_done_, nullptr)(static_cast<uint32_t>(killed_.size()), is_clean);
}

bool Sweeper::KillOnce() {
  bool is_clean = true;
  if (cgroup_ != nullptr) {
    for (const pid_t pid : cgroup_->Members()) {
      if (!is_worker_(pid)) killed_.insert(pid);
    }
    is_clean = cgroup_->KillAndRemove();
  }
  for (const pid_t pid : ListChildren()) {
    if (pid <= 1 || is_worker_(pid) || (is_foreign_ && is_foreign_(pid))) continue;
    // A process that dies after the listing leaves us children that are not in it: look again.
    is_clean = false;
    if (ReapIfDead(pid)) continue;
    // Not reaped yet, so the pid can't have been reused.
    ::kill(pid, SIGKILL);
    killed_.insert(pid);
    ReapIfDead(pid);
  }
  return is_clean;
}

}  // namespace hvdray
