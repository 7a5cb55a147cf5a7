// From Stdin frames to a worker's stdin pipe. Holds at most one window; the launcher sends no more
// than it has credit for.
#ifndef HVDRAY_AGENT_STDIN_PUMP_H_
#define HVDRAY_AGENT_STDIN_PUMP_H_

#include <deque>
#include <functional>
#include <string>

#include "base/fd.h"
#include "base/loop.h"

namespace hvdray {

/// What the launcher may send before the first Credit, and the most that waits here.
inline constexpr size_t kStdinWindowBytes = size_t{1} << 20;

/// Threads: the loop's.
class StdinPump {
 public:
  /// `pipe`: non-blocking write end. `on_consumed(bytes)`: so many bytes have left, more may come;
  /// called also for bytes that a worker which closed its stdin does not want.
  StdinPump(Loop& loop, UniqueFd pipe, std::function<void(uint32_t bytes)> on_consumed);

  /// Takes bytes over and, with `is_end`, closes the pipe behind them. Errors: kProtocolError when
  /// the peer sends beyond its window; the bytes are not taken.
  Status Write(std::string bytes, bool is_end);
  /// The worker is gone: what waits is dropped, and consumed.
  void Close();

 private:
  void Flush();

  Loop& loop_;
  UniqueFd pipe_;
  std::function<void(uint32_t)> on_consumed_;
  std::deque<std::string> queue_;
  size_t sent_of_first_ = 0;
  size_t queued_bytes_ = 0;
  bool is_end_ = false;
  Watch watch_;
};

}  // namespace hvdray

#endif  // HVDRAY_AGENT_STDIN_PUMP_H_
