// SPDX-License-Identifier: Apache-2.0
// How errors leave through the C interfaces: a number, and hvdray_error()'s line.
#ifndef HVDRAY_COLLECTIVE_C_ERROR_H_
#define HVDRAY_COLLECTIVE_C_ERROR_H_

#include <exception>

#include "base/status.h"

namespace hvdray {

/// The status' number; its line is this thread's last.
int ReportToC(const Status& status);

/// Of what act() returns. Lack of memory is the only exception there can be.
template <typename Act>
int ReportedToC(const Act& act) {
  try {
    return ReportToC(act());
  } catch (const std::exception& error) {
    return ReportToC({ErrorCode::kOutOfResources, error.what()});
  }
}

}  // namespace hvdray

#endif  // HVDRAY_COLLECTIVE_C_ERROR_H_
