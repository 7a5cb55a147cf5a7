// SPDX-License-Identifier: Apache-2.0
#include "launcher/report/host_differences.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <functional>
#include <map>
#include <optional>
#include <set>
#include <utility>

#include "launcher/job/hostfile.h"

namespace hvdray {
namespace {

// More would not fit on a screen; --json has all.
constexpr size_t kMaxShownRows = 12;
constexpr size_t kMaxShownGroups = 3;
constexpr size_t kMaxShownValue = 160;
constexpr char kLacking[] = "none";
constexpr char kOfLogin[] = "login";

/// nullopt: unknown.
using ValueOf = std::function<std::optional<std::string>(const CheckedHost&)>;

std::optional<std::string> IfAny(std::string text) {
  if (text.empty()) return std::nullopt;
  return text;
}

std::optional<std::string> Package(const CheckedHost& host, const std::string& name) {
  for (const wire::PackageFacts& package : host.inspection->packages) {
    if (package.name == name) return package.version;
  }
  if (host.inspection->packages.empty()) return std::nullopt;
  return kLacking;
}

std::optional<std::string> Python(const CheckedHost& host) {
  constexpr std::string_view kWord = "Python ";
  const std::string& version = host.inspection->command_version;
  if (version.starts_with(kWord)) return version.substr(kWord.size());
  return Package(host, "Python");
}

/// The variables of this machine's agent are hvdray's own: no login made them.
std::optional<std::string> VariableOf(const CheckedHost& host, const std::string& name,
                                      const std::string& source) {
  const std::vector<wire::VariableFacts>& variables = host.inspection->variables;
  if (variables.empty() || (source == kOfLogin && !host.is_remote)) return std::nullopt;
  // The last one counts: it is of the user's file.
  const auto found = std::find_if(variables.rbegin(), variables.rend(), [&](const auto& variable) {
    return variable.name == name && variable.source == source;
  });
  return found == variables.rend() ? kLacking : found->value;
}

class Collector {
 public:
  explicit Collector(const CheckFacts& facts) {
    for (const CheckedHost& host : facts.hosts) {
      if (host.lost.ok() && host.inspection) hosts_.push_back(&host);
    }
  }

  std::vector<HostDifference> Collect() {
    Add("machine", [](const CheckedHost& host) { return IfAny(host.facts.machine); });
    Add("system", [](const CheckedHost& host) { return IfAny(host.inspection->distribution); });
    Add("kernel", [](const CheckedHost& host) { return IfAny(host.inspection->kernel); });
    Add("libc", [](const CheckedHost& host) { return IfAny(host.inspection->libc); });
    Add("Python", &Python);
    for (const char* name : {"torch", "horovod", "NCCL"}) {
      Add(name, [name](const CheckedHost& host) { return Package(host, name); });
    }
    Add("modules", [](const CheckedHost& host) { return IfAny(ShowModules(*host.inspection)); });
    Add("GPU driver", [](const CheckedHost& host) { return IfAny(host.inspection->gpu_driver); });
    Add("GPUs", [](const CheckedHost& host) { return IfAny(ShowGpus(*host.inspection)); });
    Add("NVLinks", [](const CheckedHost& host) { return IfAny(ShowNvlinks(*host.inspection)); });
    AddVariables();
    return std::move(differences_);
  }

 private:
  void Add(std::string name, const ValueOf& value_of, bool is_of_workers = true) {
    std::vector<SharedValue> values;
    for (const CheckedHost* host : hosts_) {
      const std::optional<std::string> value = value_of(*host);
      if (!value) continue;
      auto found = std::find_if(values.begin(), values.end(),
                                [&](const SharedValue& known) { return known.value == *value; });
      if (found == values.end()) found = values.insert(values.end(), {*value, {}});
      found->hosts.push_back(host->name);
    }
    if (values.size() < 2) return;
    std::stable_sort(values.begin(), values.end(), [](const SharedValue& a, const SharedValue& b) {
      return a.hosts.size() > b.hosts.size();
    });
    differences_.push_back({std::move(name), is_of_workers, std::move(values)});
  }

  void AddVariables() {
    std::set<std::pair<std::string, std::string>> names;  // source, name
    for (const CheckedHost* host : hosts_) {
      for (const wire::VariableFacts& variable : host->inspection->variables) {
        names.insert({variable.source, variable.name});
      }
    }
    for (const auto& [source, name] : names) {
      const auto value_of = [&name = name, &source = source](const CheckedHost& host) {
        return VariableOf(host, name, source);
      };
      Add(fmt::format("{} ({})", name, source), value_of, source != kOfLogin);
    }
  }

  std::vector<const CheckedHost*> hosts_;
  std::vector<HostDifference> differences_;
};

std::string RowsOf(const std::vector<std::pair<std::string, std::string>>& rows) {
  size_t width = 0;
  for (const auto& [name, value] : rows) width = std::max(width, name.size());
  std::string text;
  for (size_t i = 0; i < std::min(rows.size(), kMaxShownRows); ++i) {
    const std::string& value = rows[i].second;
    text += fmt::format("  {:<{}}  {}{}\n", rows[i].first, width, value.substr(0, kMaxShownValue),
                        value.size() > kMaxShownValue ? "..." : "");
  }
  if (rows.size() > kMaxShownRows) {
    text += fmt::format("  and {} more, see --json\n", rows.size() - kMaxShownRows);
  }
  return text;
}

}  // namespace

std::vector<HostDifference> Differences(const CheckFacts& facts) {
  return Collector(facts).Collect();
}

std::string DifferencesText(const CheckFacts& facts) {
  using NamedValues = std::vector<std::pair<std::string, std::string>>;
  const std::vector<HostDifference> differences = Differences(facts);
  if (differences.empty()) return {};
  NamedValues most;
  std::map<std::string, NamedValues> by_host;
  for (const HostDifference& difference : differences) {
    most.emplace_back(difference.name, difference.values[0].value);
    for (size_t i = 1; i < difference.values.size(); ++i) {
      for (const std::string& host : difference.values[i].hosts) {
        by_host[host].emplace_back(difference.name, difference.values[i].value);
      }
    }
  }
  // In the order of the hosts; those that differ in the same way together.
  std::vector<std::pair<NamedValues, std::vector<std::string>>> groups;
  for (const CheckedHost& host : facts.hosts) {
    const auto own = by_host.find(host.name);
    if (own == by_host.end()) continue;
    auto found = std::find_if(groups.begin(), groups.end(),
                              [&](const auto& group) { return group.first == own->second; });
    if (found == groups.end()) found = groups.insert(groups.end(), {own->second, {}});
    found->second.push_back(host.name);
  }
  std::string text = "hosts differ; most have\n" + RowsOf(most);
  for (size_t i = 0; i < std::min(groups.size(), kMaxShownGroups); ++i) {
    text += CompressHostList(groups[i].second) + '\n' + RowsOf(groups[i].first);
  }
  if (groups.size() > kMaxShownGroups) {
    text +=
        fmt::format("and {} more kinds of hosts, see --json\n", groups.size() - kMaxShownGroups);
  }
  const bool has_login =
      std::any_of(differences.begin(), differences.end(),
                  [](const HostDifference& difference) { return !difference.is_of_workers; });
  if (has_login) text += "(login: what a login there sets; workers get hvdray's environment)\n";
  return text + '\n';
}

void JudgeDifferences(const CheckFacts& facts, std::vector<Finding>& findings) {
  std::vector<std::string> names;
  for (const HostDifference& difference : Differences(facts)) {
    if (difference.is_of_workers) names.push_back(difference.name);
  }
  if (names.empty()) return;
  findings.push_back({"differences",
                      ErrorCode::kOk,
                      fmt::format("the hosts differ in {}", fmt::join(names, ", ")),
                      "a program built on one may fail or be slower on another: use one image",
                      {}});
}

}  // namespace hvdray
