// SPDX-License-Identifier: Apache-2.0
// Both ends of a measurement between two hosts: round trips of small messages, and how many bytes a
// second arrive in each direction over one TCP connection, as Gloo and NCCL would use it.
// docs/protocol.md, "Measurement".
#ifndef HVDRAY_AGENT_MEASURER_H_
#define HVDRAY_AGENT_MEASURER_H_

#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <vector>

#include "base/fd.h"
#include "base/loop.h"
#include "wire/message.h"

namespace hvdray {

/// Bytes per second in a window of time that begins with the first byte. Leaves out the first
/// quarter, in which TCP still finds its speed. Pure.
class RateMeter {
 public:
  explicit RateMeter(Duration window) : window_(window) {}
  void Add(size_t bytes, TimePoint now);
  bool has_begun() const { return has_begun_; }
  /// 0: nothing has arrived.
  int64_t BytesPerSecond(TimePoint now) const;

 private:
  Duration window_;
  bool has_begun_ = false;
  bool is_counting_ = false;
  TimePoint first_{};
  TimePoint from_{};
  uint64_t all_bytes_ = 0;
  uint64_t bytes_ = 0;
};

/// The passive end, for connections that a ProbeListener has accepted. Serves those that begin with
/// the whole token, silently closes all others once they have sent a greeting's length, and every
/// one after some seconds. Threads: the loop's.
class MeasureServer {
 public:
  /// The loop outlives the server.
  MeasureServer(Loop& loop, std::string token) : loop_(loop), token_(std::move(token)) {}
  /// `socket`: accepted and non-blocking. With too many connections, closes it.
  void Take(UniqueFd socket);
  const std::string& token() const { return token_; }

 private:
  struct Guest {
    UniqueFd socket;
    std::string greeting;
    char task = 0;
    RateMeter meter{Duration::zero()};
    Duration window{};
    bool is_told = false;
    Watch reads;
    Watch writes;
    Watch limit;
    Watch end_of_window;
  };
  void OnReadable(uint64_t id);
  void OnWritable(uint64_t id);
  /// Takes bytes for the greeting. False: the guest is gone.
  bool Greet(uint64_t id, Guest& guest, ByteView bytes);
  void Serve(uint64_t id, Guest& guest, ByteView bytes);
  void Tell(uint64_t id);
  void Drop(uint64_t id) { guests_.erase(id); }

  Loop& loop_;
  const std::string token_;
  std::map<uint64_t, Guest> guests_;
  uint64_t last_id_ = 0;
};

/// The active end: measures one target and answers once, unless destroyed before. Threads: the
/// loop's; does not block.
class Measurer {
 public:
  using DoneFn = std::function<void(const wire::ProbeOutcome& outcome)>;
  /// `probe`: with a token and one target. `on_done`: called at the latest after its timeout.
  Measurer(Loop& loop, const wire::Probe& probe, DoneFn on_done);

 private:
  void Begin(wire::MeasureStep step);
  void OnWritable();
  void OnReadable();
  void OnConnected();
  void OnEcho();
  void OnReport(ByteView bytes);
  void OnBulk(size_t bytes);
  void Ping();
  void Next();
  void Finish(int error);

  Loop& loop_;
  const wire::Probe probe_;
  DoneFn on_done_;
  wire::ProbeOutcome outcome_{wire::ProbeStage::kTimeout, 0, wire::MeasureStep::kConnecting};
  wire::MeasureStep step_ = wire::MeasureStep::kRoundTrips;
  bool is_connected_ = false;
  UniqueFd socket_;
  TimePoint began_{};
  TimePoint pinged_{};
  std::vector<int64_t> round_trips_;
  std::string report_;
  RateMeter meter_{Duration::zero()};
  std::vector<char> buffer_;
  Watch reads_;
  Watch writes_;
  Watch end_of_window_;
  Watch timer_;  // The deadline, or the pending answer.
};

}  // namespace hvdray

#endif  // HVDRAY_AGENT_MEASURER_H_
