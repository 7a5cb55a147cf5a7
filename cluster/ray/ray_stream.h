// SPDX-License-Identifier: Apache-2.0
// Reads a file of a Ray job's driver (its stream, its events) over the network: a pool thread reads
// it, the loop gets it piece by piece, at the loop's pace.
#ifndef HVDRAY_CLUSTER_RAY_RAY_STREAM_H_
#define HVDRAY_CLUSTER_RAY_RAY_STREAM_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include "base/blocking_pool.h"
#include "base/loop.h"
#include "cluster/ray/dashboard_client.h"

namespace hvdray {

/// Loop and pool outlive it. Threads: the loop's.
class RayStream {
 public:
  struct Handlers {
    std::function<void(const std::string& bytes)> on_bytes;
    /// After ReadRest(): the rest has arrived, or can't be read. `last_line`: of the job's own log.
    /// May be null if ReadRest() is never called.
    std::function<void(const std::string& last_line)> on_rest;
  };
  /// `suffix`: selects the driver's file, see RayStreamName().
  RayStream(Loop& loop, BlockingPool& pool, RayAccess access, std::string job_id,
            std::string suffix, Handlers handlers);
  /// Does not wait for the reading thread; the pool does.
  ~RayStream();
  RayStream(const RayStream&) = delete;
  RayStream& operator=(const RayStream&) = delete;

  /// Reads from that node, from offset() on.
  void Follow(const std::string& node);
  /// Ends following, then reads what the file holds now.
  void ReadRest();
  void Stop();
  /// Continues with the stream's file of that number, from its start. May be called from on_bytes.
  void GoOnIn(uint32_t file);

  /// True pauses reading: the loop has too much unprocessed data.
  void SetBusy(bool is_busy);

  const std::string& node() const { return node_; }
  /// Bytes passed to on_bytes.
  uint64_t offset() const { return offset_; }

 private:
  class Flow;
  void OnPiece(const std::string& bytes);

  Loop& loop_;
  BlockingPool& pool_;
  const RayAccess access_;
  const std::string job_id_;
  const std::string first_suffix_;
  std::string suffix_;
  bool is_reading_rest_ = false;
  Handlers handlers_;
  std::string node_;
  uint64_t offset_ = 0;
  std::shared_ptr<Flow> flow_;  // shared with the reading thread
  bool is_busy_ = false;
};

/// Name of a driver's file in its session's log directory.
std::string RayStreamName(const std::string& job_id, const std::string& suffix);

}  // namespace hvdray

#endif  // HVDRAY_CLUSTER_RAY_RAY_STREAM_H_
