// Carries hvdray's stdin to one worker under the credit that its agent grants.
#ifndef HVDRAY_LAUNCHER_ENGINE_STDIN_FEEDER_H_
#define HVDRAY_LAUNCHER_ENGINE_STDIN_FEEDER_H_

#include <cstdint>
#include <functional>

#include "base/loop.h"
#include "wire/message.h"

namespace hvdray {

/// What may be on its way before the agent has granted anything (docs/protocol.md, credit).
inline constexpr uint32_t kStdinWindowBytes = 1 << 20;

/// Reads only as much as there is credit for, so a slow worker slows the writer. Never blocks: a
/// descriptor is read when it is readable. Threads: the loop's.
class StdinFeeder {
 public:
  /// `fd` stays the caller's. `send` gets frames of at most 64 KiB; the last one has is_end.
  StdinFeeder(Loop& loop, int fd, int rank, std::function<void(wire::Stdin)> send);

  void AddCredit(uint32_t bytes);
  /// The worker is gone: reads no more.
  void Stop();

 private:
  void Resume();
  void ReadSome();

  Loop& loop_;
  int fd_;
  int rank_;
  std::function<void(wire::Stdin)> send_;
  uint64_t credit_ = 0;
  bool is_pollable_;  ///< Regular files and /dev/null are not; they are always readable.
  bool is_at_end_ = false;
  Watch watch_;
};

}  // namespace hvdray

#endif  // HVDRAY_LAUNCHER_ENGINE_STDIN_FEEDER_H_
