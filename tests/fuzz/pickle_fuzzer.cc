// SPDX-License-Identifier: Apache-2.0
// Any pickle, raw or in base64, is refused or gives addresses within their limits; as the answer to
// a notice, signed or not, it is refused unless it is the one that a worker gives.
#include <cstdint>
#include <cstdlib>
#include <string_view>

#include "base/base64.h"
#include "rendezvous/notice.h"
#include "rendezvous/pickle_machine.h"
#include "rendezvous/restricted_pickle.h"

namespace {

void Read(std::string_view pickle) {
  const auto read = hvdray::ReadWorkerAddresses(pickle);
  if (!read.ok()) return;
  size_t endpoints = 0;
  for (const auto& interface : read->interfaces) {
    if (interface.name.empty() || interface.name.size() > 15) std::abort();
    for (const auto& endpoint : interface.endpoints) {
      if (endpoint.port == 0 || endpoint.ip.size() > 15) std::abort();
      ++endpoints;
    }
  }
  if (read->interfaces.empty() || read->interfaces.size() > hvdray::kMaxWorkerInterfaces) {
    std::abort();
  }
  if (endpoints > hvdray::kMaxWorkerEndpoints) std::abort();
  (void)hvdray::ToPublicText(*read);
}

void ReadAnswer(std::string_view input) {
  const hvdray::NoticeKey key{};
  const auto unsigned_answer = hvdray::ReadNoticeAnswer(key, input);
  if (unsigned_answer && unsigned_answer->ok() &&
      input != hvdray::SignedFrame(key, input.substr(36))) {
    std::abort();
  }
  const auto answer = hvdray::ReadNoticeAnswer(key, hvdray::SignedFrame(key, input));
  if (!answer) std::abort();
  if (answer->ok() && input.find("AckResponse") == std::string_view::npos) std::abort();
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string_view input(reinterpret_cast<const char*>(data), size);
  Read(input);
  ReadAnswer(input);
  const auto decoded = hvdray::DecodeBase64(input, hvdray::kMaxPickleBytes);
  if (decoded.ok()) Read(*decoded);
  return 0;
}
