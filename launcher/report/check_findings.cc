// SPDX-License-Identifier: Apache-2.0
#include "launcher/report/check_findings.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cerrno>
#include <cmath>
#include <cstring>
#include <map>
#include <set>
#include <string>
#include <tuple>
#include <utility>

#include "base/command_words.h"
#include "base/tcp_address.h"
#include "launcher/driver/cause.h"
#include "launcher/job/hostfile.h"
#include "launcher/report/host_differences.h"
#include "launcher/report/network_matrix.h"

namespace hvdray {
namespace {

using std::chrono::nanoseconds;

constexpr uint64_t kMiB = uint64_t{1} << 20;
constexpr nanoseconds kClockTolerance = std::chrono::seconds(1);
constexpr uint64_t kLowDisk = 64 * kMiB;
constexpr uint64_t kLowSharedMemory = 512 * kMiB;  // docker's default of 64 MiB is below it
constexpr uint64_t kMemoryOfWorker = 256 * kMiB;
// As the agent computes it: pipes, pidfd, listener and connections of each worker, and its own.
constexpr uint64_t kFilesOfWorker = 12;
constexpr uint64_t kFilesBesides = 512;
// Threads count: a Python with torch on many cores starts some dozens.
constexpr uint64_t kProcessesOfWorker = 64;

/// One host's problem, without the host's name.
struct Issue {
  std::string_view kind;
  ErrorCode code;
  std::string text;
  std::string hint;
};

/// Collects problems of hosts; equal issues become one finding.
class Issues {
 public:
  void Add(const std::string& host, Issue issue) {
    const auto key = std::make_tuple(issue.code != ErrorCode::kOk, issue.kind, Masked(issue.text));
    const auto [it, is_new] = index_.try_emplace(key, groups_.size());
    if (is_new) {
      groups_.push_back({std::move(issue), {host}, true});
      return;
    }
    Group& group = groups_[it->second];
    group.is_same = group.is_same && group.issue.text == issue.text;
    group.hosts.push_back(host);
  }
  void Warn(const CheckedHost& host, std::string_view kind, std::string text, std::string hint) {
    Add(host.name, {kind, ErrorCode::kOk, std::move(text), std::move(hint)});
  }
  void Fail(const CheckedHost& host, std::string_view kind, ErrorCode code, std::string text,
            std::string hint) {
    Add(host.name, {kind, code, std::move(text), std::move(hint)});
  }
  void MoveTo(std::vector<Finding>& findings) {
    for (Group& group : groups_) {
      std::string text =
          group.hosts.size() == 1
              ? fmt::format("host {}: {}", group.hosts[0], group.issue.text)
              : fmt::format("hosts {}: {}", CompressHostList(group.hosts), group.issue.text);
      if (!group.is_same) text += fmt::format(" (the numbers of {})", group.hosts[0]);
      findings.push_back({group.issue.kind, group.issue.code, std::move(text),
                          std::move(group.issue.hint), std::move(group.hosts)});
    }
  }

 private:
  struct Group {
    Issue issue;
    std::vector<std::string> hosts;
    bool is_same;
  };
  /// The text without numbers and units, which differ from host to host.
  static std::string Masked(const std::string& text) {
    std::string masked;
    for (const char c : text) {
      const bool is_digit = c >= '0' && c <= '9';
      if (is_digit && masked.ends_with('#')) continue;
      masked += is_digit ? '#' : c;
    }
    return masked;
  }
  std::map<std::tuple<bool, std::string_view, std::string>, size_t> index_;
  std::vector<Group> groups_;
};

std::string ErrnoText(int error) {
  char buffer[128];
  return ::strerror_r(error, buffer, sizeof buffer);
}

const wire::DirectoryFacts* DirectoryOf(const wire::Inspection& inspection, std::string_view use) {
  for (const wire::DirectoryFacts& directory : inspection.directories) {
    if (directory.use == use) return &directory;
  }
  return nullptr;
}

bool IsUnanswered(const wire::Inspection& inspection, std::string_view what) {
  return std::find(inspection.unanswered.begin(), inspection.unanswered.end(), what) !=
         inspection.unanswered.end();
}

void JudgeWorkingDirectory(const CheckFacts& facts, const CheckedHost& host, Issues& issues) {
  const wire::DirectoryFacts* directory = DirectoryOf(*host.inspection, "working");
  if (directory == nullptr || directory->error == 0) return;
  if (facts.is_directory_synced && host.is_remote) return;
  // On this machine `hvdray run` looks before it starts anything.
  const ErrorCode code = host.is_remote ? ErrorCode::kWorkerStartFailed : ErrorCode::kUsage;
  const bool is_distrusted = directory->error == EPERM;
  issues.Fail(host, "working_folder", code,
              fmt::format("working directory {}: {}", directory->path,
                          is_distrusted ? "other users could change what runs there"
                                        : ErrnoText(directory->error)),
              is_distrusted
                  ? "start where nobody else can write: --sync .:TARGET, or --cwd DIR"
                  : "copy it there: --sync DIR, or name one that all hosts have: --cwd DIR");
}

void JudgeCommand(const CheckFacts& facts, const CheckedHost& host, Issues& issues) {
  const wire::Inspection& inspection = *host.inspection;
  const int error = inspection.command_error;
  if (facts.command.empty() || error == 0 || IsUnanswered(inspection, "command")) return;
  const bool is_missing = error == ENOENT || error == ENOTDIR;
  const std::string hint = CommandHint(facts.command, is_missing);
  if (is_missing) {
    issues.Fail(host, "command", ErrorCode::kCommandNotFound,
                fmt::format("command not found: {}", facts.command),
                hint.empty() ? "install it there, or give its whole path; workers look along the "
                               "PATH of hvdray"
                             : hint);
  } else if (error == ELIBACC) {
    issues.Fail(host, "command", ErrorCode::kCommandNotExecutable,
                fmt::format("the interpreter of {} does not exist", inspection.command_path),
                InterpreterHint(inspection.command_path, inspection.command_interpreter));
  } else {
    issues.Fail(host, "command", ErrorCode::kCommandNotExecutable,
                fmt::format("{} cannot be executed: {}", inspection.command_path, ErrnoText(error)),
                hint.empty() ? fmt::format("chmod +x {}", inspection.command_path) : hint);
  }
}

void JudgeFiles(const CheckFacts& facts, const CheckedHost& host, Issues& issues) {
  const wire::DirectoryFacts* directory = DirectoryOf(*host.inspection, "working");
  const bool has_place = directory != nullptr && directory->error == 0;
  std::vector<std::string> others;
  for (const wire::MissingFile& file : host.inspection->missing_files) {
    const bool is_relative = !file.path.starts_with('/');
    if (is_relative && !has_place) continue;  // a finding of its own
    const std::string seen =
        is_relative ? fmt::format("{} in {}", file.path, directory->path) : file.path;
    if (file.path != facts.script) {
      others.push_back(seen);
      continue;
    }
    issues.Fail(host, "files", ErrorCode::kCommandNotFound,
                fmt::format("script {}: {}", seen, ErrnoText(file.error)),
                host.is_remote
                    ? "share its directory, copy it with --sync, or give a path that all "
                      "hosts have"
                    : "check the path: it is seen from the directory that workers start in");
  }
  if (others.empty()) return;
  issues.Warn(host, "files",
              fmt::format("{} {} missing (named by the command, present on this machine)",
                          fmt::join(others, ", "), others.size() == 1 ? "is" : "are"),
              "if workers read it: share its directory, or copy it with --sync");
}

void JudgeModules(const CheckedHost& host, Issues& issues) {
  for (const wire::ModuleFacts& module : host.inspection->modules) {
    if (module.trouble.empty()) continue;
    issues.Fail(host, "imports", ErrorCode::kWorkerFailed,
                fmt::format("cannot import {}: {}", module.name, module.trouble),
                "install it there, or name the Python that has it as the command: hvdray check "
                "--import ... -- VENV/bin/python");
  }
}

void JudgeName(const CheckFacts& facts, const CheckedHost& host, Issues& issues) {
  const std::vector<std::string>& addresses = host.inspection->name_addresses;
  if (facts.hosts.size() < 2 || addresses.empty() || !IsLoopback(addresses[0])) return;
  issues.Warn(host, "host_name",
              fmt::format("its own name {} resolves to {}", host.facts.host_name, addresses[0]),
              "libraries that tell other hosts their name's address fail: give the name the "
              "address of the network in /etc/hosts there (Gloo and NCCL get the interface from "
              "hvdray)");
}

void JudgeClock(const CheckedHost& host, Issues& issues) {
  if (!host.clock) return;
  const nanoseconds off = nanoseconds(std::abs(host.clock->offset.count()));
  if (off - host.clock->bound <= kClockTolerance) return;
  const auto seconds = [](nanoseconds time) { return std::chrono::duration<double>(time).count(); };
  issues.Warn(host, "clock",
              fmt::format("its clock is {:.1f} s {} ours (give or take {:.3f} s)", seconds(off),
                          host.clock->offset.count() > 0 ? "ahead of" : "behind",
                          seconds(host.clock->bound)),
              "logs and checkpoints will be out of order: run an NTP client (timedatectl set-ntp "
              "true)");
}

void JudgeDisks(const CheckedHost& host, Issues& issues) {
  // Directories on one disk are one issue.
  std::map<std::pair<uint64_t, uint64_t>, std::vector<std::string>> full;
  for (const wire::DirectoryFacts& directory : host.inspection->directories) {
    const bool is_shm = directory.use == "shm";
    if (directory.use == "working" && directory.error != 0) continue;  // judged elsewhere
    if (directory.error != 0) {
      const std::string what = directory.path.empty() ? "its " + directory.use : directory.path;
      issues.Warn(host, is_shm ? "shared_memory" : "disk",
                  directory.path.empty() ? fmt::format("there is no {} directory", directory.use)
                                         : fmt::format("{}: {}", what, ErrnoText(directory.error)),
                  "programs expect it: make it, or mount it");
      continue;
    }
    if (directory.use == "tmp" && !directory.is_writable) {
      issues.Warn(host, "disk", fmt::format("{} cannot be written", directory.path),
                  "chmod 1777 it, or give workers another: -x TMPDIR=DIR");
    }
    if (is_shm && directory.total_bytes > 0 && directory.total_bytes < kLowSharedMemory) {
      issues.Warn(
          host, "shared_memory",
          fmt::format("{} has room for {} only", directory.path, ShowBytes(directory.total_bytes)),
          "NCCL and data loaders need more: mount -o remount,size=50% /dev/shm; docker run "
          "--shm-size or --ipc=host");
    } else if (directory.total_bytes > 0 && directory.free_bytes < kLowDisk) {
      full[{directory.total_bytes, directory.free_bytes}].push_back(directory.path);
    }
  }
  for (auto& [sizes, paths] : full) {
    std::sort(paths.begin(), paths.end());
    paths.erase(std::unique(paths.begin(), paths.end()), paths.end());
    issues.Warn(host, "disk",
                fmt::format("{} free of {} in {}", ShowBytes(sizes.second), ShowBytes(sizes.first),
                            fmt::join(paths, ", ")),
                "make room there");
  }
}

/// What a limit that is judged limits.
std::string_view LimitWords(std::string_view name) {
  if (name == "nofile") return "open files";
  if (name == "nproc") return "processes";
  return name == "as" ? "address space" : "locked memory";
}

void JudgeLimits(const CheckedHost& host, Issues& issues) {
  const auto workers = static_cast<uint64_t>(host.workers);
  const std::map<std::string_view, uint64_t> needed = {
      {"nofile", kFilesBesides + kFilesOfWorker * workers},
      {"nproc", kFilesBesides + kProcessesOfWorker * workers},
      // InfiniBand adapters pin what they send.
      {"memlock", host.inspection->infiniband_count > 0 ? kUnlimited : 0},
      // CUDA reserves far more address space than memory.
      {"as", kUnlimited}};
  for (const wire::LimitFacts& limit : host.inspection->limits) {
    const auto wanted = needed.find(limit.name);
    if (wanted == needed.end() || limit.soft >= wanted->second) continue;
    const bool is_bytes = limit.name == "memlock" || limit.name == "as";
    issues.Warn(
        host, "limits",
        fmt::format("{} ({}): the limit is {}; {}", LimitWords(limit.name), limit.name,
                    is_bytes ? ShowBytes(limit.soft) : fmt::format("{}", limit.soft),
                    wanted->second == kUnlimited ? "there should be none"
                                                 : fmt::format("{} would be safe", wanted->second)),
        fmt::format("raise {} in /etc/security/limits.conf there (or in the unit of sshd), "
                    "and log in anew",
                    limit.name));
  }
}

/// Why clocks are lowered although the GPU has work; the other bits are as wanted, or idle.
/// Source: NVML API reference, nvmlClocksEventReasons.
std::string ShowThrottle(uint32_t reasons) {
  constexpr std::pair<uint32_t, const char*> kReasons[] = {{0x8, "hardware slowdown"},
                                                           {0x20, "too hot (software)"},
                                                           {0x40, "too hot (hardware)"},
                                                           {0x80, "power brake"}};
  std::vector<std::string> texts;
  for (const auto& [bit, text] : kReasons) {
    if ((reasons & bit) != 0) texts.emplace_back(text);
  }
  return fmt::format("{}", fmt::join(texts, ", "));
}

void JudgeGpus(const CheckedHost& host, Issues& issues) {
  const std::vector<wire::GpuFacts>& gpus = host.inspection->gpus;
  for (size_t i = 0; i < gpus.size(); ++i) {
    if (gpus[i].ecc_errors > 0) {
      issues.Warn(
          host, "gpus",
          fmt::format("GPU {}: {} uncorrected ECC errors since the driver was loaded", i,
                      gpus[i].ecc_errors),
          "workers there may crash: look for Xid in dmesg, reset the GPU, and replace it if "
          "they come back");
    }
    const std::string throttle = ShowThrottle(gpus[i].throttle_reasons);
    if (throttle.empty()) continue;
    issues.Warn(host, "gpus", fmt::format("GPU {}: its clocks are lowered: {}", i, throttle),
                "every all-reduce waits for the slowest GPU: look at cooling and power there "
                "(nvidia-smi -q -d PERFORMANCE)");
  }
}

void JudgeResources(const CheckedHost& host, Issues& issues) {
  const wire::Inspection& inspection = *host.inspection;
  const auto workers = static_cast<uint64_t>(host.workers);
  if (host.facts.cpu_count > 0 && workers > host.facts.cpu_count) {
    issues.Warn(host, "cpus", fmt::format("{} workers on {} CPUs", workers, host.facts.cpu_count),
                "give the host fewer slots, unless its workers mostly wait");
  }
  uint64_t memory = inspection.available_bytes;
  if (inspection.memory_limit_bytes > 0) memory = std::min(memory, inspection.memory_limit_bytes);
  if (memory > 0 && memory < kMemoryOfWorker * workers) {
    issues.Warn(host, "memory",
                fmt::format("{} of memory for {} workers", ShowBytes(memory), workers),
                "see what else runs there, raise the container's limit, or give it fewer slots");
  }
  if (!inspection.gpus.empty() && workers > inspection.gpus.size()) {
    issues.Warn(host, "gpus", fmt::format("{} workers on {} GPUs", workers, inspection.gpus.size()),
                "give the host as many slots as it has GPUs");
  }
  if (!inspection.gpu_driver.empty() && inspection.gpu_device_count == 0) {
    issues.Warn(host, "gpus",
                fmt::format("NVIDIA driver {} is loaded, but there is no /dev/nvidia0",
                            inspection.gpu_driver),
                "run nvidia-smi there as root once; a container needs --gpus all");
  }
  if (!inspection.gpu_trouble.empty()) {
    issues.Warn(host, "gpus", fmt::format("nvidia-smi: {}", inspection.gpu_trouble),
                "workers will find no GPU either: look at dmesg there, reload the driver");
  }
}

void JudgeHost(const CheckFacts& facts, const CheckedHost& host, Issues& issues) {
  if (!host.lost.ok()) return;  // grouped with equal losses
  if (!host.nic_status.ok()) {
    // The name is in front of all findings of a host, and only equal texts become one.
    const std::string prefix = fmt::format("host {} has ", host.name);
    std::string text = host.nic_status.message();
    if (text.starts_with(prefix)) text.erase(0, prefix.size());
    issues.Fail(host, "interface", host.nic_status.code(), std::move(text),
                host.nic_status.hint().empty() ? "name one that it has: --network-interfaces"
                                               : host.nic_status.hint());
  }
  if (!host.inspection) {
    issues.Fail(host, "silent", ErrorCode::kDeadlineExceeded, "its agent did not answer in time",
                "see what that host is doing");
    return;
  }
  const std::string ours = facts.build.substr(0, facts.build.find(" ("));
  if (host.build.substr(0, host.build.find(" (")) != ours) {
    issues.Warn(host, "build", fmt::format("its agent is {}, this is {}", host.build, ours),
                "install the same version there, or leave HVDRAY_AGENT_PATH out");
  }
  JudgeWorkingDirectory(facts, host, issues);
  JudgeCommand(facts, host, issues);
  JudgeFiles(facts, host, issues);
  JudgeModules(host, issues);
  JudgeName(facts, host, issues);
  JudgeClock(host, issues);
  JudgeDisks(host, issues);
  JudgeLimits(host, issues);
  JudgeResources(host, issues);
  JudgeGpus(host, issues);
  if (host.inspection->unanswered.empty()) return;
  issues.Warn(host, "unanswered",
              fmt::format("no answer in time: {}", fmt::join(host.inspection->unanswered, ", ")),
              "a file system or driver that hangs there will hang workers, too");
}

void JudgeLosses(const CheckFacts& facts, std::vector<Finding>& findings) {
  std::vector<HostLoss> lost;
  for (const CheckedHost& host : facts.hosts) {
    if (!host.lost.ok()) lost.push_back({host.lost, {host.name}});
  }
  for (HostLoss& loss : GroupLosses(lost, lost.size() + 1)) {
    findings.push_back({"host", loss.error.code(), loss.error.message(),
                        loss.error.hint().empty() ? "see docs/errors.md" : loss.error.hint(),
                        std::move(loss.hosts)});
  }
}

constexpr size_t kMaxPairs = 10;
// Two hosts form only one pair.
constexpr size_t kFewest = 3;

constexpr char kHint[] =
    "look for a firewall between them, or name the interface that reaches all hosts: "
    "--network-interfaces";

class NetworkJudge {
 public:
  NetworkJudge(const CheckFacts& facts, std::vector<Finding>& findings)
      : facts_(facts), findings_(findings) {
    for (const ClosedWay& way : facts.closed_ways) ways_.emplace(std::pair(way.from, way.to), &way);
    const size_t probed = static_cast<size_t>(std::count_if(
        facts.hosts.begin(), facts.hosts.end(),
        [](const CheckedHost& host) { return host.lost.ok() && !host.address.empty(); }));
    if (probed >= kFewest) all_ways_ = std::min(probed - 1, wire::kMaxProbeTargets);
  }

  void Judge() {
    for (const ClosedWay& way : facts_.closed_ways) {
      if (way.from == way.to) {
        Add(way, {way.from}, fmt::format("host {}: {}", Name(way.from), way.why.message()));
      }
    }
    std::erase_if(ways_, [](const auto& entry) { return entry.first.first == entry.first.second; });
    JudgeWhole(&ClosedWay::to, "no other host reaches host {}");
    JudgeWhole(&ClosedWay::from, "host {} reaches no other host");
    JudgePairs();
  }

 private:
  const std::string& Name(size_t host) const { return facts_.hosts[host].name; }
  std::string Place(size_t host) const {
    const CheckedHost& facts = facts_.hosts[host];
    return fmt::format("{} ({} {})", facts.name, facts.nic, facts.address);
  }

  void Add(const ClosedWay& way, const std::vector<size_t>& hosts, std::string text) {
    Finding finding{.kind = "network", .code = way.why.code(), .text = std::move(text)};
    finding.hint = way.why.hint().empty() ? kHint : way.why.hint();
    for (const size_t host : hosts) finding.hosts.push_back(Name(host));
    findings_.push_back(std::move(finding));
  }

  /// Judges hosts with all ways closed in the direction in which they are `end`.
  void JudgeWhole(size_t ClosedWay::*end, const char* text) {
    if (all_ways_ == 0) return;
    std::map<size_t, std::vector<const ClosedWay*>> by_host;
    for (const auto& [pair, way] : ways_) by_host[way->*end].push_back(way);
    for (const auto& [host, ways] : by_host) {
      if (ways.size() < all_ways_) continue;
      const ClosedWay& first = *ways.front();
      Add(first, {host},
          fmt::format("{}: {}", fmt::format(fmt::runtime(text), Place(host)), first.why.message()));
      std::erase_if(ways_,
                    [end, lost = host](const auto& entry) { return entry.second->*end == lost; });
    }
  }

  void JudgePairs() {
    size_t told = 0;
    std::set<std::string> more;
    std::vector<size_t> more_hosts;
    const ClosedWay* first_more = nullptr;
    while (!ways_.empty()) {
      const auto [pair, way] = *ways_.begin();
      ways_.erase(ways_.begin());
      const bool is_mutual = ways_.erase({pair.second, pair.first}) > 0;
      if (++told > kMaxPairs) {
        if (first_more == nullptr) first_more = way;
        for (const size_t host : {pair.first, pair.second}) {
          if (more.insert(Name(host)).second) more_hosts.push_back(host);
        }
        continue;
      }
      const char* text = is_mutual ? "hosts {} and {} cannot reach each other: {}"
                                   : "host {} cannot reach host {}: {}";
      Add(*way, {pair.first, pair.second},
          fmt::format(fmt::runtime(text), Place(pair.first), Place(pair.second),
                      way->why.message()));
    }
    if (first_more == nullptr) return;
    Add(*first_more, more_hosts,
        fmt::format("{} more pairs of hosts cannot reach each other (--json names them)",
                    told - kMaxPairs));
  }

  const CheckFacts& facts_;
  std::vector<Finding>& findings_;
  std::map<std::pair<size_t, size_t>, const ClosedWay*> ways_;
  size_t all_ways_ = 0;  // Ways to (and from) one host; 0: too few for "no other host".
};

/// Equal for names of one machine: its own name, and its addresses but those of loopback. Empty:
/// unknown.
std::string MachineOf(const CheckedHost& host) {
  std::string machine;
  for (const wire::InterfaceFacts& face : host.facts.interfaces) {
    for (const wire::InterfaceAddress& one : face.addresses) {
      if (!IsLoopback(one.address)) machine += fmt::format(" {} {}", face.name, one.address);
    }
  }
  return machine.empty() || host.facts.host_name.empty() ? "" : host.facts.host_name + machine;
}

void JudgeNames(const CheckFacts& facts, std::vector<Finding>& findings) {
  std::map<std::string, std::vector<std::string>> names;
  for (const CheckedHost& host : facts.hosts) {
    const std::string machine = host.lost.ok() ? MachineOf(host) : "";
    if (!machine.empty()) names[machine].push_back(host.name);
  }
  for (auto& [machine, hosts] : names) {
    if (hosts.size() < 2) continue;
    findings.push_back(
        {"one_machine", ErrorCode::kOk,
         fmt::format("hosts {}: one machine, {}, by {} names", CompressHostList(hosts),
                     machine.substr(0, machine.find(' ')), hosts.size()),
         "its workers would share GPUs and CPUs without knowing it: list it once, "
         "with all its slots",
         std::move(hosts)});
  }
}

void JudgeOthers(const CheckFacts& facts, std::vector<Finding>& findings) {
  for (const OtherProgram& other : facts.others) {
    const std::string what =
        other.build.empty() ? "does not say its version" : fmt::format("is {}", other.build);
    findings.push_back({"other_hvdray",
                        ErrorCode::kOk,
                        fmt::format("PATH has another hvdray: {} {}; this one, {}, is {}",
                                    other.path, what, facts.path, facts.build),
                        "remove one of them, or put the directory of the one you mean first",
                        {}});
  }
}

}  // namespace

std::vector<Finding> FindFindings(const CheckFacts& facts) {
  std::vector<Finding> findings;
  if (!facts.slots.ok()) {
    findings.push_back(
        {"slots", facts.slots.code(), facts.slots.message(), facts.slots.hint(), {}});
  }
  JudgeLosses(facts, findings);
  if (!facts.interfaces.ok()) {
    findings.push_back({"interface",
                        facts.interfaces.code(),
                        facts.interfaces.message(),
                        facts.interfaces.hint().empty()
                            ? "name one that the hosts have: --network-interfaces"
                            : facts.interfaces.hint(),
                        {}});
  }
  JudgeNetwork(facts, findings);
  JudgePairs(facts, findings);
  Issues issues;
  for (const CheckedHost& host : facts.hosts) JudgeHost(facts, host, issues);
  issues.MoveTo(findings);
  JudgeNames(facts, findings);
  JudgeDifferences(facts, findings);
  JudgeOthers(facts, findings);
  std::stable_sort(findings.begin(), findings.end(), [](const Finding& a, const Finding& b) {
    return a.is_error() && !b.is_error();
  });
  return findings;
}

int ExitCode(std::span<const Finding> findings) {
  int code = 0;
  for (const Finding& finding : findings) {
    if (!finding.is_error()) continue;
    switch (finding.code) {
      case ErrorCode::kNotEnoughSlots:
      case ErrorCode::kUsage:
        return 2;  // nothing would be tried
      case ErrorCode::kWorkerFailed:
        if (code == 0) code = 1;
        break;
      case ErrorCode::kCommandNotFound:
        if (code < 2) code = 127;
        break;
      case ErrorCode::kCommandNotExecutable:
        if (code < 2) code = 126;
        break;
      default:
        code = kHvdrayFailed;  // before any worker starts
    }
  }
  return code;
}

void JudgeNetwork(const CheckFacts& facts, std::vector<Finding>& findings) {
  NetworkJudge(facts, findings).Judge();
}

}  // namespace hvdray
