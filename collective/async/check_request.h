// SPDX-License-Identifier: Apache-2.0
// The checks of an operation that one rank can make alone, before it tells the others of it. What
// only all ranks together can tell, such as shapes that differ, comes from the negotiation.
#ifndef HVDRAY_COLLECTIVE_ASYNC_CHECK_REQUEST_H_
#define HVDRAY_COLLECTIVE_ASYNC_CHECK_REQUEST_H_

#include <vector>

#include "base/status.h"
#include "collective/async/async.h"

namespace hvdray {

/// What can be told of a request without other ranks. members: those of its process set, nullptr
/// when there is none. Errors: kUsage, kNotSupported.
Status CheckRequest(const hvdray_request& request, const std::vector<int>* members, int rank,
                    int size);

}  // namespace hvdray

#endif  // HVDRAY_COLLECTIVE_ASYNC_CHECK_REQUEST_H_
