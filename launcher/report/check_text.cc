// SPDX-License-Identifier: Apache-2.0
#include "launcher/report/check_text.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <utility>
#include <vector>

#include "base/text.h"
#include "launcher/job/hostfile.h"
#include "launcher/report/facts_json.h"
#include "launcher/report/host_differences.h"

namespace hvdray {
namespace {

// More would not fit on a screen; --json has all.
constexpr size_t kMaxBlocks = 5;
constexpr size_t kMaxAddresses = 4;

/// Hosts that share all that a block prints, but for numbers that always differ.
struct Block {
  std::string what;  ///< The lines that all share.
  std::vector<const CheckedHost*> hosts;
};

std::string Joined(const std::vector<std::string>& parts) {
  std::string text;
  for (const std::string& part : parts) {
    if (!part.empty()) text += (text.empty() ? "" : ", ") + part;
  }
  return text;
}

std::string Line(std::string_view name, std::string_view text) {
  return text.empty() ? "" : fmt::format("  {:<9} {}\n", name, text);
}

std::string ShowLimits(const wire::Inspection& inspection) {
  std::vector<std::string> parts;
  for (const wire::LimitFacts& limit : inspection.limits) {
    const bool is_count = limit.name == "nofile" || limit.name == "nproc";
    parts.push_back(fmt::format("{} {}", limit.name,
                                is_count && limit.soft != UINT64_MAX ? fmt::format("{}", limit.soft)
                                                                     : ShowBytes(limit.soft)));
  }
  return Joined(parts);
}

std::string ShowMemory(const wire::Inspection& inspection) {
  if (inspection.memory_bytes == 0) return {};
  std::string text = fmt::format("{} memory", ShowBytes(inspection.memory_bytes));
  if (inspection.memory_limit_bytes > 0) {
    text += fmt::format(" (limited to {})", ShowBytes(inspection.memory_limit_bytes));
  }
  return text;
}

std::string WhatIsAlike(const CheckFacts& facts, const CheckedHost& host) {
  if (!host.inspection) return {};
  const wire::Inspection& inspection = *host.inspection;
  const std::string kernel =
      inspection.kernel.empty() ? "" : fmt::format("kernel {}", inspection.kernel);
  std::string text = Line("system", Joined({inspection.distribution, kernel, inspection.libc,
                                            host.facts.machine, host.build}));
  std::string gpus = ShowGpus(inspection);
  if (!inspection.gpu_driver.empty()) {
    gpus += fmt::format(" (driver {})", inspection.gpu_driver);
  } else if (inspection.gpus.empty() && inspection.gpu_device_count == 0) {
    gpus += " (no NVIDIA driver)";
  }
  if (inspection.infiniband_count > 0) {
    gpus += fmt::format(", {} InfiniBand", inspection.infiniband_count);
  }
  text +=
      Line("machine", Joined({Count(host.facts.cpu_count, "CPU"), ShowMemory(inspection), gpus}));
  text += Line("limits", ShowLimits(inspection));
  text += Line("cleanup", host.facts.cleanup);
  if (!facts.command.empty() && inspection.command_error == 0) {
    text += Line("command", Joined({inspection.command_path, inspection.command_version}));
  }
  text += Line("modules", ShowModules(inspection));
  return text;
}

std::vector<Block> Blocks(const CheckFacts& facts) {
  std::vector<Block> blocks;
  for (const CheckedHost& host : facts.hosts) {
    if (!host.lost.ok()) continue;
    const std::string what = WhatIsAlike(facts, host);
    const auto found = std::find_if(blocks.begin(), blocks.end(), [&](const Block& block) {
      const CheckedHost& first = *block.hosts[0];
      return block.what == what && first.workers == host.workers && first.nic == host.nic &&
             first.is_remote == host.is_remote;
    });
    if (found != blocks.end()) {
      found->hosts.push_back(&host);
    } else {
      blocks.push_back({what, {&host}});
    }
  }
  return blocks;
}

std::vector<std::string> Names(const Block& block) {
  std::vector<std::string> names;
  for (const CheckedHost* host : block.hosts) names.push_back(host->name);
  return names;
}

double ToSeconds(std::chrono::nanoseconds time) {
  return std::chrono::duration<double>(time).count();
}

std::string ShowReady(const Block& block) {
  double least = 1e9;
  double most = 0;
  for (const CheckedHost* host : block.hosts) {
    if (!host->ready_after) continue;
    least = std::min(least, ToSeconds(*host->ready_after));
    most = std::max(most, ToSeconds(*host->ready_after));
  }
  if (least > most) return "ready";
  const std::string from = fmt::format("{:.2f}", least);
  const std::string to = fmt::format("{:.2f}", most);
  return from == to ? fmt::format("ready in {} s", to) : fmt::format("ready in {}-{} s", from, to);
}

std::string ShowNetwork(const CheckFacts& facts, const Block& block) {
  const CheckedHost& first = *block.hosts[0];
  if (first.nic.empty()) return {};
  std::string text = first.nic;
  for (size_t i = 0; i < std::min(block.hosts.size(), kMaxAddresses); ++i) {
    text += fmt::format("{} {}", i == 0 ? "" : ",", block.hosts[i]->address);
  }
  if (block.hosts.size() > kMaxAddresses) text += ", ...";
  const bool is_proved = facts.is_probed && facts.closed_ways.empty();
  return text + (is_proved ? "; all hosts reach each other" : "");
}

std::string ShowClock(const Block& block) {
  std::chrono::nanoseconds most{-1};
  for (const CheckedHost* host : block.hosts) {
    if (!host->clock) continue;
    const std::chrono::nanoseconds off(std::abs(host->clock->offset.count()));
    most = std::max(most, off + host->clock->bound);
  }
  if (most.count() < 0) return {};
  const double seconds = ToSeconds(most);
  return seconds < 1 ? fmt::format("within {:.2g} ms of ours", std::max(seconds * 1e3, 0.01))
                     : fmt::format("off by up to {:.1f} s", seconds);
}

/// The least that any of them has free, since a job hits that limit first.
std::string ShowFree(const Block& block) {
  const std::pair<const char*, const char*> uses[] = {{"agent", "agent"},
                                                      {"home", "home"},
                                                      {"working", "working directory"},
                                                      {"tmp", "/tmp"},
                                                      {"shm", "/dev/shm"}};
  std::vector<std::string> parts;
  uint64_t memory = UINT64_MAX;
  for (const CheckedHost* host : block.hosts) {
    if (host->inspection) memory = std::min(memory, host->inspection->available_bytes);
  }
  if (memory != UINT64_MAX) parts.push_back(fmt::format("memory {}", ShowBytes(memory)));
  for (const auto& [use, name] : uses) {
    uint64_t least = UINT64_MAX;
    for (const CheckedHost* host : block.hosts) {
      if (!host->inspection) continue;
      for (const wire::DirectoryFacts& directory : host->inspection->directories) {
        const bool is_known =
            directory.use == use && directory.error == 0 && directory.total_bytes > 0;
        if (is_known) least = std::min(least, directory.free_bytes);
      }
    }
    if (least != UINT64_MAX) parts.push_back(fmt::format("{} {}", name, ShowBytes(least)));
  }
  return Joined(parts);
}

std::string ToText(const CheckFacts& facts, const Block& block) {
  const CheckedHost& first = *block.hosts[0];
  std::string text =
      fmt::format("{}: {}{}, {}{}\n", CompressHostList(Names(block)),
                  Count(first.workers, "worker"), block.hosts.size() == 1 ? "" : " each",
                  ShowReady(block), first.is_remote ? "" : ", this machine");
  return text + block.what + Line("free", ShowFree(block)) +
         Line("network", ShowNetwork(facts, block)) + Line("clock", ShowClock(block)) + "\n";
}

/// What pairs of hosts have measured, or why there are none.
std::string TextOfPairs(const CheckFacts& facts, Shades shades) {
  std::string matrix = MatrixText(facts, shades);
  const auto placed =
      std::count_if(facts.hosts.begin(), facts.hosts.end(),
                    [](const CheckedHost& host) { return host.lost.ok() && !host.nic.empty(); });
  if (!matrix.empty() || placed == 0 || facts.is_probed) return matrix;
  if (facts.hosts.size() == 1) return "one host: no pairs to measure\n\n";
  return placed == 1 ? "one host is left: no pairs to measure\n\n"
                     : "all hosts are on this machine: no pairs to measure\n\n";
}

std::string ToText(std::span<const Finding> findings) {
  std::string text;
  for (const Finding& finding : findings) {
    const bool is_error = finding.is_error();
    const std::string label =
        finding.code == ErrorCode::kOk ? "" : fmt::format(" [{}]", ErrorLabel(finding.code));
    text += fmt::format("{}: {}{}\n  hint: {}\n", is_error ? "error" : "warning", finding.text,
                        label, finding.hint);
  }
  return text.empty() ? text : text + "\n";
}

Json TextOrNull(const std::string& text) { return text.empty() ? Json(nullptr) : Json(text); }

/// Rounded to microseconds.
Json SecondsJson(std::chrono::nanoseconds time) {
  return std::round(std::chrono::duration<double>(time).count() * 1e6) / 1e6;
}

Json LimitJson(uint64_t limit) { return limit == UINT64_MAX ? Json(nullptr) : Json(limit); }

Json InspectionJson(const wire::Inspection& inspection) {
  Json json;
  json["kernel"] = TextOrNull(inspection.kernel);
  json["distribution"] = TextOrNull(inspection.distribution);
  json["libc"] = TextOrNull(inspection.libc);
  json["memory_bytes"] = inspection.memory_bytes;
  json["memory_available_bytes"] = inspection.available_bytes;
  json["memory_limit_bytes"] =
      inspection.memory_limit_bytes == 0 ? Json(nullptr) : Json(inspection.memory_limit_bytes);
  json["folders"] = Json::array();
  for (const wire::DirectoryFacts& directory : inspection.directories) {
    json["folders"].push_back({{"use", directory.use},
                               {"path", TextOrNull(directory.path)},
                               {"errno", directory.error},
                               {"writable", directory.is_writable},
                               {"noexec", directory.is_noexec},
                               {"total_bytes", directory.total_bytes},
                               {"free_bytes", directory.free_bytes}});
  }
  json["limits"] = Json::object();
  for (const wire::LimitFacts& limit : inspection.limits) {
    json["limits"][limit.name] = {{"soft", LimitJson(limit.soft)}, {"hard", LimitJson(limit.hard)}};
  }
  json["gpus"] = Json::array();
  for (const wire::GpuFacts& gpu : inspection.gpus) {
    json["gpus"].push_back(
        {{"name", gpu.name},
         {"memory_bytes", gpu.memory_bytes == 0 ? Json(nullptr) : Json(gpu.memory_bytes)},
         {"ecc_errors", gpu.ecc_errors < 0 ? Json(nullptr) : Json(gpu.ecc_errors)},
         {"throttle_reasons", gpu.throttle_reasons},
         {"nvlinks", gpu.nvlinks}});
  }
  json["gpu_devices"] = inspection.gpu_device_count;
  json["gpu_driver"] = TextOrNull(inspection.gpu_driver);
  json["infiniband_devices"] = inspection.infiniband_count;
  json["command_path"] = TextOrNull(inspection.command_path);
  json["command_version"] = TextOrNull(inspection.command_version);
  json["missing_files"] = Json::array();
  for (const wire::MissingFile& file : inspection.missing_files) {
    json["missing_files"].push_back({{"path", file.path}, {"errno", file.error}});
  }
  json["modules"] = Json::array();
  for (const wire::ModuleFacts& module : inspection.modules) {
    json["modules"].push_back({{"name", module.name},
                               {"version", TextOrNull(module.version)},
                               {"error", TextOrNull(module.trouble)}});
  }
  json["packages"] = Json::array();
  for (const wire::PackageFacts& package : inspection.packages) {
    json["packages"].push_back({{"name", package.name}, {"version", package.version}});
  }
  json["variables"] = Json::array();
  for (const wire::VariableFacts& variable : inspection.variables) {
    json["variables"].push_back(
        {{"name", variable.name}, {"value", variable.value}, {"source", variable.source}});
  }
  json["name_addresses"] = inspection.name_addresses;
  json["unanswered"] = inspection.unanswered;
  return json;
}

/// Numbers of a pair without any are null.
Json PairJson(const CheckFacts& facts, const MeasuredPair& pair) {
  const bool is_measured = pair.why.ok();
  const auto rate = [is_measured](double bytes_per_s) {
    return is_measured ? Json(std::round(bytes_per_s)) : Json(nullptr);
  };
  Json json;
  json["from"] = facts.hosts[pair.from].name;
  json["to"] = facts.hosts[pair.to].name;
  json["round_trip_s"] = is_measured ? Json(ToSeconds(pair.round_trip)) : Json(nullptr);
  json["bytes_per_s"] = rate(pair.there);
  json["back_bytes_per_s"] = rate(pair.back);
  json["error"] = ErrorJson(pair.why);
  return json;
}

Json DifferenceJson(const HostDifference& difference) {
  Json json;
  json["name"] = difference.name;
  json["of_workers"] = difference.is_of_workers;
  json["values"] = Json::array();
  for (const SharedValue& shared : difference.values) {
    json["values"].push_back({{"value", shared.value}, {"hosts", shared.hosts}});
  }
  return json;
}

Json MediansJson(const CheckFacts& facts) {
  const NetworkMedians medians = Medians(facts.pairs);
  if (medians.bytes_per_s == 0) return nullptr;
  return {{"round_trip_s", medians.round_trip_s}, {"bytes_per_s", std::round(medians.bytes_per_s)}};
}

Json InterfacesJson(const wire::HostFacts& facts) {
  Json interfaces = Json::array();
  for (const wire::InterfaceFacts& face : facts.interfaces) {
    Json addresses = Json::array();
    for (const wire::InterfaceAddress& address : face.addresses) {
      addresses.push_back(address.address);
    }
    interfaces.push_back(
        {{"name", face.name},
         {"addresses", std::move(addresses)},
         {"up", face.is_up},
         {"speed_mbps", face.speed_mbps == 0 ? Json(nullptr) : Json(face.speed_mbps)}});
  }
  return interfaces;
}

Json HostJson(const CheckedHost& host) {
  Json json;
  json["name"] = host.name;
  json["slots"] = host.slots;
  json["workers"] = host.workers;
  json["remote"] = host.is_remote;
  json["ready"] = host.lost.ok();
  json["error"] = ErrorJson(host.lost);
  json["ready_after_s"] = host.ready_after ? SecondsJson(*host.ready_after) : Json(nullptr);
  json["agent"] = TextOrNull(host.build);
  json["host_name"] = TextOrNull(host.facts.host_name);
  json["machine"] = TextOrNull(host.facts.machine);
  json["cpus"] = host.facts.cpu_count;
  json["cleanup"] = TextOrNull(host.facts.cleanup);
  json["interface"] = TextOrNull(host.nic);
  json["address"] = TextOrNull(host.address);
  json["interfaces"] = InterfacesJson(host.facts);
  json["clock"] = nullptr;
  if (host.clock) {
    json["clock"] = {{"offset_s", SecondsJson(host.clock->offset)},
                     {"bound_s", SecondsJson(host.clock->bound)}};
  }
  json["facts"] = host.inspection ? InspectionJson(*host.inspection) : Json(nullptr);
  return json;
}

Json FindingJson(const Finding& finding) {
  const bool is_coded = finding.code != ErrorCode::kOk;
  Json json;
  json["level"] = finding.is_error() ? "error" : "warning";
  json["kind"] = finding.kind;
  json["code"] = is_coded ? Json(ErrorLabel(finding.code)) : Json(nullptr);
  json["name"] = is_coded ? Json(InfoOf(finding.code).name) : Json(nullptr);
  json["message"] = finding.text;
  json["hint"] = finding.hint;
  json["hosts"] = finding.hosts;
  return json;
}

}  // namespace

std::string CheckText(const CheckFacts& facts, std::span<const Finding> findings, Shades shades) {
  const auto ready =
      static_cast<size_t>(std::count_if(facts.hosts.begin(), facts.hosts.end(),
                                        [](const CheckedHost& host) { return host.lost.ok(); }));
  std::string text = fmt::format("{}: {} of {} ready, for {}\n\n", facts.build, ready,
                                 Count(facts.hosts.size(), "host"), Count(facts.np, "worker"));
  const std::vector<Block> blocks = Blocks(facts);
  for (size_t i = 0; i < std::min(blocks.size(), kMaxBlocks); ++i) {
    text += ToText(facts, blocks[i]);
  }
  if (blocks.size() > kMaxBlocks) {
    std::vector<std::string> others;
    for (size_t i = kMaxBlocks; i < blocks.size(); ++i) {
      for (std::string& name : Names(blocks[i])) others.push_back(std::move(name));
    }
    text += fmt::format("{}: further kinds of hosts, see --json\n\n", CompressHostList(others));
  }
  text += TextOfPairs(facts, shades) + DifferencesText(facts);
  if (!facts.unused_hosts.empty()) {
    text += fmt::format("{}: not checked, would get no workers\n\n",
                        CompressHostList(facts.unused_hosts));
  }
  text += ToText(findings);
  const auto errors = static_cast<size_t>(std::count_if(
      findings.begin(), findings.end(), [](const Finding& finding) { return finding.is_error(); }));
  return text + fmt::format("{}: {}, {}\n",
                            errors == 0 ? "a job would start" : "a job would not start",
                            Count(errors, "error"), Count(findings.size() - errors, "warning"));
}

// `hvdray check --json`: docs/check.md is the normative text.

std::string CheckJson(const CheckFacts& facts, std::span<const Finding> findings) {
  const int exit_code = ExitCode(findings);
  Json json;
  json["schema"] = kCheckSchema;
  json["build"] = facts.build;
  json["would_start"] = exit_code == 0;
  json["exit_code"] = exit_code;
  json["np"] = facts.np;
  json["command"] = TextOrNull(facts.command);
  json["hosts"] = Json::array();
  for (const CheckedHost& host : facts.hosts) json["hosts"].push_back(HostJson(host));
  json["unused_hosts"] = facts.unused_hosts;
  json["network_proved"] = facts.is_probed;
  json["closed_ways"] = Json::array();
  for (const ClosedWay& way : facts.closed_ways) {
    json["closed_ways"].push_back({{"from", facts.hosts[way.from].name},
                                   {"to", facts.hosts[way.to].name},
                                   {"error", ErrorJson(way.why)}});
  }
  json["pairs"] = Json::array();
  for (const MeasuredPair& pair : facts.pairs) json["pairs"].push_back(PairJson(facts, pair));
  json["medians"] = MediansJson(facts);
  json["differences"] = Json::array();
  for (const HostDifference& difference : Differences(facts)) {
    json["differences"].push_back(DifferenceJson(difference));
  }
  json["findings"] = Json::array();
  for (const Finding& finding : findings) json["findings"].push_back(FindingJson(finding));
  return DumpJson(json, 2) + "\n";
}

}  // namespace hvdray
