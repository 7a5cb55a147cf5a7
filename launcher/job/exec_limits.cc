// SPDX-License-Identifier: Apache-2.0
// The kernel only answers E2BIG; this names what is too large.
#include "launcher/job/exec_limits.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>
#include <vector>

#include "launcher/job/value_text.h"

namespace hvdray {
namespace {

constexpr uint64_t kMinTotalBytes = uint64_t{128} << 10;
constexpr uint64_t kMaxTotalBytes = uint64_t{6} << 20;

Status TooLong(const std::string& what, size_t bytes) {
  return Status(ErrorCode::kEnvironmentTooLarge,
                fmt::format("{} has {} bytes; the kernel accepts at most {}", what, bytes,
                            kMaxExecStringBytes - 1),
                "unset it, or put its value in a file and pass the file's name");
}

/// "A (90000 bytes), B (70000 bytes), C (5 bytes)": the largest variables.
std::string Largest(const Environment& environment) {
  std::vector<std::pair<size_t, std::string>> sizes;
  for (const auto& [name, value] : environment.values()) {
    sizes.emplace_back(name.size() + value.size() + 1, name);
  }
  const size_t shown = std::min<size_t>(sizes.size(), 3);
  std::partial_sort(sizes.begin(), sizes.begin() + static_cast<ptrdiff_t>(shown), sizes.end(),
                    [](const auto& a, const auto& b) { return a.first > b.first; });
  std::string text;
  for (size_t i = 0; i < shown; ++i) {
    text +=
        fmt::format("{}{} ({} bytes)", i == 0 ? "" : ", ", Quoted(sizes[i].second), sizes[i].first);
  }
  return text;
}

}  // namespace

Status CheckExecLimits(std::span<const std::string> command, const Environment& environment,
                       uint64_t stack_limit_bytes) {
  uint64_t total = kSlotVariableBytes;
  for (size_t i = 0; i < command.size(); ++i) {
    if (command[i].size() >= kMaxExecStringBytes) {
      return TooLong(fmt::format("word {} of the command", i + 1), command[i].size());
    }
    total += command[i].size() + 1 + sizeof(char*);
  }
  for (const auto& [name, value] : environment.values()) {
    const size_t bytes = name.size() + 1 + value.size();
    if (bytes >= kMaxExecStringBytes) {
      return TooLong(fmt::format("the environment variable {}", Quoted(name)), bytes);
    }
    total += bytes + 1 + sizeof(char*);
  }
  const uint64_t limit = std::clamp(stack_limit_bytes / 4, kMinTotalBytes, kMaxTotalBytes);
  if (total <= limit) return {};
  const std::string largest = Largest(environment);
  return Status(ErrorCode::kEnvironmentTooLarge,
                fmt::format("command and environment have {} bytes in total; the kernel accepts {} "
                            "at this stack limit",
                            total, limit),
                fmt::format("{}raise the limit (ulimit -s), or use --clean-env",
                            largest.empty() ? "" : "the largest are " + largest + ": "));
}

}  // namespace hvdray
