// SPDX-License-Identifier: Apache-2.0
#include "wire/send_lanes.h"

#include <utility>

#include "wire/frame.h"

namespace hvdray::wire {
namespace {

// Frames up to this size are copied together: a system call costs more than the copy.
constexpr size_t kSmallFrame = size_t{16} << 10;
constexpr size_t kMaxBatch = size_t{64} << 10;

}  // namespace

void SendLanes::Push(Lane& lane, size_t& bytes, std::string frame) {
  bytes += frame.size();
  lane.push_back(std::move(frame));
}

std::string SendLanes::PopFrom(Lane& lane, size_t& bytes) {
  std::string batch = std::move(lane.front());
  lane.pop_front();
  while (!lane.empty() && batch.size() + lane.front().size() <= kMaxBatch &&
         lane.front().size() <= kSmallFrame) {
    batch += lane.front();
    lane.pop_front();
  }
  bytes -= batch.size();
  return batch;
}

std::string SendLanes::Pop() {
  if (!control_.empty()) return PopFrom(control_, control_bytes_);
  if (!output_.empty()) return PopFrom(output_, output_bytes_);
  return {};
}

void SendLanes::SetVersion(uint16_t version) {
  for (Lane* lane : {&control_, &output_}) {
    for (std::string& frame : *lane) wire::SetVersion(frame, version);
  }
}

void SendLanes::Clear() {
  control_.clear();
  output_.clear();
  control_bytes_ = 0;
  output_bytes_ = 0;
}

}  // namespace hvdray::wire
