// SPDX-License-Identifier: Apache-2.0
// The two send queues of a link. Control goes first, output waits. Pure: holds encoded frames only.
#ifndef HVDRAY_WIRE_SEND_LANES_H_
#define HVDRAY_WIRE_SEND_LANES_H_

#include <cstdint>
#include <deque>
#include <string>

#include "base/types.h"

namespace hvdray::wire {

/// Owns the queued frames. Sizes are in bytes. Threads: one.
class SendLanes {
 public:
  void PushControl(std::string frame) { Push(control_, control_bytes_, std::move(frame)); }
  void PushOutput(std::string frame) { Push(output_, output_bytes_, std::move(frame)); }
  /// Removes and returns the bytes of one write: one frame, or several small ones that stay small
  /// together. Output only if no control is queued; each lane in order. Empty: nothing is queued.
  std::string Pop();
  /// Sets the version of all queued frames.
  void SetVersion(uint16_t version);
  void Clear();

  bool is_empty() const { return control_.empty() && output_.empty(); }
  bool has_control() const { return !control_.empty(); }
  size_t output_bytes() const { return output_bytes_; }
  size_t control_bytes() const { return control_bytes_; }
  size_t bytes() const { return control_bytes_ + output_bytes_; }

 private:
  using Lane = std::deque<std::string>;
  static void Push(Lane& lane, size_t& bytes, std::string frame);
  static std::string PopFrom(Lane& lane, size_t& bytes);

  Lane control_;
  Lane output_;
  size_t control_bytes_ = 0;
  size_t output_bytes_ = 0;
};

}  // namespace hvdray::wire

#endif  // HVDRAY_WIRE_SEND_LANES_H_
