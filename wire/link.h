// SPDX-License-Identifier: Apache-2.0
// A link between launcher and agent: typed messages over any byte stream, with version agreement,
// heartbeat and two lanes (control overtakes queued output).
#ifndef HVDRAY_WIRE_LINK_H_
#define HVDRAY_WIRE_LINK_H_

#include <functional>
#include <memory>
#include <string>

#include "base/byte_stream.h"
#include "base/loop.h"
#include "base/types.h"
#include "wire/message.h"

namespace hvdray::wire {

enum class LinkRole : uint8_t { kLauncher, kAgent };

struct LinkHandlers {
  /// Each message of the peer, in the order of the stream; the first is its Hello. Heartbeat and
  /// Bye are the link's own and do not come here.
  std::function<void(Message&&)> on_message;
  /// Once; nothing is called afterwards. ok: Bye{0} came; the peer's own code: Bye{code} came.
  /// kAgentStartFailed: closed before the announcement; kAgentLost: closed or silent;
  /// kProtocolError, kProtocolMismatch: as said; kInternal: what was sent fits into no frame.
  std::function<void(Status)> on_closed;
  /// The output lane was full and has fallen under half of kOutputLaneBytes: send on.
  std::function<void()> on_output_room;
  /// The control lane was full and has fallen under half of kControlLaneBytes.
  std::function<void()> on_control_room;
  /// Launcher only: start-up noise that came before the agent's announcement, line by line, without
  /// the line's end. At most 64 KiB in all.
  std::function<void(ByteView)> on_noise;
};

/// From this on the output lane asks its user to wait (HasOutputRoom() is false).
inline constexpr size_t kOutputLaneBytes = size_t{1} << 20;
/// The same for values of the rendezvous in the control lane (HasControlRoom()).
inline constexpr size_t kControlLaneBytes = size_t{256} << 10;

/// Threads: the loop's. Any handler may destroy it. Destroying it closes the stream and loses what
/// is queued.
class Link {
 public:
  virtual ~Link() = default;
  /// Sends the announcement (agent) and begins to read. The user sends its Hello itself, at any
  /// time; whatever else is sent waits until both Hellos are there, and a launcher's Hello until
  /// the announcement is. The link checks that the peer's Hello comes first, its limit (4 KiB from
  /// a launcher, 64 KiB from an agent) and the version and the direction of all later frames; a
  /// peer that breaks the rules is told so by a Bye.
  virtual void Start(LinkHandlers handlers) = 0;
  /// Queues a message; never blocks. Output, Stdin, File and GenerationStopped go into the output
  /// lane, in order; all else into the control lane, which is always sent first, in order as well.
  /// Dropped when the link is closed or closing.
  virtual void Send(Message message) = 0;
  /// False: hold Output and Stdin back until on_output_room. They are queued all the same.
  virtual bool HasOutputRoom() const = 0;
  /// False: hold values back until on_control_room. All other control messages are few and small.
  virtual bool HasControlRoom() const = 0;
  /// Starts the heartbeat: one each `period`; a peer silent for `timeout` is lost (0: never),
  /// unless its last Heartbeat said is_paused.
  virtual void StartHeartbeat(Duration period, Duration timeout) = 0;
  /// Sends what is queued, then Bye, then closes the stream and calls `on_done`; no other handler
  /// is called any more. `deadline`, from now, cuts that short.
  virtual void Close(Bye bye, Duration deadline, std::function<void()> on_done) = 0;
  /// Bytes of both lanes and of the stream that the system has not taken yet.
  virtual size_t QueuedBytes() const = 0;
  /// It was closed because nothing had come for the heartbeat's timeout; the stream itself has not
  /// ended, and whoever carries it may not either.
  virtual bool IsTimedOut() const = 0;
};

/// Ready for Start(). loop: outlives the link.
std::unique_ptr<Link> MakeLink(Loop& loop, LinkRole role, std::unique_ptr<ByteStream> stream);

// Decides from what was heard when a silent peer counts as lost. Pure: reads no clock.

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

#endif  // HVDRAY_WIRE_LINK_H_
