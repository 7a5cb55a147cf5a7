// SPDX-License-Identifier: Apache-2.0
// Reads the only pickle that a worker may send: its addresses for notices. Builds passive data only
// and rejects opcodes that could name code (CVE-2024-10190). Pure. docs/rendezvous.md, "Who may
// speak".
#ifndef HVDRAY_RENDEZVOUS_RESTRICTED_PICKLE_H_
#define HVDRAY_RENDEZVOUS_RESTRICTED_PICKLE_H_

#include <array>
#include <cstdint>
#include <string>
#include <vector>

#include "base/result.h"
#include "base/types.h"

namespace hvdray {

/// More than any real worker registers. Bounds the result if a pickle repeats one list many times.
inline constexpr size_t kMaxWorkerInterfaces = 256;
inline constexpr size_t kMaxWorkerEndpoints = 1024;

/// The addresses on which a worker listens for notices, and the key that signs them. The key is a
/// secret: never log or forward it.
struct WorkerAddresses {
  struct Endpoint {
    std::string ip;  ///< Dotted IPv4.
    uint16_t port = 0;
    bool operator==(const Endpoint&) const = default;
  };
  struct Interface {
    std::string name;
    std::vector<Endpoint> endpoints;
    bool operator==(const Interface&) const = default;
  };
  std::vector<Interface> interfaces;  ///< In the pickle's order; names are unique.
  std::array<uint8_t, 32> key{};
  bool operator==(const WorkerAddresses&) const = default;
};

/// `pickle`: at most kMaxPickleBytes, protocol 2 to 5, exactly one tuple
/// ({interface: [(ip, port), ...]}, 32 bytes). Time and memory are linear in its length; never
/// recurses. Errors: kKvRejected, with the offset of a rejected opcode.
Result<WorkerAddresses> ReadWorkerAddresses(ByteView pickle);

/// One line per interface, "eth0 10.0.0.5:40123 10.0.1.5:40123\n", for the launcher. Excludes the
/// key.
std::string ToPublicText(const WorkerAddresses& addresses);

}  // namespace hvdray

#endif  // HVDRAY_RENDEZVOUS_RESTRICTED_PICKLE_H_
