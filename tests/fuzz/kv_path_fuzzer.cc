// SPDX-License-Identifier: Apache-2.0
// Any request line gives a call whose parts are pieces of it, or a status: never anything else.
#include <cstdint>
#include <cstdlib>
#include <string>
#include <string_view>

#include "rendezvous/horovod_protocol.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string_view input(reinterpret_cast<const char*>(data), size);
  const size_t blank = input.find(' ');
  const std::string_view method = input.substr(0, blank);
  const std::string_view target =
      blank == std::string_view::npos ? std::string_view() : input.substr(blank + 1);
  const hvdray::ParsedKvRequest parsed = hvdray::ParseKvRequest(method, target, size % 2 == 0);
  switch (parsed.status) {
    case 400:
    case 405:
    case 411:
    case 501:
      return 0;
    case 200:
      break;
    default:
      std::abort();
  }
  const hvdray::KvCall& call = parsed.call;
  std::string joined = "/";
  joined += call.scope;
  joined += '/';
  joined += call.key;
  if (joined != target) std::abort();
  if (call.key_kind != hvdray::KeyKind::kOther && !hvdray::NumberOfKey(call.key)) std::abort();
  return 0;
}
