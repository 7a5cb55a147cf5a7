#include "launcher/report/check_text.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <vector>

#include "launcher/driver/host_list.h"

namespace hvdray {
namespace {

// More would be no screen any more; --json has them all.
constexpr size_t kMaxBlocks = 6;
constexpr size_t kMaxAddresses = 4;

/// Hosts that are the same in all that a block says, but for numbers that differ anyway.
struct Block {
  std::string what;  ///< Lines that are the same for all.
  std::vector<const CheckedHost*> hosts;
};

std::string Plural(size_t count, std::string_view word) {
  return fmt::format("{} {}{}", count, word, count == 1 ? "" : "s");
}

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
  }
  if (inspection.infiniband_count > 0) {
    gpus += fmt::format(", {} InfiniBand", inspection.infiniband_count);
  }
  text +=
      Line("machine", Joined({Plural(host.facts.cpu_count, "CPU"), ShowMemory(inspection), gpus}));
  text += Line("limits", ShowLimits(inspection));
  text += Line("cleanup", host.facts.cleanup);
  if (!facts.command.empty() && inspection.command_error == 0) {
    text += Line("command", Joined({inspection.command_path, inspection.command_version}));
  }
  text += Line("modules", ShowModules(inspection));
  return text;
}

std::vector<Block> BlocksOf(const CheckFacts& facts) {
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

std::vector<std::string> NamesOf(const Block& block) {
  std::vector<std::string> names;
  for (const CheckedHost* host : block.hosts) names.push_back(host->name);
  return names;
}

double SecondsOf(std::chrono::nanoseconds time) {
  return std::chrono::duration<double>(time).count();
}

std::string ShowReady(const Block& block) {
  double least = 1e9;
  double most = 0;
  for (const CheckedHost* host : block.hosts) {
    if (!host->ready_after) continue;
    least = std::min(least, SecondsOf(*host->ready_after));
    most = std::max(most, SecondsOf(*host->ready_after));
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
  const double seconds = SecondsOf(most);
  return seconds < 1 ? fmt::format("within {:.2g} ms of ours", std::max(seconds * 1e3, 0.01))
                     : fmt::format("up to {:.1f} s off ours", seconds);
}

/// The least of what is free on any of them, since that is what a job will hit.
std::string ShowFree(const Block& block) {
  const std::pair<const char*, const char*> uses[] = {{"agent", "agent"},
                                                      {"home", "home"},
                                                      {"working", "working folder"},
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
      for (const wire::FolderFacts& folder : host->inspection->folders) {
        const bool is_known = folder.use == use && folder.error == 0 && folder.total_bytes > 0;
        if (is_known) least = std::min(least, folder.free_bytes);
      }
    }
    if (least != UINT64_MAX) parts.push_back(fmt::format("{} {}", name, ShowBytes(least)));
  }
  return Joined(parts);
}

std::string TextOf(const CheckFacts& facts, const Block& block) {
  const CheckedHost& first = *block.hosts[0];
  std::string text = fmt::format("{}: {}{}, {}{}\n", CompressHostList(NamesOf(block)),
                                 Plural(static_cast<size_t>(first.workers), "worker"),
                                 block.hosts.size() == 1 ? "" : " each", ShowReady(block),
                                 first.is_remote ? "" : ", this machine");
  return text + block.what + Line("free", ShowFree(block)) +
         Line("network", ShowNetwork(facts, block)) + Line("clock", ShowClock(block)) + "\n";
}

std::string TextOf(std::span<const Finding> findings) {
  std::string text;
  for (const Finding& finding : findings) {
    const bool is_error = finding.level == FindingLevel::kError;
    const std::string label =
        finding.code == ErrorCode::kOk ? "" : fmt::format(" [{}]", ErrorLabel(finding.code));
    text += fmt::format("{}: {}{}\n  hint: {}\n", is_error ? "error" : "warning", finding.text,
                        label, finding.hint);
  }
  return text.empty() ? text : text + "\n";
}

}  // namespace

std::string CheckText(const CheckFacts& facts, std::span<const Finding> findings) {
  const auto ready =
      static_cast<size_t>(std::count_if(facts.hosts.begin(), facts.hosts.end(),
                                        [](const CheckedHost& host) { return host.lost.ok(); }));
  std::string text = fmt::format("{}: {} of {} ready, for {}\n\n", facts.build, ready,
                                 Plural(facts.hosts.size(), "host"),
                                 Plural(static_cast<size_t>(facts.np), "worker"));
  const std::vector<Block> blocks = BlocksOf(facts);
  for (size_t i = 0; i < std::min(blocks.size(), kMaxBlocks); ++i) {
    text += TextOf(facts, blocks[i]);
  }
  if (blocks.size() > kMaxBlocks) {
    std::vector<std::string> others;
    for (size_t i = kMaxBlocks; i < blocks.size(); ++i) {
      for (std::string& name : NamesOf(blocks[i])) others.push_back(std::move(name));
    }
    text += fmt::format("{}: of other kinds again, see --json\n\n", CompressHostList(others));
  }
  if (!facts.unused_hosts.empty()) {
    text +=
        fmt::format("{}: not asked, would get no worker\n\n", CompressHostList(facts.unused_hosts));
  }
  text += TextOf(findings);
  const auto errors = static_cast<size_t>(
      std::count_if(findings.begin(), findings.end(),
                    [](const Finding& finding) { return finding.level == FindingLevel::kError; }));
  return text + fmt::format("{}: {}, {}\n",
                            errors == 0 ? "a job would start" : "no job would start",
                            Plural(errors, "error"), Plural(findings.size() - errors, "warning"));
}

}  // namespace hvdray
