// SPDX-License-Identifier: Apache-2.0
#include "cluster/up/cluster_driver.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <chrono>

namespace hvdray {
namespace {

constexpr std::array<int, 4> kPauses = {1, 2, 3, 5};  // seconds; the last one repeats

/// Why a log-in failed, in a word; empty: another try cannot help.
std::string_view PassingReason(ErrorCode code) {
  switch (code) {
    case ErrorCode::kHostRefused:
      return "refused";
    case ErrorCode::kConnectTimeout:
    case ErrorCode::kDeadlineExceeded:
      return "timed out";
    case ErrorCode::kHostUnreachable:
      return "unreachable";
    case ErrorCode::kUnknownHost:
      return "name unknown";
    case ErrorCode::kHostBusy:
      return "busy";
    case ErrorCode::kHandshakeFailed:
      return "no handshake";
    case ErrorCode::kAgentLost:
      return "connection lost";
    default:
      return {};
  }
}

}  // namespace

std::string EndText(const TaskResult& result) {
  if (!result.why.ok()) return result.why.message();
  if (result.exit_code > 128) return fmt::format("killed by signal {}", result.exit_code - 128);
  return fmt::format("exit code {}", result.exit_code);
}

std::string ProcessesText(int count) {
  return fmt::format("{} process{}", count, count == 1 ? "" : "es");
}

Status FailureOf(std::string_view what, const TaskResult& result) {
  if (!result.why.ok()) return Status(result.why).WithContext(std::string(what));
  const std::string said = result.last_lines.empty() ? "" : ": " + result.last_lines.back();
  return {ErrorCode::kNodeSetupFailed, fmt::format("{}: {}{}", what, EndText(result), said)};
}

std::optional<TimePoint> LogInRetry::After(const Status& why, TimePoint now) {
  if (PassingReason(why.code()).empty()) return std::nullopt;
  const size_t index = std::min(static_cast<size_t>(tries_), kPauses.size() - 1);
  const TimePoint next = now + std::chrono::seconds(kPauses[index]);
  ++tries_;
  if (next >= until_) return std::nullopt;
  return next;
}

std::string LogInRetry::Text(const Status& why, Duration left) {
  return fmt::format("waiting for SSH ({}), {:.0f} s left: {}", PassingReason(why.code()),
                     Seconds(left).count(), why.message());
}

}  // namespace hvdray
