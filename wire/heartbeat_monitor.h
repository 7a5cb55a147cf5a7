// Decides from what was heard when a silent peer counts as lost. Pure: reads no clock.
#ifndef HVDRAY_WIRE_HEARTBEAT_MONITOR_H_
#define HVDRAY_WIRE_HEARTBEAT_MONITOR_H_

#include "base/types.h"

namespace hvdray::wire {

class HeartbeatMonitor {
 public:
  /// timeout 0: a peer is never lost. The peer counts as heard at `now`.
  HeartbeatMonitor(Duration period, Duration timeout, TimePoint now)
      : period_(period), timeout_(timeout), heard_at_(now), ticked_at_(now) {}

  /// Any bytes came: a value of 16 MiB on a slow line is a sign of life long before it is whole.
  void OnBytes() { is_heard_ = true; }
  /// is_paused: the peer is about to be stopped by a terminal; wait for it without limit, until a
  /// heartbeat takes that back.
  void OnHeartbeat(bool is_paused) { is_peer_paused_ = is_paused; }
  /// Call once a period, at `now`. Returns true: lost, silent for longer than the timeout. Time in
  /// which this side itself did not run (stopped, suspended, busy) is not held against the peer.
  bool IsLostAt(TimePoint now);
  /// How long the peer has been silent, as of the last IsLostAt().
  Duration Silence() const { return ticked_at_ - heard_at_; }

 private:
  Duration period_;
  Duration timeout_;
  TimePoint heard_at_;
  TimePoint ticked_at_;
  bool is_heard_ = false;
  bool is_peer_paused_ = false;
};

}  // namespace hvdray::wire

#endif  // HVDRAY_WIRE_HEARTBEAT_MONITOR_H_
