// SPDX-License-Identifier: Apache-2.0
#include "cluster/transport/agent_bootstrap.h"

#include <fmt/format.h>

#include <utility>

#include "base/text.h"
#include "cluster/transport/scripts.h"

namespace hvdray {
namespace {

constexpr std::string_view kStageMark = "HVDRAY-STAGE/1 ";
constexpr std::string_view kFailedMark = "HVDRAY-FAILED/1 ";
constexpr std::string_view kAgentMark = "HVDRAY-AGENT/1 ";

}  // namespace

std::string ShellQuoted(std::string_view word) {
  std::string quoted = "'";
  for (const char c : word) {
    if (c == '\'') {
      quoted += "'\"'\"'";
    } else {
      quoted += c;
    }
  }
  return quoted + "'";
}

std::string BootstrapCommand(const BootstrapRequest& request) {
  std::string command =
      fmt::format("exec /bin/sh -c '{}' hvdray-stage {} {} {}", AgentBootstrapScript(),
                  ShellQuoted(request.stage_id), ShellQuoted(request.installed_path),
                  ShellQuoted(request.directory));
  for (const std::string& argument : request.agent_arguments) {
    command += ' ' + ShellQuoted(argument);
  }
  return command;
}

std::string StageAnswer(std::string_view sha256, size_t compressed_bytes) {
  return fmt::format("{} {}\n", sha256, compressed_bytes);
}

BootstrapLine ParseBootstrapLine(std::string_view line) {
  if (line.ends_with('\r')) line.remove_suffix(1);
  if (const size_t at = line.rfind(kStageMark); at != std::string_view::npos) {
    const std::string_view rest = line.substr(at + kStageMark.size());
    const size_t first = rest.find(' ');
    const size_t second = first == std::string_view::npos ? first : rest.find(' ', first + 1);
    if (second != std::string_view::npos) {
      return {.kind = BootstrapLine::Kind::kNeedsAgent,
              .system = ShownLine(rest.substr(0, first)),
              .machine = ShownLine(rest.substr(first + 1, second - first - 1)),
              .directory = ShownLine(rest.substr(second + 1))};
    }
  }
  if (const size_t at = line.rfind(kFailedMark); at != std::string_view::npos) {
    return {.kind = BootstrapLine::Kind::kFailed,
            .why = ShownLine(line.substr(at + kFailedMark.size()))};
  }
  if (line.rfind(kAgentMark) != std::string_view::npos)
    return {.kind = BootstrapLine::Kind::kAgentSpeaks};
  return {};
}

namespace {

// The limit before the announcement (docs/protocol.md, "Start-up").
constexpr size_t kMaxNoise = size_t{64} << 10;

}  // namespace

StagedStream::StagedStream(Loop& loop, std::unique_ptr<ByteStream> inner)
    : loop_(loop), inner_(std::move(inner)) {}

void StagedStream::Scan(ScanHandlers handlers) {
  scan_ = std::make_shared<ScanHandlers>(std::move(handlers));
  inner_->Start(*this);
}

void StagedStream::OnData(ByteView bytes) {
  if (owner_ != nullptr && kept_.empty()) return owner_->OnData(bytes);
  if (is_found_) {
    kept_ += bytes;
    return;
  }
  pending_ += bytes;
  TakeLine();
}

void StagedStream::OnDrained() {
  if (owner_ != nullptr) owner_->OnDrained();
}

// One at a time: on_line may drop the stream.
void StagedStream::TakeLine() {
  const auto held = scan_;
  size_t end = 0;
  while ((end = pending_.find('\n')) != std::string::npos) {
    const BootstrapLine line = ParseBootstrapLine(ByteView(pending_).substr(0, end));
    const bool is_ours =
        line.kind == BootstrapLine::Kind::kNeedsAgent || line.kind == BootstrapLine::Kind::kFailed;
    if (!is_ours) kept_.append(pending_, 0, end + 1);
    pending_.erase(0, end + 1);
    if (line.kind == BootstrapLine::Kind::kNoise) continue;
    is_found_ = line.kind == BootstrapLine::Kind::kAgentSpeaks;
    if (is_found_) {
      later_.Cancel();
      kept_ += std::exchange(pending_, {});
      inner_->SetReading(false);
    } else {
      later_ = loop_.After(Duration::zero(), [this] { TakeLine(); });
    }
    return held->on_line(line);
  }
  if (is_closed_) return held->on_closed(std::move(closed_));
  if (kept_.size() + pending_.size() > kMaxNoise) {
    inner_->SetReading(false);
    is_closed_ = true;
    held->on_closed({ErrorCode::kProtocolError,
                     "its shell printed over 64 KiB before any agent announced itself",
                     "check what the shell's start-up files print for logins without a terminal"});
  }
}

void StagedStream::OnClosed(Status why) {
  if (std::exchange(is_closed_, true)) return;
  if (owner_ != nullptr && kept_.empty()) return owner_->OnClosed(std::move(why));
  closed_ = std::move(why);
  if (!is_found_) TakeLine();
}

void StagedStream::Start(ByteStream::Owner& owner) {
  owner_ = &owner;
  later_ = loop_.After(Duration::zero(), [this] { Deliver(); });
}

void StagedStream::SetReading(bool is_reading) {
  const bool was_reading = std::exchange(wants_reading_, is_reading);
  if (kept_.empty()) {
    inner_->SetReading(is_reading);
  } else if (is_reading && !was_reading && owner_ != nullptr) {
    later_ = loop_.After(Duration::zero(), [this] { Deliver(); });
  }
}

void StagedStream::Deliver() {
  if (!wants_reading_ || kept_.empty()) return;
  if (is_closed_) {
    later_ = loop_.After(Duration::zero(), [this] { owner_->OnClosed(std::move(closed_)); });
  } else {
    inner_->SetReading(true);
  }
  owner_->OnData(std::exchange(kept_, {}));
}

}  // namespace hvdray
