// SPDX-License-Identifier: Apache-2.0
#include "launcher/engine/leftovers.h"

#include <dirent.h>
#include <fmt/format.h>
#include <signal.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <memory>
#include <optional>
#include <set>
#include <sstream>
#include <string_view>
#include <thread>
#include <vector>

#include "agent/cgroup.h"
#include "agent/process_tree.h"
#include "base/fd.h"
#include "base/text.h"

namespace hvdray {
namespace {

// Memory of tens of GiB takes the kernel seconds; more, and a process hangs in it.
constexpr Duration kGroupLimit = std::chrono::seconds(10);
constexpr Duration kExecLimit = std::chrono::seconds(1);  // else its file system hangs
constexpr Duration kExecLook = std::chrono::milliseconds(1);
constexpr int kRounds = 10;  // each kills processes forked meanwhile by the killed ones

/// Where its environment is, of /proc/PID/stat. All 0: it has ended.
struct EnvironmentPlace {
  uint64_t memory = 0;  // 0: a kernel thread
  uint64_t start = 0;   // 0: within execve()
  uint64_t end = 0;
};

EnvironmentPlace PlaceOfEnvironment(pid_t pid) {
  constexpr size_t kVsize = 23, kEnvStart = 50, kEnvEnd = 51;  // of proc(5)
  const Result<std::string> stat = ReadFile(fmt::format("/proc/{}/stat", pid), 8192);
  const size_t name_end = stat.ok() ? stat->rfind(") ") : std::string::npos;
  if (name_end == std::string::npos) return {};
  std::istringstream rest(stat->substr(name_end + 2));
  std::array<uint64_t, kEnvEnd + 1> fields = {};
  std::string field;
  for (size_t i = 3; i < fields.size() && rest >> field; ++i) {
    fields.at(i) = ParseInteger<uint64_t>(field).value_or(0);
  }
  return {fields[kVsize], fields[kEnvStart], fields[kEnvEnd]};
}

/// It has none, and no execve() is about to give it one: that moves the place.
bool HasNoEnvironment(pid_t pid) {
  const EnvironmentPlace place = PlaceOfEnvironment(pid);
  if (place.memory > 0) std::this_thread::sleep_for(kExecLook);
  const bool is_empty = place.memory == 0 || (place.start != 0 && place.start == place.end);
  const EnvironmentPlace now = PlaceOfEnvironment(pid);
  return is_empty && now.start == place.start && now.end == place.end;
}

bool HasSize(pid_t pid, size_t size) {
  const EnvironmentPlace place = PlaceOfEnvironment(pid);
  return place.memory == 0 || (place.start != 0 && place.end - place.start == size);
}

/// Empty, if it has none or none may be seen. Within execve() a process shows none, or only the
/// beginning of the one that is being read: waits for it.
std::string EnvironmentOf(pid_t pid) {
  const TimePoint deadline = std::chrono::steady_clock::now() + kExecLimit;
  for (;;) {
    Result<std::string> text = ReadFile(fmt::format("/proc/{}/environ", pid));
    if (!text.ok()) return {};
    const bool is_whole = text->empty() ? HasNoEnvironment(pid) : HasSize(pid, text->size());
    if (is_whole || std::chrono::steady_clock::now() >= deadline) return std::move(text).value();
    std::this_thread::sleep_for(kExecLook);
  }
}

bool HasVariable(pid_t pid, const std::string& variable) {
  const std::string text = '\0' + EnvironmentOf(pid) + '\0';
  return text.find('\0' + variable + '\0') != std::string::npos;
}

/// Opens the process before checking it, so that no reused pid is killed.
bool KillIfOf(pid_t pid, const std::string& variable) {
  const UniqueFd process = OpenPidFd(pid);
  if (!process.is_valid() || !HasVariable(pid, variable)) return false;
  return ::syscall(SYS_pidfd_send_signal, process.get(), SIGKILL, nullptr, 0) == 0;
}

// A stopped agent that was given up could continue one day; its keeper sweeps its orphans.
void KillAgent(pid_t agent) {
  const UniqueFd process = OpenPidFd(agent);
  if (!process.is_valid()) return;
  // A process that reuses the pid is not below us.
  const std::vector<pid_t> ours = Relatives(ScanProcesses(), ::getpid());
  if (!std::binary_search(ours.begin(), ours.end(), agent)) return;
  ::syscall(SYS_pidfd_send_signal, process.get(), SIGKILL, nullptr, 0);
}

std::optional<pid_t> Pid(std::string_view name) {
  if (name.empty() || name.size() > 9 ||
      !std::all_of(name.begin(), name.end(), [](char c) { return c >= '0' && c <= '9'; })) {
    return std::nullopt;
  }
  const pid_t pid = std::stoi(std::string(name));
  return pid > 1 && pid != ::getpid() ? std::optional(pid) : std::nullopt;
}

/// Kills those with the variable; adds them to `killed`. True: one of them is new.
bool KillOnce(const std::string& variable, std::set<pid_t>& killed) {
  const std::unique_ptr<DIR, int (*)(DIR*)> processes(::opendir("/proc"), &::closedir);
  if (processes == nullptr) return false;
  bool has_new = false;
  while (const dirent* entry = ::readdir(processes.get())) {
    const std::optional<pid_t> pid = Pid(entry->d_name);
    // One that was killed may take its time.
    if (pid && KillIfOf(*pid, variable) && killed.insert(*pid).second) has_new = true;
  }
  return has_new;
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
  std::set<pid_t> killed;
  for (int round = 0; round < kRounds; ++round) {
    if (!KillOnce("HVDRAY_JOB_ID=" + job_id, killed)) break;
  }
  if (!group.empty()) EndGroup(group);
  return static_cast<int>(killed.size());
}

}  // namespace hvdray
