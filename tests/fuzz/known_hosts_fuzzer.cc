// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <set>
#include <string>
#include <vector>

#include "cluster/ssh/known_hosts.h"
#include "cluster/ssh/wire_text.h"

namespace {

void Require(bool is_true) {
  if (!is_true) std::abort();
}

std::string Blob(const char* algorithm, const char* key) {
  std::string blob;
  hvdray::AppendSshString(blob, algorithm);
  hvdray::AppendSshString(blob, key);
  return blob;
}

void CheckLookup(const hvdray::HostKeyLookup& found, const std::string& text) {
  const bool is_found = found.match != hvdray::HostKeyMatch::kUnknown;
  Require(is_found == (found.line > 0) && is_found == !found.path.empty());
  Require(found.line <= std::count(text.begin(), text.end(), '\n') + 1);
  Require(!is_found || found.fingerprint.starts_with("SHA256:"));
}

/// A host whose key is added is known by it from then on, whatever else is there; unless that key
/// was revoked.
void CheckAdded(std::string text, const std::string& name, const std::string& blob,
                const std::string& salt) {
  text += "\n" + hvdray::KnownHostsLine(name, blob, salt) + "\n";
  const std::vector<hvdray::KnownHostsFile> files = {{"added", text}};
  const hvdray::HostKeyLookup found = hvdray::LookUpHostKey(files, name, blob);
  CheckLookup(found, text);
  Require(found.match == hvdray::HostKeyMatch::kKnown ||
          found.match == hvdray::HostKeyMatch::kRevoked);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string text(reinterpret_cast<const char*>(data), size);
  const std::vector<hvdray::KnownHostsFile> files = {{"first", text}, {"second", "h2 x y\n"}};
  const std::string blob = Blob("ssh-ed25519", "key of node7");
  for (const std::string& name :
       {hvdray::KnownHostsName("Node7", 22), hvdray::KnownHostsName("10.0.0.7", 2222)}) {
    CheckLookup(hvdray::LookUpHostKey(files, name, blob), text);
    const std::vector<std::string> algorithms = hvdray::KnownAlgorithms(files, name);
    Require(std::set(algorithms.begin(), algorithms.end()).size() == algorithms.size());
    CheckAdded(text, name, blob, "");
    CheckAdded(text, name, blob, std::string(20, 's'));
  }
  return 0;
}
