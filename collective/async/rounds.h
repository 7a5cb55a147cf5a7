// SPDX-License-Identifier: Apache-2.0
// How ranks exchange what they want: an all-gather of bytes, in rounds that begin when a rank
// rings.
#ifndef HVDRAY_COLLECTIVE_ASYNC_ROUNDS_H_
#define HVDRAY_COLLECTIVE_ASYNC_ROUNDS_H_

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "base/types.h"
#include "collective/communicator.h"

namespace hvdray {

/// Rounds count from 1, and all ranks take part in each. A rank that waits uses no processor and
/// has no time limit.
/// Threads: one caller at a time, but for Ring() and Abort().
/// Errors: kAborted when a rank has died, left or called Abort(), naming it: then all calls of all
/// ranks end with it.
class Rounds {
 public:
  /// Has all ranks of `all`, made of these options, meet. Blocks. Errors: as MakeCommunicator().
  static Result<std::unique_ptr<Rounds>> Make(const CommunicatorOptions& options,
                                              Communicator& all);
  virtual ~Rounds() = default;

  /// Has all ranks come to `round`; to say so for one that has begun is nothing. Doesn't block.
  virtual void Ring(uint32_t round) = 0;
  /// Blocks until a rank has rung for `round`; false: `deadline` came first (TimePoint::max():
  /// there is none).
  virtual Result<bool> Await(uint32_t round, TimePoint deadline) = 0;
  /// The bytes of all ranks, in order. Blocks until all have come to this round.
  virtual Result<std::vector<std::string>> Exchange(uint32_t round, std::string_view bytes) = 0;
  virtual void Abort() = 0;
  /// This rank comes to no more rounds, and says so at once rather than at its end. Others' rounds
  /// that have begun go on.
  virtual void Leave() {}
};

/// Over TCP, where ranks share no memory. They meet through `all`, which knows at once of one that
/// has died.
Result<std::unique_ptr<Rounds>> MakeNetworkRounds(const CommunicatorOptions& options,
                                                  Communicator& all);

}  // namespace hvdray

#endif  // HVDRAY_COLLECTIVE_ASYNC_ROUNDS_H_
