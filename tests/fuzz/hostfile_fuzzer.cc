#include <cstdint>
#include <cstdlib>
#include <set>
#include <string>

#include "launcher/hosts/hostfile.h"

namespace {

/// What is accepted has distinct names and sane slots; what is refused says so in one line.
void Check(const hvdray::Result<std::vector<hvdray::HostSlots>>& result) {
  if (!result.ok()) {
    if (result.status().code() != hvdray::ErrorCode::kSpecInvalid) std::abort();
    if (result.status().message().find('\n') != std::string::npos) std::abort();
    return;
  }
  std::set<std::string> names;
  for (const hvdray::HostSlots& host : *result) {
    if (host.host.empty() || !names.insert(host.host).second) std::abort();
    if (host.slots < 0 || host.slots > hvdray::kMaxSlots) std::abort();
  }
  if (names.empty()) std::abort();
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  Check(hvdray::ParseHostfile(text, "hosts"));
  Check(hvdray::ParseHostList(text));
  return 0;
}
