// SPDX-License-Identifier: Apache-2.0
#include "launcher/driver/elastic_replay.h"

#include <fmt/format.h>

#include "launcher/driver/elastic_mode.h"

namespace hvdray {
namespace {

constexpr size_t kRecentLines = 10;
constexpr size_t kRecentBytes = 160;

std::string GenerationText(const effect::MembershipChanged& change) {
  std::string text = fmt::format("generation {}: {} worker{}", change.generation, change.size,
                                 change.size == 1 ? "" : "s");
  std::string_view separator = ": ";
  for (const HostChange& host : change.changes) {
    text += fmt::format("{}{} {:+}", separator, host.host, host.workers);
    separator = ", ";
  }
  return text;
}

}  // namespace

ElasticReplay::ElasticReplay(std::string file_name)
    : file_name_(std::move(file_name)), decoder_(file_name_) {}

ElasticReplay::~ElasticReplay() = default;

Result<bool> ElasticReplay::Feed(ByteView text, Line line) {
  if (!driver_) {
    HVDRAY_ASSIGN_OR_RETURN(RecordHeader header, decoder_.Header(text));
    Begin(std::move(header));
    return true;
  }
  Result<RecordLine> recorded = decoder_.Next(text);
  if (!recorded.ok()) {
    if (line == Line::kWhole) return std::move(recorded).status();
    result_.is_cut = true;
    return true;
  }
  Remember(text);
  if (const auto* event = std::get_if<RecordedEvent>(&*recorded)) {
    Replay(*event);
  } else {
    Compare(std::get<RecordedEnd>(*recorded));
  }
  if (result_.broken.empty()) return true;
  result_.broken_line = decoder_.line();
  result_.recent.assign(recent_.begin(), recent_.end());
  return false;
}

Result<ReplayResult> ElasticReplay::Finish() {
  if (!driver_) {
    return Status(ErrorCode::kSpecInvalid, fmt::format("{}:1: the file is empty", file_name_));
  }
  return std::move(result_);
}

void ElasticReplay::Begin(RecordHeader header) {
  result_.header = std::move(header);
  invariants_ = std::make_unique<ElasticInvariants>(
      result_.header.policy,
      [this](std::string rule) { result_.broken.push_back(std::move(rule)); });
  driver_ = MakeElasticDriver(result_.header.policy, result_.header.jitter_seed, TimePoint{},
                              [this](const StateChange& change) {
                                if (change.rank != -1) return;
                                Note(ReplayStep::Kind::kState,
                                     fmt::format("{} -> {}", change.from, change.to));
                                result_.steps.back().from = change.from;
                                result_.steps.back().to = change.to;
                              });
}

void ElasticReplay::Replay(const RecordedEvent& recorded) {
  ++result_.events;
  now_ = result_.lasted = recorded.at;
  const TimePoint now = TimePoint{} + now_;
  const std::vector<ElasticEffect> effects = driver_->Handle(recorded.event, now);
  for (const ElasticEffect& effect : effects) {
    if (const auto* change = std::get_if<effect::MembershipChanged>(&effect)) {
      Note(ReplayStep::Kind::kGeneration, GenerationText(*change));
      result_.steps.back().generation = change->generation;
      result_.steps.back().size = change->size;
    } else if (const auto* say = std::get_if<effect::Say>(&effect)) {
      Note(ReplayStep::Kind::kSaid, say->text);
    } else if (const auto* finish = std::get_if<effect::Finish>(&effect)) {
      result_.end = EndOf(finish->verdict, driver_->Snapshot(), now_);
    } else if (std::holds_alternative<effect::PublishGeneration>(effect)) {
      ++result_.generations;
    }
  }
  invariants_->Check(recorded.event, now, effects, driver_->NextDeadline());
}

void ElasticReplay::Compare(const RecordedEnd& recorded) {
  result_.recorded_end = recorded;
  if (!result_.end) return invariants_->CheckEnded();
  const auto compare = [this](std::string_view what, const auto& now, const auto& then) {
    if (now == then) return;
    result_.differences.push_back(fmt::format("{} is {}, was {}", what, now, then));
  };
  const RecordedEnd& end = *result_.end;
  const auto name = [](ErrorCode code) {
    return code == ErrorCode::kOk ? std::string("success") : ErrorLabel(code);
  };
  compare("the exit code", end.exit_code, recorded.exit_code);
  compare("the end", name(end.error), name(recorded.error));
  compare("the last generation", end.generation, recorded.generation);
  compare("its size", end.size, recorded.size);
  compare("the number of resets", end.resets, recorded.resets);
  compare("the number of stale facts", end.stale_events, recorded.stale_events);
}

void ElasticReplay::Note(ReplayStep::Kind kind, std::string text) {
  result_.steps.push_back(
      {.kind = kind, .line = decoder_.line(), .at = now_, .text = std::move(text)});
}

void ElasticReplay::Remember(ByteView text) {
  if (recent_.size() == kRecentLines) recent_.pop_front();
  recent_.emplace_back(text.substr(0, kRecentBytes));
  if (text.size() > kRecentBytes) recent_.back() += " ...";
}

}  // namespace hvdray
