// SPDX-License-Identifier: Apache-2.0
// Recordings of elastic jobs: whatever the lines are, they are refused with their number or
// replayed without harm; what is decoded encodes to the same again.
#include <cstdint>
#include <cstdlib>
#include <string>

#include "launcher/driver/elastic_replay.h"
#include "launcher/report/replay_text.h"

namespace {

using hvdray::ElasticReplay;

// Larger jobs are no other code, only slower.
constexpr int kMostSlots = 2000;

void Require(bool is_true) {
  if (!is_true) std::abort();
}

void CheckStatus(const hvdray::Status& status) {
  Require(status.code() == hvdray::ErrorCode::kSpecInvalid);
  Require(status.message().starts_with("f:"));
  Require(status.message().find('\n') == std::string::npos);
}

std::string Encoded(const hvdray::RecordLine& line) {
  if (const auto* end = std::get_if<hvdray::RecordedEnd>(&line)) return hvdray::EncodeEnd(*end);
  const auto& recorded = std::get<hvdray::RecordedEvent>(line);
  return hvdray::EncodeEvent(recorded.event, recorded.at);
}

bool IsLarge(const hvdray::RecordLine& line) {
  const auto* recorded = std::get_if<hvdray::RecordedEvent>(&line);
  if (recorded == nullptr) return false;
  const auto* found = std::get_if<hvdray::event::HostsDiscovered>(&recorded->event);
  int slots = 0;
  for (const auto& host : found != nullptr ? found->hosts : std::vector<hvdray::HostSlots>()) {
    slots += host.slots;
  }
  return slots > kMostSlots;
}

/// false: nothing to be replayed here.
bool CheckLine(hvdray::RecordDecoder& decoder, const std::string& text) {
  if (decoder.line() == 0) {
    const auto header = decoder.Header(text);
    if (!header.ok()) CheckStatus(header.status());
    if (!header.ok()) return false;
    const std::string again = hvdray::EncodeHeader(*header);
    Require(hvdray::EncodeHeader(hvdray::RecordDecoder("g").Header(again).value()) == again);
    return true;
  }
  const auto line = decoder.Next(text);
  if (!line.ok()) {
    CheckStatus(line.status());
    return true;
  }
  const std::string again = Encoded(*line);
  hvdray::RecordDecoder other("g");
  Require(other.Header(hvdray::EncodeHeader({})).ok());
  Require(Encoded(other.Next(again).value()) == again);
  return !IsLarge(*line);
}

void Replay(const std::string& text) {
  ElasticReplay replay("f");
  size_t begin = 0;
  for (size_t end; (end = text.find('\n', begin)) != std::string::npos; begin = end + 1) {
    const auto goes_on = replay.Feed(text.substr(begin, end - begin), ElasticReplay::Line::kWhole);
    if (!goes_on.ok()) return CheckStatus(goes_on.status());
    if (!*goes_on) break;
  }
  if (begin < text.size()) {
    (void)replay.Feed(text.substr(begin), ElasticReplay::Line::kUnended).ok();
  }
  const auto result = replay.Finish();
  if (!result.ok()) return CheckStatus(result.status());
  Require(!hvdray::ReplayText(*result).empty());
  Require(hvdray::ReplayFaults(*result).empty() == result->is_well());
  Require(hvdray::ReplayJson(*result).ends_with("}\n"));
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string text(reinterpret_cast<const char*>(data), size);
  hvdray::RecordDecoder decoder("f");
  size_t begin = 0;
  bool is_fit = true;
  for (size_t end; (end = text.find('\n', begin)) != std::string::npos && is_fit; begin = end + 1) {
    is_fit = CheckLine(decoder, text.substr(begin, end - begin));
  }
  if (is_fit) Replay(text);
  return 0;
}
