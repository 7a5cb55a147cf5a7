// SPDX-License-Identifier: Apache-2.0
// Carries hvdray's stdin to one worker, limited by the credit that its agent grants.
#ifndef HVDRAY_LAUNCHER_ENGINE_STDIN_FEEDER_H_
#define HVDRAY_LAUNCHER_ENGINE_STDIN_FEEDER_H_

#include <cstdint>
#include <functional>

#include "base/loop.h"
#include "wire/message.h"

namespace hvdray {

/// Reads only as much as it has credit for, so a slow worker slows the writer. Never blocks: reads
/// only when the descriptor is readable. Threads: the loop's.
class StdinFeeder {
 public:
  /// Does not own `fd`. `send` gets frames of at most 64 KiB; the last one has is_end.
  StdinFeeder(Loop& loop, int fd, int rank, std::function<void(wire::Stdin)> send);

  /// The agent has granted `bytes` more.
  void AddCredit(uint32_t bytes);
  /// The worker is gone: stops reading.
  void Stop();

 private:
  void Resume();
  void ReadSome();

  Loop& loop_;
  int fd_;
  int rank_;
  std::function<void(wire::Stdin)> send_;
  uint64_t credit_ = 0;
  bool is_pollable_;  ///< Regular files and /dev/null are not, but always readable.
  bool is_at_end_ = false;
  Watch watch_;
};

}  // namespace hvdray

#endif  // HVDRAY_LAUNCHER_ENGINE_STDIN_FEEDER_H_
