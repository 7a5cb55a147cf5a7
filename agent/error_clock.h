// When a worker's error began to show: the first line of its last traceback, as it comes out of the
// stderr pipe. Pure, and bounded whatever is written.
#ifndef HVDRAY_AGENT_ERROR_CLOCK_H_
#define HVDRAY_AGENT_ERROR_CLOCK_H_

#include <optional>
#include <string>

#include "base/types.h"

namespace hvdray {

class ErrorClock {
 public:
  /// The next bytes of the worker's stderr, read at `now`.
  void Feed(ByteView bytes, TimePoint now);
  /// nullopt: no traceback so far. Those of one chain are one error, which began with the first.
  std::optional<TimePoint> erred() const { return erred_; }

 private:
  std::string tail_;  // Of the bytes before: a first line may come in two parts.
  std::optional<TimePoint> erred_;
  TimePoint last_;
};

}  // namespace hvdray

#endif  // HVDRAY_AGENT_ERROR_CLOCK_H_
