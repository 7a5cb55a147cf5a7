// SPDX-License-Identifier: Apache-2.0
#include "launcher/report/check_facts.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <iterator>
#include <utility>

namespace hvdray {

using std::chrono::nanoseconds;

ClockReading ReadClock(uint64_t asked_ns, uint64_t answered_ns,
                       const wire::Inspection& inspection) {
  // Unsigned differences wrap to signed ones; a peer may have sent any numbers.
  const auto difference = [](uint64_t a, uint64_t b) {
    constexpr int64_t kMost = INT64_MAX / 4;
    return std::clamp(static_cast<int64_t>(a - b), -kMost, kMost);
  };
  const int64_t there = difference(inspection.received_ns, asked_ns);
  const int64_t back = difference(inspection.sent_ns, answered_ns);
  // Network time is our wait minus the time spent there: there - back.
  return {nanoseconds((there + back) / 2), nanoseconds(std::max<int64_t>(there - back, 0) / 2)};
}

std::string ShowBytes(uint64_t bytes) {
  if (bytes == kUnlimited) return "none";
  constexpr const char* kUnits[] = {"bytes", "KiB", "MiB", "GiB", "TiB", "PiB"};
  auto amount = static_cast<double>(bytes);
  size_t unit = 0;
  while (amount >= 1024 && unit + 1 < std::size(kUnits)) {
    amount /= 1024;
    ++unit;
  }
  return amount < 10 && unit > 0 && std::fmod(amount, 1.0) >= 0.05
             ? fmt::format("{:.1f} {}", amount, kUnits[unit])
             : fmt::format("{:.0f} {}", amount, kUnits[unit]);
}

std::string ShowModules(const wire::Inspection& inspection) {
  std::string text;
  for (const wire::ModuleFacts& module : inspection.modules) {
    if (!module.trouble.empty()) continue;
    text += fmt::format("{}{}{}{}", text.empty() ? "" : ", ", module.name,
                        module.version.empty() ? "" : " ", module.version);
  }
  return text;
}

std::string ShowGpus(const wire::Inspection& inspection) {
  if (inspection.gpus.empty()) return "no GPU";
  std::vector<std::pair<std::string, size_t>> models;
  for (const wire::GpuFacts& gpu : inspection.gpus) {
    if (models.empty() || models.back().first != gpu.name) models.emplace_back(gpu.name, 0);
    ++models.back().second;
  }
  std::string text;
  for (const auto& [name, count] : models) {
    text += fmt::format("{}{} x {}", text.empty() ? "" : ", ", count, name);
  }
  return text;
}

std::string ShowNvlinks(const wire::Inspection& inspection) {
  std::string text;
  for (const wire::GpuFacts& gpu : inspection.gpus) {
    text += fmt::format("{}{}", text.empty() ? "" : " ", gpu.nvlinks);
  }
  return text;
}

}  // namespace hvdray
