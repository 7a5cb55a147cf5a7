// SPDX-License-Identifier: Apache-2.0
#include "agent/cgroup.h"

#include <dirent.h>
#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <csignal>
#include <filesystem>
#include <limits>
#include <utility>

#include "base/fd.h"
#include "base/text.h"

namespace hvdray {
namespace {

namespace fs = std::filesystem;

// mountinfo writes space, tab, newline and backslash as \ooo.
std::string Unescape(std::string_view text) {
  std::string out;
  for (size_t i = 0; i < text.size(); ++i) {
    unsigned value = 0;
    if (text[i] == '\\' && i + 3 < text.size() &&
        std::from_chars(text.data() + i + 1, text.data() + i + 4, value, 8).ptr ==
            text.data() + i + 4) {
      out += static_cast<char>(value);
      i += 3;
    } else {
      out += text[i];
    }
  }
  return out;
}

bool HasOption(std::string_view options, std::string_view wanted) {
  while (!options.empty()) {
    const size_t comma = options.find(',');
    if (options.substr(0, comma) == wanted) return true;
    if (comma == std::string_view::npos) break;
    options.remove_prefix(comma + 1);
  }
  return false;
}

// mountinfo: id parent dev root mountpoint options... - type source superoptions (proc(5)).
std::optional<std::string> FindDirectory(std::string_view mountinfo, std::string_view type,
                                         std::string_view super_option, const std::string& path) {
  for (const std::string_view line : LinesOf(mountinfo)) {
    const size_t dash = line.find(" - ");
    if (dash == std::string_view::npos) continue;
    const auto front = BlankSeparated(line.substr(0, dash), " ");
    const auto back = BlankSeparated(line.substr(dash + 3), " ");
    if (front.size() < 5 || back.size() < 3 || back[0] != type) continue;
    if (!super_option.empty() && !HasOption(back[2], super_option)) continue;
    std::string root = Unescape(front[3]);
    if (root == "/") root.clear();
    if (!path.starts_with(root)) continue;
    std::string below = path.substr(root.size());
    if (!below.empty() && below[0] != '/') continue;
    if (below == "/") below.clear();
    if ((below + "/").find("/../") != std::string::npos) continue;
    return Unescape(front[4]) + below;
  }
  return std::nullopt;
}

// /proc/self/cgroup: "id:controllers:path".
std::optional<std::string> FindPath(std::string_view cgroup, std::string_view controller) {
  for (const std::string_view line : LinesOf(cgroup)) {
    const size_t first = line.find(':');
    if (first == std::string_view::npos) continue;
    const size_t second = line.find(':', first + 1);
    if (second == std::string_view::npos) continue;
    const std::string_view controllers = line.substr(first + 1, second - first - 1);
    const bool is_it = controller.empty() ? line.substr(0, first) == "0" && controllers.empty()
                                          : HasOption(controllers, controller);
    if (is_it) return std::string(line.substr(second + 1));
  }
  return std::nullopt;
}

std::string ReadProc(const char* path) { return ReadFile(path, size_t{4} << 20).value_or(""); }

std::vector<std::string> Subdirectories(const std::string& directory) {
  std::vector<std::string> names;
  DIR* handle = ::opendir(directory.c_str());
  if (handle == nullptr) return names;
  while (const dirent* entry = ::readdir(handle)) {
    const std::string_view name = entry->d_name;
    if (entry->d_type == DT_DIR && name != "." && name != "..") {
      names.push_back(fmt::format("{}/{}", directory, name));
    }
  }
  ::closedir(handle);
  return names;
}

void CollectMembers(const std::string& directory, std::vector<pid_t>& members) {
  const Result<std::string> text = ReadFile(directory + "/cgroup.procs");
  if (text.ok()) {
    for (const std::string_view line : LinesOf(*text)) {
      pid_t pid = 0;
      std::from_chars(line.data(), line.data() + line.size(), pid);
      if (pid > 1) members.push_back(pid);  // 0: a process of another PID namespace
    }
  }
  for (const std::string& below : Subdirectories(directory)) CollectMembers(below, members);
}

// Also one that nobody has reaped yet.
bool IsDead(pid_t pid) {
  if (::kill(pid, 0) != 0 && errno == ESRCH) return true;
  const std::string stat = ReadProc(fmt::format("/proc/{}/stat", pid).c_str());
  const size_t name_end = stat.rfind(") ");
  return name_end != std::string::npos && stat.substr(name_end + 2, 1) == "Z";
}

// Whether this process may move and kill what is in it: another user's is that user's to remove.
bool IsOurs(const std::string& group) {
  return ::access((group + "/cgroup.procs").c_str(), W_OK) == 0;
}

std::string AgentCgroupPrefix(const std::string& own_directory) {
  struct stat info {};
  ::stat("/proc/self/ns/pid", &info);
  return fmt::format("{}/hvdray-{}-", own_directory, info.st_ino);
}

bool RemoveTree(const std::string& directory) {
  if (::rmdir(directory.c_str()) == 0 || errno == ENOENT) return true;
  for (const std::string& below : Subdirectories(directory)) {
    if (!RemoveTree(below)) return false;
  }
  return ::rmdir(directory.c_str()) == 0 || errno == ENOENT;
}

}  // namespace

std::optional<std::string> FindCgroupDirectory(std::string_view mountinfo,
                                               std::string_view cgroup) {
  const std::optional<std::string> path = FindPath(cgroup, "");
  if (!path) return std::nullopt;
  return FindDirectory(mountinfo, "cgroup2", "", *path);
}

std::optional<std::string> FindV1Directory(std::string_view controller, std::string_view mountinfo,
                                           std::string_view cgroup) {
  const std::optional<std::string> path = FindPath(cgroup, controller);
  if (!path) return std::nullopt;
  return FindDirectory(mountinfo, "cgroup", controller, *path);
}

std::optional<uint32_t> CpuQuota(const std::string& directory) {
  std::optional<uint32_t> least;
  // A group may have no such file below one that has: the controller is off there.
  for (fs::path group = directory; ::access((group / "cgroup.procs").c_str(), F_OK) == 0;
       group = group.parent_path()) {
    const auto read = [&group](const char* file) {
      return ReadFile((group / file).string(), 4096).value_or("");
    };
    std::string text = read("cpu.max");  // "150000 100000", "max 100000"
    if (text.empty()) text = read("cpu.cfs_quota_us") + ' ' + read("cpu.cfs_period_us");
    const auto words = BlankSeparated(text);
    if (words.size() != 2) continue;
    const auto quota = ParseInteger<uint64_t>(words[0]);  // v1 has -1 for none
    const auto period = ParseInteger<uint64_t>(words[1]);
    if (!quota || !period || *quota == 0 || *period == 0) continue;
    const auto cpus = static_cast<uint32_t>(
        std::min<uint64_t>((*quota - 1) / *period + 1, std::numeric_limits<uint32_t>::max()));
    least = std::min(least.value_or(cpus), cpus);
  }
  return least;
}

std::optional<uint32_t> OwnCpuQuota() {
  const std::string mountinfo = ReadProc("/proc/self/mountinfo");
  const std::string cgroup = ReadProc("/proc/self/cgroup");
  std::optional<uint32_t> least;
  for (const auto& directory :
       {FindCgroupDirectory(mountinfo, cgroup), FindV1Directory("cpu", mountinfo, cgroup)}) {
    const std::optional<uint32_t> quota = directory ? CpuQuota(*directory) : std::nullopt;
    if (quota) least = std::min(least.value_or(*quota), *quota);
  }
  return least;
}

std::optional<std::string> OwnCgroupDirectory() {
  return FindCgroupDirectory(ReadProc("/proc/self/mountinfo"), ReadProc("/proc/self/cgroup"));
}

std::string AgentCgroupDirectory(const std::string& own_directory, pid_t agent_pid) {
  return fmt::format("{}{}", AgentCgroupPrefix(own_directory), agent_pid);
}

std::vector<std::string> GroupsOfDeadAgents(const std::string& own_directory) {
  std::vector<std::string> places = {own_directory};
  const std::string parent = own_directory.substr(0, own_directory.rfind('/'));
  // Above the root of the hierarchy there are no groups.
  if (::access((parent + "/cgroup.procs").c_str(), F_OK) == 0) {
    for (std::string& sibling : Subdirectories(parent)) {
      if (sibling != own_directory) places.push_back(std::move(sibling));
    }
  }
  std::vector<std::string> dead;
  for (const std::string& place : places) {
    const std::string start = AgentCgroupPrefix(place);
    for (std::string& group : Subdirectories(place)) {
      if (!group.starts_with(start)) continue;
      const auto agent = ParseInteger<pid_t>(std::string_view(group).substr(start.size()));
      if (agent && *agent > 1 && IsDead(*agent) && IsOurs(group)) dead.push_back(std::move(group));
    }
  }
  return dead;
}

bool KillAndRemoveCgroup(const std::string& directory) {
  if (RemoveTree(directory)) return true;
  const UniqueFd kill_file(::open((directory + "/cgroup.kill").c_str(), O_WRONLY | O_CLOEXEC));
  if (!kill_file.is_valid() || ::write(kill_file.get(), "1", 1) != 1) {
    std::vector<pid_t> members;  // Linux before 5.14
    CollectMembers(directory, members);
    for (const pid_t pid : members) ::kill(pid, SIGKILL);
  }
  return RemoveTree(directory);
}

Result<Cgroup> Cgroup::Create(const std::string& directory) {
  const std::string parent = directory.substr(0, directory.rfind('/'));
  if (::mkdir(parent.c_str(), 0755) != 0 && errno != EEXIST) return ErrnoStatus(parent, errno);
  // An existing group of this name is a leftover of a dead agent with the same pid.
  if (::mkdir(directory.c_str(), 0755) != 0 &&
      (errno != EEXIST || !KillAndRemoveCgroup(directory) ||
       ::mkdir(directory.c_str(), 0755) != 0)) {
    return ErrnoStatus(directory, errno);
  }
  Cgroup group;
  group.directory_ = directory;
  group.directory_fd_.Reset(::open(directory.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (!group.directory_fd_.is_valid()) return ErrnoStatus(directory, errno);
  const std::string procs = directory + "/cgroup.procs";
  group.procs_fd_.Reset(::open(procs.c_str(), O_WRONLY | O_CLOEXEC));
  if (!group.procs_fd_.is_valid()) return ErrnoStatus(procs, errno);
  return group;
}

Cgroup::~Cgroup() {
  if (directory_fd_.is_valid()) KillAndRemove();
}

std::vector<pid_t> Cgroup::Members() const {
  std::vector<pid_t> members;
  CollectMembers(directory_, members);
  return members;
}

uint64_t ParseOomKills(std::string_view text) {
  constexpr std::string_view kKey = "oom_kill ";
  uint64_t kills = 0;
  for (const std::string_view line : LinesOf(text)) {
    if (!line.starts_with(kKey)) continue;
    std::from_chars(line.data() + kKey.size(), line.data() + line.size(), kills);
    break;
  }
  return kills;
}

OomWatch::OomWatch(const std::string& directory) {
  std::vector<std::string> paths;
  if (!directory.empty()) paths.push_back(directory + "/memory.events");
  if (const auto own = OwnCgroupDirectory()) paths.push_back(*own + "/memory.events");
  if (const auto own = FindV1Directory("memory", ReadProc("/proc/self/mountinfo"),
                                       ReadProc("/proc/self/cgroup"))) {
    paths.push_back(*own + "/memory.oom_control");
  }
  for (const std::string& path : paths) {
    const Result<std::string> text = ReadFile(path, 4096);
    if (!text.ok()) continue;
    path_ = path;
    claimed_ = ParseOomKills(*text);
    return;
  }
}

bool OomWatch::ClaimKill() {
  if (path_.empty()) return false;
  const Result<std::string> text = ReadFile(path_, 4096);
  if (!text.ok() || ParseOomKills(*text) <= claimed_) return false;
  ++claimed_;
  return true;
}

}  // namespace hvdray
