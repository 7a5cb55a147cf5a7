// SPDX-License-Identifier: Apache-2.0
// The name service, asked by a child: getent(1), which comes with the C library. For a static
// program: glibc's loads modules that nsswitch.conf names, and aborts there if it can't.
#ifndef HVDRAY_BASE_GETENT_H_
#define HVDRAY_BASE_GETENT_H_

#include <string>
#include <vector>

#include "base/result.h"
#include "base/types.h"

namespace hvdray {

/// The lines of DATABASE that have the key; none: there is no such key. `program` is looked up in
/// PATH. Blocks, for `limit` at most. Errors: kUnknownHost if the program is missing, fails or
/// takes longer; kOutOfResources.
Result<std::vector<std::string>> AskGetent(const std::string& database, const std::string& key,
                                           Duration limit, const std::string& program = "getent");

/// The addresses of a host in numbers, each once, in the order of the answer. Errors: those of
/// AskGetent().
Result<std::vector<std::string>> AddressesByGetent(const std::string& host, Duration limit,
                                                   const std::string& program = "getent");

}  // namespace hvdray

#endif  // HVDRAY_BASE_GETENT_H_
