// SPDX-License-Identifier: Apache-2.0
// Whether the requests of all members for one name are for the same operation. Pure.
#ifndef HVDRAY_COLLECTIVE_ASYNC_AGREEMENT_H_
#define HVDRAY_COLLECTIVE_ASYNC_AGREEMENT_H_

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "base/status.h"
#include "collective/async/request.h"

namespace hvdray {

/// requests, joined: of each member, nullptr where it has sent none; at least one request, and each
/// member has one or has joined. ranks: what members are called. Errors: kUsage with what differs,
/// or what can't be; the same on all ranks.
Status CheckAgreement(std::span<const Request* const> requests,
                      std::span<const Request* const> joined, std::span<const int> ranks);

/// Of requests that agree each with its others: whether they may be reduced in one buffer.
bool GoTogether(const Request& a, const Request& b);

/// Appends how many rows an alltoall sends to each of `members`, which it does agree with.
void AppendSplits(const Request& request, size_t members, std::vector<int64_t>& rows);

}  // namespace hvdray

#endif  // HVDRAY_COLLECTIVE_ASYNC_AGREEMENT_H_
