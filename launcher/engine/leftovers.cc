// SPDX-License-Identifier: Apache-2.0
#include "launcher/engine/leftovers.h"

#include <dirent.h>
#include <fcntl.h>
#include <signal.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <memory>
#include <optional>
#include <string_view>
#include <thread>
#include <vector>

#include "agent/cgroup.h"
#include "agent/process_tree.h"
#include "base/fd.h"

namespace hvdray {
namespace {

constexpr Duration kGroupLimit = std::chrono::seconds(2);  // else a process hangs in the kernel
constexpr int kRounds = 10;  // each kills processes forked meanwhile by the killed ones

bool HasVariable(pid_t pid, const std::string& variable) {
  const UniqueFd file(
      ::open(("/proc/" + std::to_string(pid) + "/environ").c_str(), O_RDONLY | O_CLOEXEC));
  if (!file.is_valid()) return false;
  std::string text(1, '\0');
  std::array<char, 4096> buffer;
  for (ssize_t n = 0; (n = ::read(file.get(), buffer.data(), buffer.size())) > 0;) {
    text.append(buffer.data(), static_cast<size_t>(n));
  }
  text.push_back('\0');
  return text.find('\0' + variable + '\0') != std::string::npos;
}

/// Opens the process before checking it, so that no reused pid is killed.
bool KillIfOf(pid_t pid, const std::string& variable) {
  const UniqueFd process(static_cast<int>(::syscall(SYS_pidfd_open, pid, 0)));
  if (!process.is_valid() || !HasVariable(pid, variable)) return false;
  return ::syscall(SYS_pidfd_send_signal, process.get(), SIGKILL, nullptr, 0) == 0;
}

// A stopped agent that was given up could continue one day; its keeper sweeps its orphans.
void KillAgent(pid_t agent) {
  const UniqueFd process(static_cast<int>(::syscall(SYS_pidfd_open, agent, 0)));
  if (!process.is_valid()) return;
  // A process that reuses the pid is not below us.
  const std::vector<pid_t> ours = RelativesOf(ScanProcesses(), ::getpid());
  if (!std::binary_search(ours.begin(), ours.end(), agent)) return;
  ::syscall(SYS_pidfd_send_signal, process.get(), SIGKILL, nullptr, 0);
}

std::optional<pid_t> PidOf(std::string_view name) {
  if (name.empty() || name.size() > 9 ||
      !std::all_of(name.begin(), name.end(), [](char c) { return c >= '0' && c <= '9'; })) {
    return std::nullopt;
  }
  const pid_t pid = std::stoi(std::string(name));
  return pid > 1 && pid != ::getpid() ? std::optional(pid) : std::nullopt;
}

int KillOnce(const std::string& variable) {
  const std::unique_ptr<DIR, int (*)(DIR*)> processes(::opendir("/proc"), &::closedir);
  if (processes == nullptr) return 0;
  int killed = 0;
  while (const dirent* entry = ::readdir(processes.get())) {
    const std::optional<pid_t> pid = PidOf(entry->d_name);
    if (pid && KillIfOf(*pid, variable)) ++killed;
  }
  return killed;
}

// Killed processes leave their group only once the kernel has ended them.
void EndGroup(const std::string& directory) {
  const TimePoint deadline = std::chrono::steady_clock::now() + kGroupLimit;
  Duration pause = std::chrono::milliseconds(1);
  while (!KillAndRemoveCgroup(directory) && std::chrono::steady_clock::now() < deadline) {
    std::this_thread::sleep_for(pause);
    pause = std::min<Duration>(pause * 2, std::chrono::milliseconds(50));
  }
}

}  // namespace

int EndLeftovers(const std::string& job_id, uint32_t agent_pid) {
  if (agent_pid > 1) KillAgent(static_cast<pid_t>(agent_pid));
  std::string group;
  if (const std::optional<std::string> own = OwnCgroupDirectory(); own && agent_pid > 1) {
    group = AgentCgroupDirectory(*own, static_cast<pid_t>(agent_pid));
    KillAndRemoveCgroup(group);
  }
  int killed = 0;
  for (int round = 0; round < kRounds; ++round) {
    const int now = KillOnce("HVDRAY_JOB_ID=" + job_id);
    if (now == 0) break;
    killed += now;
  }
  if (!group.empty()) EndGroup(group);
  return killed;
}

}  // namespace hvdray
