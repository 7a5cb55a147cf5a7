// SPDX-License-Identifier: Apache-2.0
// Any values under any keys, as lines "scope key length" each with its bytes behind: what is kept
// stays within its limits, and a problem leaves nothing to act on.
#include <algorithm>
#include <charconv>
#include <cstdint>
#include <cstdlib>
#include <string_view>

#include "rendezvous/mesh_addresses.h"

namespace {

std::string_view TakeUntil(char mark, std::string_view* input) {
  const size_t end = std::min(input->find(mark), input->size());
  const std::string_view word = input->substr(0, end);
  input->remove_prefix(std::min(end + 1, input->size()));
  return word;
}

void Check(const hvdray::MeshAddresses& mesh) {
  const auto addresses = mesh.Addresses();
  if (!mesh.problem().empty() && !addresses.empty()) std::abort();
  if (addresses.size() > mesh.address_count()) std::abort();
  if (mesh.address_count() > hvdray::kMaxMeshAddresses) std::abort();
  if (!std::is_sorted(addresses.begin(), addresses.end())) std::abort();
  for (const hvdray::TcpAddress& address : addresses) {
    if (address.port == 0 || address.is_unspecified()) std::abort();
    if (address.ToString().size() < 4) std::abort();
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  std::string_view input(reinterpret_cast<const char*>(data), size);
  (void)hvdray::ReadMeshRecords(input);
  hvdray::MeshAddresses mesh;
  while (!input.empty()) {
    const std::string_view scope = TakeUntil(' ', &input);
    const std::string_view key = TakeUntil(' ', &input);
    const std::string_view digits = TakeUntil('\n', &input);
    size_t length = 0;
    std::from_chars(digits.data(), digits.data() + digits.size(), length);
    const std::string_view value = input.substr(0, std::min(length, input.size()));
    input.remove_prefix(value.size());
    mesh.Note(scope, key, value);
    Check(mesh);
  }
  return 0;
}
