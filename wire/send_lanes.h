// SPDX-License-Identifier: Apache-2.0
// The two queues of a link: control goes first, output waits. Pure: holds encoded frames only.
#ifndef HVDRAY_WIRE_SEND_LANES_H_
#define HVDRAY_WIRE_SEND_LANES_H_

#include <cstdint>
#include <deque>
#include <string>

#include "base/types.h"

namespace hvdray::wire {

class SendLanes {
 public:
  void PushControl(std::string frame) { Push(control_, control_bytes_, std::move(frame)); }
  void PushOutput(std::string frame) { Push(output_, output_bytes_, std::move(frame)); }
  /// Bytes for one write: a frame, or several small ones that together stay small. Control as long
  /// as there is any, each lane in its order. Empty: nothing is queued.
  std::string Pop();
  /// Stamps `version` on all frames that wait.
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
