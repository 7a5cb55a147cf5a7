// SPDX-License-Identifier: Apache-2.0
#include "collective/async/rounds.h"

namespace hvdray {

Result<std::unique_ptr<Rounds>> MakeNetworkRounds(const CommunicatorOptions& /*options*/) {
  return Status(ErrorCode::kNotSupported, "operations by name need ranks that share memory");
}

}  // namespace hvdray
