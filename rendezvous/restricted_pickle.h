// Reads the one pickle that a worker may send us: where it can be notified. Builds passive data
// only; whatever could name code is refused (CVE-2024-10190). Pure. Horovod spec 3.10, 7.
#ifndef HVDRAY_RENDEZVOUS_RESTRICTED_PICKLE_H_
#define HVDRAY_RENDEZVOUS_RESTRICTED_PICKLE_H_

#include <array>
#include <cstdint>
#include <string>
#include <vector>

#include "base/result.h"
#include "base/types.h"

namespace hvdray {

/// More than any worker announces; keeps the result small when a pickle names one list many times.
inline constexpr size_t kMaxWorkerInterfaces = 256;
inline constexpr size_t kMaxWorkerEndpoints = 1024;

/// Where a worker listens for notices, and the key that signs them. The key is a secret: it is
/// neither logged nor sent on.
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
  std::vector<Interface> interfaces;  ///< In the order of the pickle; names differ.
  std::array<uint8_t, 32> key{};
  bool operator==(const WorkerAddresses&) const = default;
};

/// `pickle`: at most kMaxPickleBytes, protocol 2 to 5, one tuple ({interface: [(ip, port), ...]},
/// 32 bytes), nothing behind it. Errors: kKvRejected with the offset of the opcode that was not
/// accepted. Time and memory are linear in its length; never recurses.
Result<WorkerAddresses> ReadWorkerAddresses(ByteView pickle);

/// One line an interface, "eth0 10.0.0.5:40123 10.0.1.5:40123\n": what travels to the launcher.
/// The key is not in it.
std::string ToPublicText(const WorkerAddresses& addresses);

}  // namespace hvdray

#endif  // HVDRAY_RENDEZVOUS_RESTRICTED_PICKLE_H_
