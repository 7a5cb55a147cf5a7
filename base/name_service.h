// SPDX-License-Identifier: Apache-2.0
// Hosts and users of this machine's databases: /etc/hosts and DNS, /etc/passwd and LDAP. By the C
// library, or in a static program by getent(1). All calls may block, for the latter 30 s at most.
#ifndef HVDRAY_BASE_NAME_SERVICE_H_
#define HVDRAY_BASE_NAME_SERVICE_H_

#include <netdb.h>
#include <sys/types.h>

#include <cstdint>
#include <memory>
#include <optional>
#include <string>

#include "base/result.h"

namespace hvdray {

struct FreeAddresses {
  void operator()(addrinfo* list) const;
};
/// Of TCP, at least one.
using AddressList = std::unique_ptr<addrinfo, FreeAddresses>;

/// The addresses of a host by its name or in numbers, with this port. Errors: kUnknownHost.
Result<AddressList> FindHost(const std::string& host, uint16_t port);
/// The same for numbers only. Never blocks.
Result<AddressList> ParseHost(const std::string& host, uint16_t port);

struct UserEntry {
  std::string name;
  std::string home;
};

std::optional<UserEntry> FindUser(const std::string& name);
std::optional<UserEntry> FindUser(uid_t id);

}  // namespace hvdray

#endif  // HVDRAY_BASE_NAME_SERVICE_H_
