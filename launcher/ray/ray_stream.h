// A file of a job's driver on Ray (its stream, its events) as it comes off the network: a thread
// reads it, the loop gets it piece by piece, and no faster than the loop takes it.
#ifndef HVDRAY_LAUNCHER_RAY_RAY_STREAM_H_
#define HVDRAY_LAUNCHER_RAY_RAY_STREAM_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include "base/blocking_pool.h"
#include "base/loop.h"
#include "cluster/ray/dashboard_client.h"

namespace hvdray {

/// Threads: the loop's, which outlives it; the pool does, too.
class RayStream {
 public:
  struct Handlers {
    std::function<void(const std::string& bytes)> on_bytes;
    /// The rest is here, or can't be had: behind ReadRest(). `last_line` of the job's own log. May
    /// be null for who does not call that.
    std::function<void(const std::string& last_line)> on_rest;
  };
  /// `suffix`: which of the driver's files, see RayStreamName().
  RayStream(Loop& loop, BlockingPool& pool, RayAccess access, std::string job_id,
            std::string suffix, Handlers handlers);
  /// Does not wait for threads: the pool does.
  ~RayStream();
  RayStream(const RayStream&) = delete;
  RayStream& operator=(const RayStream&) = delete;

  /// From where the last one left off.
  void Follow(const std::string& node);
  /// Ends following, then reads what is there now.
  void ReadRest();
  void Stop();
  /// What comes now is in the stream's file of that number, from its start. May be called from
  /// on_bytes.
  void GoOnIn(uint32_t file);

  /// Whether the loop has more to do with what came than it should: reading waits then.
  void SetBusy(bool is_busy);

  const std::string& node() const { return node_; }
  /// Bytes that on_bytes has been given.
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
  std::shared_ptr<Flow> flow_;  // shared with the thread that reads
  bool is_busy_ = false;
};

/// The files of a job's driver, in its session's folder of logs.
std::string RayStreamName(const std::string& job_id, const std::string& suffix);

}  // namespace hvdray

#endif  // HVDRAY_LAUNCHER_RAY_RAY_STREAM_H_
