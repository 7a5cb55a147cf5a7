// SPDX-License-Identifier: Apache-2.0
#include "agent/process_tree.h"

#include <dirent.h>
#include <fmt/format.h>

#include <map>
#include <set>
#include <string>

#include "base/fd.h"
#include "base/text.h"

namespace hvdray {
namespace {

// Consumes the number at the start of `text` and the blank after it.
std::optional<pid_t> TakePid(std::string_view* text) {
  const size_t length = text->find(' ');
  if (length == std::string_view::npos) return std::nullopt;
  const auto pid = ParseInteger<pid_t>(text->substr(0, length));
  if (!pid || *pid < 0) return std::nullopt;
  text->remove_prefix(length + 1);
  return pid;
}

}  // namespace

std::optional<ProcessKin> ParseKin(std::string_view stat) {
  // "pid (name) state parent group ": the name may contain spaces and parentheses.
  std::string_view front = stat;
  const auto pid = TakePid(&front);
  const size_t close = stat.rfind(')');
  if (!pid || close == std::string_view::npos || stat.size() < close + 4) return std::nullopt;
  std::string_view rest = stat.substr(close + 4);
  const auto parent = TakePid(&rest);
  const auto group = parent ? TakePid(&rest) : std::nullopt;
  if (!group) return std::nullopt;
  return ProcessKin{*pid, *parent, *group};
}

std::vector<ProcessKin> ScanProcesses() {
  std::vector<ProcessKin> processes;
  DIR* directory = ::opendir("/proc");
  if (directory == nullptr) return processes;
  while (const dirent* entry = ::readdir(directory)) {
    if (entry->d_name[0] < '0' || entry->d_name[0] > '9') continue;
    const Result<std::string> stat = ReadFile(fmt::format("/proc/{}/stat", entry->d_name), 8192);
    if (!stat.ok()) continue;
    if (const auto kin = ParseKin(*stat)) processes.push_back(*kin);
  }
  ::closedir(directory);
  return processes;
}

std::vector<pid_t> Relatives(std::span<const ProcessKin> processes, pid_t leader) {
  std::multimap<pid_t, pid_t> children;
  std::vector<pid_t> open = {leader};
  for (const ProcessKin& process : processes) {
    children.emplace(process.parent, process.pid);
    if (process.group == leader) open.push_back(process.pid);
  }
  std::set<pid_t> relatives;
  while (!open.empty()) {
    const pid_t pid = open.back();
    open.pop_back();
    // Skipping known pids also ends cycles, which a listing that is no snapshot may contain.
    if (!relatives.insert(pid).second) continue;
    const auto [first, last] = children.equal_range(pid);
    for (auto child = first; child != last; ++child) open.push_back(child->second);
  }
  relatives.erase(leader);
  return {relatives.begin(), relatives.end()};
}

}  // namespace hvdray
