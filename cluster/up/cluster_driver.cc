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

void NodeEffects::Run(NodeTask task) {
  effects_->emplace_back(cluster_effect::Run{node_, std::move(task)});
}

void NodeEffects::Call(std::string verb, std::vector<std::string> arguments) {
  NodeTask task;
  task.verb = std::move(verb);
  task.arguments = std::move(arguments);
  Run(std::move(task));
}

void NodeEffects::ReportError(const Status& why) {
  effects_->emplace_back(cluster_effect::ReportError{Status(why).WithContext(address_)});
}

void NodeEffects::SayLine(std::string_view text, bool is_step) {
  effects_->emplace_back(cluster_effect::Say{fmt::format("{}: {}", address_, text), is_step});
}

void NodeLogIn::Begin(NodeEffects& effects, TimePoint now, Duration limit) {
  until_ = now + limit;
  effects.LogIn();
}

bool NodeLogIn::OnFailed(NodeEffects& effects, const Status& why, TimePoint now) {
  const std::string_view reason = PassingReason(why.code());
  if (reason.empty()) return false;
  const size_t index = std::min(static_cast<size_t>(tries_), kPauses.size() - 1);
  const TimePoint next = now + std::chrono::seconds(kPauses[index]);
  ++tries_;
  if (next >= until_) return false;
  next_ = next;
  const Duration left = until_ - now;
  effects.Note(cluster_note::Waiting{effects.node(), why, left});
  effects.Say(fmt::format("waiting for SSH ({}), {:.0f} s left: {}", reason, Seconds(left).count(),
                          why.message()));
  return true;
}

void NodeLogIn::OnTick(NodeEffects& effects, TimePoint now) {
  if (!next_ || *next_ > now) return;
  next_.reset();
  effects.LogIn();
}

}  // namespace hvdray
