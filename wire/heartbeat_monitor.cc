#include "wire/heartbeat_monitor.h"

namespace hvdray::wire {

bool HeartbeatMonitor::IsLostAt(TimePoint now) {
  const Duration since_tick = now - ticked_at_;
  ticked_at_ = now;
  if (is_heard_ || is_peer_paused_) {
    is_heard_ = false;
    heard_at_ = now;
    return false;
  }
  // A tick that comes late says that we slept: what the peer sent meanwhile waits to be read.
  if (since_tick > 2 * period_) heard_at_ += since_tick - period_;
  return timeout_ > Duration::zero() && now - heard_at_ > timeout_;
}

}  // namespace hvdray::wire
