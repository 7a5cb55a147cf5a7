// SPDX-License-Identifier: Apache-2.0
// The HTTP parser must say the same about bytes however they are cut, keep what it is told to keep
// within its limits, and hand on nothing that another reader could take for something else.
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string>
#include <string_view>

#include "base/http_parser.h"

namespace {

using hvdray::HttpEvent;

constexpr hvdray::HttpLimits kLimits{512, 300};

void Require(bool is_true) {
  if (!is_true) std::abort();
}

void CheckRequest(const hvdray::HttpRequest& request) {
  Require(!request.method.empty() && !request.target.empty());
  Require(request.body.size() <= kLimits.max_body_bytes);
  Require(request.has_content_length || request.body.empty());
  Require(request.method.size() + request.target.size() <= kLimits.max_header_bytes);
  for (const char c : request.target) Require(static_cast<unsigned char>(c) > ' ' && c != 0x7f);
}

/// All that a parser says about `bytes` when they come in pieces whose sizes `cut` gives.
template <typename Cut>
std::string Transcript(std::string_view bytes, Cut cut) {
  hvdray::HttpParser parser;
  std::string log;
  while (!bytes.empty()) {
    std::string_view piece = bytes.substr(0, cut());
    bytes.remove_prefix(piece.size());
    for (;;) {
      const HttpEvent event = parser.Feed(kLimits, &piece);
      if (event == HttpEvent::kNeedMore) {
        Require(piece.empty());
        break;
      }
      if (event == HttpEvent::kError) {
        Require(parser.error_status() >= 400 && !parser.keeps_alive());
        return log + "error " + std::to_string(parser.error_status());
      }
      if (event == HttpEvent::kHeader) {
        log += parser.keeps_alive() ? "header keep " : "header close ";
        log += parser.is_http10() ? "1.0 " : "1.1 ";
        continue;
      }
      const hvdray::HttpRequest request = parser.Take();
      CheckRequest(request);
      log += request.method + ' ' + request.target + ' ' + request.body + ';';
    }
  }
  return log + (parser.is_midway() ? "midway" : "idle");
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  if (size < 4) return 0;
  uint32_t state = 0;
  for (int i = 0; i < 4; ++i) state = state << 8 | data[i];
  const std::string_view bytes(reinterpret_cast<const char*>(data) + 4, size - 4);
  const std::string whole = Transcript(bytes, [&] { return bytes.size(); });
  Require(Transcript(bytes, [] { return size_t{1}; }) == whole);
  const auto random_cut = [&state] {
    state = state * 1664525U + 1013904223U;
    return size_t{1} + (state >> 16) % 37;
  };
  Require(Transcript(bytes, random_cut) == whole);
  return 0;
}
