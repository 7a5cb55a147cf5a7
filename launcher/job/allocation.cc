// SPDX-License-Identifier: Apache-2.0
#include "launcher/job/allocation.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <string_view>
#include <unordered_map>
#include <utility>

#include "base/tcp_address.h"
#include "base/text.h"
#include "launcher/job/hostfile.h"

namespace hvdray {
namespace {

constexpr std::string_view kHint = "-H or --hostfile overrides the hosts of the batch system";

Status Wrong(std::string_view place, std::string_view what) {
  return {ErrorCode::kSpecInvalid, fmt::format("{}: {}", place, what), std::string(kHint)};
}

/// A variable, and how messages name a place in its value.
struct Variable {
  std::string name;
  std::string value;
  Status WrongAt(size_t offset, std::string_view what) const {
    return Wrong(fmt::format("env {}:{}", name, offset + 1), what);
  }
  size_t OffsetOf(std::string_view part) const {
    return static_cast<size_t>(part.data() - value.data());
  }
};

std::optional<Variable> Find(const Environment& environment, const char* name) {
  Variable variable{name, environment.GetOr(name, "")};
  if (variable.value.empty()) return std::nullopt;
  return variable;
}

/// Adds up the slots of each host, in the order of first appearance.
class SlotCounter {
 public:
  /// Returns what is wrong with `name` or with the sum, or nothing.
  std::string Add(std::string_view name, int slots) {
    const HostSlots made = MakeHostSlots(name, slots);
    // MakeHostSlots() gives an IPv6 address a plain name; nothing else may contain a ':'.
    if (!IsHostName(made.host)) return fmt::format("'{}' is not a host name", ShownText(name));
    const auto [index, is_new] = index_.try_emplace(HostNameKey(made.host), hosts_.size());
    if (!is_new) {
      HostSlots& host = hosts_[index->second];
      if (slots > kMaxSlots - host.slots) {
        return fmt::format("host {} has more than {} slots", host.host, kMaxSlots);
      }
      host.slots += slots;
      return {};
    }
    if (hosts_.size() == kMaxHosts) return fmt::format("more than {} hosts", kMaxHosts);
    hosts_.push_back(made);
    return {};
  }

  std::vector<HostSlots> Take() && { return std::move(hosts_); }

 private:
  std::vector<HostSlots> hosts_;
  std::unordered_map<std::string, size_t> index_;
};

/// "2(x3),1" to 2 2 2 1, for the `host_count` hosts of the variable `hosts`.
Result<std::vector<int>> ParseCounts(const Variable& variable, const std::string& hosts,
                                     size_t host_count) {
  std::vector<int> counts;
  std::string_view left = variable.value;
  while (true) {
    const std::string_view item = left.substr(0, left.find(','));
    const size_t offset = variable.OffsetOf(item);
    const size_t open = item.find("(x");
    const std::optional<int> count = ParseSlots(item.substr(0, open));
    std::optional<int> times = 1;
    if (open != std::string_view::npos) {
      times = item.ends_with(')') ? ParseSlots(item.substr(open + 2, item.size() - open - 3))
                                  : std::nullopt;
    }
    if (!count || !times || *times == 0) {
      return variable.WrongAt(
          offset, fmt::format("'{}' is not a slot count such as 2 or 2(x3)", ShownText(item)));
    }
    if (counts.size() + static_cast<size_t>(*times) > host_count) {
      return variable.WrongAt(
          offset, fmt::format("more counts than the {} hosts of {}", host_count, hosts));
    }
    counts.insert(counts.end(), static_cast<size_t>(*times), *count);
    if (item.size() == left.size()) break;
    left.remove_prefix(item.size() + 1);
  }
  if (counts.size() == host_count) return counts;
  return variable.WrongAt(variable.value.size(), fmt::format("{} counts for the {} hosts of {}",
                                                             counts.size(), host_count, hosts));
}

/// One number, the same for each host.
Result<std::vector<int>> ParseCount(const Variable& variable, size_t host_count) {
  const std::optional<int> count = ParseSlots(variable.value);
  if (!count) {
    return variable.WrongAt(
        0, fmt::format("'{}' is not a number from 0 to {}", ShownText(variable.value), kMaxSlots));
  }
  return std::vector<int>(host_count, *count);
}

Result<std::vector<int>> SlurmSlots(const Environment& environment, const Variable& hosts,
                                    size_t host_count) {
  if (const auto tasks = Find(environment, "SLURM_TASKS_PER_NODE")) {
    return ParseCounts(*tasks, hosts.name, host_count);
  }
  if (const auto tasks = Find(environment, "SLURM_NTASKS_PER_NODE")) {
    return ParseCount(*tasks, host_count);
  }
  if (const auto cpus = Find(environment, "SLURM_JOB_CPUS_PER_NODE")) {
    return ParseCounts(*cpus, hosts.name, host_count);
  }
  const auto cpus = Find(environment, "SLURM_CPUS_ON_NODE");
  if (cpus && host_count == 1) return ParseCount(*cpus, host_count);
  return Wrong("env " + hosts.name,
               fmt::format("no variable gives the tasks of each of its {} hosts: "
                           "SLURM_TASKS_PER_NODE is not set",
                           host_count));
}

Result<std::vector<std::string>> SlurmNames(const Variable& variable) {
  std::vector<std::string> names;
  std::unordered_map<std::string, size_t> item_of;
  for (const std::string_view item : SplitHostItems(variable.value)) {
    const size_t offset = variable.OffsetOf(item);
    size_t next = names.size();
    if (const auto fault = ExpandHostRange(item, kMaxHosts - next, &names)) {
      return variable.WrongAt(offset + fault->offset, fault->message);
    }
    for (; next < names.size(); ++next) {
      if (item_of.emplace(HostNameKey(names[next]), offset).second) continue;
      return variable.WrongAt(offset, fmt::format("host {} is listed twice", names[next]));
    }
  }
  return names;
}

std::vector<HostSlots> WithSlots(const std::vector<std::string>& names,
                                 const std::vector<int>& slots) {
  std::vector<HostSlots> hosts;
  for (size_t i = 0; i < names.size(); ++i) hosts.push_back(MakeHostSlots(names[i], slots[i]));
  return hosts;
}

Result<std::vector<HostSlots>> SlurmJobHosts(const Environment& environment,
                                             const Variable& variable) {
  HVDRAY_ASSIGN_OR_RETURN(const std::vector<std::string> names, SlurmNames(variable));
  HVDRAY_ASSIGN_OR_RETURN(const std::vector<int> slots,
                          SlurmSlots(environment, variable, names.size()));
  return WithSlots(names, slots);
}

/// The steps of salloc's shell (LaunchParameters=use_interactive_step) and of sbatch's script: one
/// task on the first host, which is meant to use the others.
bool IsWholeAllocation(const Environment& environment) {
  const std::string step = environment.GetOr("SLURM_STEP_ID", "");
  return step == "4294967290" || step == "4294967291";
}

/// The step in which this process runs, unless that step stands for the whole allocation.
std::optional<Variable> FindSlurmStep(const Environment& environment) {
  if (IsWholeAllocation(environment)) return std::nullopt;
  return Find(environment, "SLURM_STEP_NODELIST");
}

/// The number of the parent in a text of /proc/PID/stat: "PID (NAME) STATE PARENT ...". The name
/// may have blanks and parentheses.
std::string_view ParentIn(std::string_view stat) {
  const size_t name_end = stat.rfind(')');
  if (name_end == std::string_view::npos) return {};
  const std::vector<std::string_view> words = BlankSeparated(stat.substr(name_end + 1));
  return words.size() > 1 ? words[1] : std::string_view();
}

/// The name of the process in such a text; the kernel cuts it after 15 bytes.
std::string_view NameIn(std::string_view stat) {
  const size_t begin = stat.find('(');
  const size_t end = stat.rfind(')');
  if (begin == std::string_view::npos || end == std::string_view::npos || end < begin) return {};
  return stat.substr(begin + 1, end - begin - 1);
}

/// The process above this one that starts the tasks of an MPI job here; empty: none. Source: Open
/// MPI 4 and 5 (orted, prted), MPICH, Intel MPI and MVAPICH (hydra).
std::string MpiStarterAbove(const ReadWholeFile& read) {
  constexpr auto kStarters = std::to_array<std::string_view>(
      {"mpirun", "mpiexec", "orterun", "orted", "prterun", "prte", "prted", "mpiexec.hydra",
       "hydra_pmi_proxy", "hydra_bstrap_pr"});
  constexpr int kMostAbove = 256;
  std::string pid = "self";
  for (int i = 0; i < kMostAbove && pid != "0"; ++i) {
    const auto stat = read(fmt::format("/proc/{}/stat", pid));
    if (!stat.ok() || !*stat) return {};
    const std::string_view name = NameIn(**stat);
    if (std::ranges::find(kStarters, name) != kStarters.end()) return std::string(name);
    pid = ParentIn(**stat);
    if (!IsAllDigits(pid)) return {};
  }
  return {};
}

/// Whether Slurm has started SLURM_TASK_PID, on this host, as the script of a batch job.
bool IsBatchScript(const Environment& environment, const ReadWholeFile& read) {
  const std::string pid = environment.GetOr("SLURM_TASK_PID", "");
  if (pid.empty() || !IsAllDigits(pid)) return false;
  const auto stat = read(fmt::format("/proc/{}/stat", pid));
  if (!stat.ok() || !*stat) return false;
  const std::string_view parent = ParentIn(**stat);
  if (parent.empty() || !IsAllDigits(parent)) return false;
  const auto title = read(fmt::format("/proc/{}/cmdline", parent));
  return title.ok() && *title && (*title)->find(".batch]") != std::string::npos;
}

/// nullopt: the step is another job's, inherited by running sbatch or salloc within it.
Result<std::optional<std::vector<HostSlots>>> SlurmStepHosts(const Environment& environment,
                                                             const Variable& step,
                                                             const Variable& job) {
  HVDRAY_ASSIGN_OR_RETURN(const std::vector<std::string> names, SlurmNames(step));
  HVDRAY_ASSIGN_OR_RETURN(const std::vector<std::string> job_names, SlurmNames(job));
  std::unordered_map<std::string, size_t> index;
  for (size_t i = 0; i < job_names.size(); ++i) index.emplace(job_names[i], i);
  for (const std::string& name : names) {
    if (!index.contains(name)) return std::optional<std::vector<HostSlots>>();
  }
  if (const auto tasks = Find(environment, "SLURM_STEP_TASKS_PER_NODE")) {
    HVDRAY_ASSIGN_OR_RETURN(const std::vector<int> slots,
                            ParseCounts(*tasks, step.name, names.size()));
    return std::optional(WithSlots(names, slots));
  }
  // Within a step, SLURM_TASKS_PER_NODE describes the step if srun has set it, otherwise the job.
  // Its length shows which; if both have the same length, they have the same hosts.
  Result<std::vector<int>> slots = SlurmSlots(environment, step, names.size());
  if (!slots.ok()) {
    HVDRAY_ASSIGN_OR_RETURN(const std::vector<int> of_job,
                            SlurmSlots(environment, job, job_names.size()));
    slots = std::vector<int>();
    for (const std::string& name : names) slots->push_back(of_job[index.at(name)]);
  }
  return std::optional(WithSlots(names, *slots));
}

/// Hosts that `variable` names.
Setting<std::vector<HostSlots>> HostsOf(std::vector<HostSlots> hosts, const Variable& variable) {
  Setting<std::vector<HostSlots>> found;
  found.Set(std::move(hosts), fmt::format("env {}", variable.name));
  return found;
}

Result<Setting<std::vector<HostSlots>>> SlurmHosts(const Environment& environment,
                                                   const Variable& job) {
  if (const auto step = FindSlurmStep(environment)) {
    HVDRAY_ASSIGN_OR_RETURN(std::optional<std::vector<HostSlots>> hosts,
                            SlurmStepHosts(environment, *step, job));
    if (hosts) return HostsOf(*std::move(hosts), *step);
  }
  HVDRAY_ASSIGN_OR_RETURN(std::vector<HostSlots> hosts, SlurmJobHosts(environment, job));
  return HostsOf(std::move(hosts), job);
}

Result<std::vector<HostSlots>> PbsHosts(const Variable& variable, const ReadWholeFile& read) {
  HVDRAY_ASSIGN_OR_RETURN(const std::optional<std::string> text, read(variable.value));
  const std::string path = ShownText(variable.value);
  if (!text) {
    return Status(ErrorCode::kFileUnreadable, fmt::format("env PBS_NODEFILE: no file '{}'", path),
                  std::string(kHint));
  }
  SlotCounter counter;
  bool is_empty = true;
  size_t number = 0;
  for (const std::string_view line : LinesOf(*text)) {
    ++number;
    const std::vector<std::string_view> words = BlankSeparated(line);
    if (words.empty()) continue;
    is_empty = false;
    const std::string wrong =
        words.size() > 1 ? fmt::format("unexpected '{}' after the host", ShownText(words[1]))
                         : counter.Add(words[0], 1);
    if (wrong.empty()) continue;
    const auto column = static_cast<size_t>(words[words.size() > 1].data() - line.data()) + 1;
    return Wrong(fmt::format("env PBS_NODEFILE: {}:{}:{}", path, number, column), wrong);
  }
  if (is_empty) return Wrong("env PBS_NODEFILE: " + path, "the file names no host");
  return std::move(counter).Take();
}

Result<std::vector<HostSlots>> LsfHosts(const Variable& variable) {
  const std::vector<std::string_view> words = BlankSeparated(variable.value);
  if (words.empty()) return variable.WrongAt(0, "it names no host");
  SlotCounter counter;
  for (const std::string_view word : words) {
    const std::string wrong = counter.Add(word, 1);
    if (!wrong.empty()) return variable.WrongAt(variable.OffsetOf(word), wrong);
  }
  return std::move(counter).Take();
}

Result<std::vector<HostSlots>> LsfCountedHosts(const Variable& variable) {
  const std::vector<std::string_view> words = BlankSeparated(variable.value);
  if (words.empty()) return variable.WrongAt(0, "it names no host");
  SlotCounter counter;
  for (size_t i = 0; i < words.size(); i += 2) {
    if (i + 1 == words.size()) {
      return variable.WrongAt(variable.value.size(),
                              fmt::format("host {} has no slots", ShownText(words[i])));
    }
    const std::optional<int> slots = ParseSlots(words[i + 1]);
    if (!slots) {
      return variable.WrongAt(
          variable.OffsetOf(words[i + 1]),
          fmt::format("'{}' is not a number from 0 to {}", ShownText(words[i + 1]), kMaxSlots));
    }
    const std::string wrong = counter.Add(words[i], *slots);
    if (!wrong.empty()) return variable.WrongAt(variable.OffsetOf(words[i]), wrong);
  }
  return std::move(counter).Take();
}

}  // namespace

Result<std::optional<Setting<std::vector<HostSlots>>>> FindAllocation(
    const Environment& environment, const ReadWholeFile& read, BatchSystems systems) {
  std::optional<Setting<std::vector<HostSlots>>> found;
  const bool is_any = systems == BatchSystems::kAll;
  const auto slurm = Find(environment, "SLURM_JOB_NODELIST");
  const auto pbs = Find(environment, "PBS_NODEFILE");
  if (is_any && slurm) {
    HVDRAY_ASSIGN_OR_RETURN(found, SlurmHosts(environment, *slurm));
  } else if (is_any && pbs) {
    HVDRAY_ASSIGN_OR_RETURN(std::vector<HostSlots> hosts, PbsHosts(*pbs, read));
    found = HostsOf(std::move(hosts), *pbs);
  } else if (const auto lsf = Find(environment, "LSB_HOSTS")) {
    HVDRAY_ASSIGN_OR_RETURN(std::vector<HostSlots> hosts, LsfHosts(*lsf));
    found = HostsOf(std::move(hosts), *lsf);
  } else if (const auto counted = Find(environment, "LSB_MCPU_HOSTS")) {
    HVDRAY_ASSIGN_OR_RETURN(std::vector<HostSlots> hosts, LsfCountedHosts(*counted));
    found = HostsOf(std::move(hosts), *counted);
  }
  return found;
}

namespace {

Status CheckSlurmStep(const Environment& environment, const ReadWholeFile& read) {
  const std::optional<int> tasks = ParseSlots(environment.GetOr("SLURM_STEP_NUM_TASKS", ""));
  if (tasks.value_or(1) <= 1 || IsWholeAllocation(environment)) return {};
  if (IsBatchScript(environment, read)) return {};
  // srun --pty: only the first task has the terminal; the others' shells end at once.
  if (Find(environment, "SLURM_PTY_PORT") || Find(environment, "SLURM_PTY_WIN_COL")) return {};
  return {
      ErrorCode::kUsage,
      fmt::format("srun runs this command as {} tasks, and each would start a whole job", *tasks),
      "leave out srun: hvdray starts the workers on all hosts of the job; or run it as one task: "
      "srun --ntasks=1 hvdray run -H HOST:SLOTS,..."};
}

/// The variables alone prove nothing: a shell or a batch job may have inherited them.
Status CheckMpiTasks(const Environment& environment, const ReadWholeFile& read) {
  for (const char* name : {"OMPI_COMM_WORLD_SIZE", "PMI_SIZE"}) {
    const int tasks = ParseSlots(environment.GetOr(name, "")).value_or(1);
    const std::string starter = tasks > 1 ? MpiStarterAbove(read) : "";
    if (starter.empty()) continue;
    return {ErrorCode::kUsage,
            fmt::format("{} runs this command as {} tasks, and each would start a whole job",
                        starter, tasks),
            "leave out mpirun: hvdray starts the workers on all hosts itself; or run it as one "
            "task: mpirun -n 1 --bind-to none hvdray run -H HOST:SLOTS,..."};
  }
  return {};
}

}  // namespace

Status CheckSingleStart(const Environment& environment, const ReadWholeFile& read) {
  HVDRAY_RETURN_IF_ERROR(CheckSlurmStep(environment, read));
  return CheckMpiTasks(environment, read);
}

}  // namespace hvdray
