// SPDX-License-Identifier: Apache-2.0
// Moves bytes from Stdin frames to a worker's stdin pipe or channel. Holds at most one window, as
// the launcher may not send more than its credit. docs/protocol.md, "Credit".
#ifndef HVDRAY_AGENT_STDIN_PUMP_H_
#define HVDRAY_AGENT_STDIN_PUMP_H_

#include <deque>
#include <functional>
#include <string>

#include "base/fd.h"
#include "base/loop.h"

namespace hvdray {

/// Threads: the loop's.
class StdinPump {
 public:
  /// Takes ownership of `pipe`, a non-blocking write end. `on_consumed(bytes)`: that many bytes
  /// left the queue, so the launcher may send as many; includes bytes dropped because the worker
  /// closed its stdin. The loop outlives the pump.
  StdinPump(Loop& loop, UniqueFd pipe, std::function<void(uint32_t bytes)> on_consumed);
  /// The same for a pipe that comes later: what is written until then is kept.
  StdinPump(Loop& loop, std::function<void(uint32_t bytes)> on_consumed);
  void Open(UniqueFd pipe);

  /// Queues bytes; with `is_end`, ends the pipe after them, or this direction of a channel. Errors:
  /// kProtocolError when the peer exceeds its window; drops those bytes.
  Status Write(std::string bytes, bool is_end);
  /// Of a socket: queues bytes that need no credit, with a descriptor beside the first of them.
  void WriteWithDescriptor(std::string bytes, UniqueFd descriptor);
  /// The worker is gone, or never came: drops queued bytes and reports them as consumed.
  void Close();

 private:
  struct Item {
    std::string bytes;
    UniqueFd descriptor = {};  // sent with the first byte
    bool is_credited = true;
  };
  void Flush();
  ssize_t Send(Item& item);

  Loop& loop_;
  UniqueFd pipe_;
  bool is_awaited_ = false;  // the pipe
  std::function<void(uint32_t)> on_consumed_;
  std::deque<Item> queue_;
  size_t sent_of_first_ = 0;
  size_t queued_bytes_ = 0;
  bool is_end_ = false;
  Watch watch_;
};

}  // namespace hvdray

#endif  // HVDRAY_AGENT_STDIN_PUMP_H_
