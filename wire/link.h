// SPDX-License-Identifier: Apache-2.0
// A link between launcher and agent: messages over any byte stream, with version agreement,
// heartbeats and two lanes (control overtakes queued output).
#ifndef HVDRAY_WIRE_LINK_H_
#define HVDRAY_WIRE_LINK_H_

#include <chrono>
#include <functional>
#include <memory>
#include <string>

#include "base/byte_stream.h"
#include "base/loop.h"
#include "base/types.h"
#include "wire/message.h"

namespace hvdray::wire {

enum class LinkRole : uint8_t { kLauncher, kAgent };

/// Queued bytes from which HasOutputRoom() is false.
inline constexpr size_t kOutputLaneBytes = size_t{1} << 20;
/// Queued bytes from which HasControlRoom() is false.
inline constexpr size_t kControlLaneBytes = size_t{256} << 10;
/// How long either side waits for its Bye to be sent.
inline constexpr Duration kByeLimit = std::chrono::milliseconds(500);

/// Owns its stream: destroying the link closes it and drops what is queued. Threads: the loop's
/// only; no method blocks.
class Link {
 public:
  /// What a link tells, from the loop. Only OnClosed() may destroy the link.
  class Owner {
   public:
    /// Each message of the peer, in order; the first is its Hello. The link handles Heartbeat and
    /// Bye itself.
    virtual void OnMessage(Message&& message) = 0;
    /// Once, as the last call. ok: the peer sent Bye with code 0; with another code, that code and
    /// text. kAgentStartFailed: closed before the announcement. kAgentLost: closed without a Bye,
    /// or silent. kProtocolError, kProtocolMismatch: the peer broke the protocol, or no common
    /// version exists. kInternal: a message could not be encoded.
    virtual void OnClosed(Status why) = 0;
    /// The output lane was full and is now below half of kOutputLaneBytes.
    virtual void OnOutputRoom() {}
    /// The control lane was full and is now below half of kControlLaneBytes.
    virtual void OnControlRoom() {}
    /// Launcher only: a line of output that arrived before the agent's announcement, without its
    /// line ending. At most 64 KiB in all.
    virtual void OnNoise(ByteView /*line*/) {}

   protected:
    ~Owner() = default;
  };

  virtual ~Link() = default;
  /// Starts reading; an agent's link sends the announcement first. Call once. The caller sends its
  /// own Hello, at any time. Other messages wait until both Hellos have been exchanged, and a
  /// launcher's Hello waits for the announcement. The link checks that the peer's Hello comes first
  /// and within its limit (4 KiB from a launcher, 64 KiB from an agent), and checks version and
  /// direction of all later frames. It answers a violation with a Bye and closes.
  /// `owner` outlives the link.
  virtual void Start(Owner& owner) = 0;
  /// Queues a message: bulk (Output, Stdin, File, what concerns objects) and what must not overtake
  /// it (GenerationStopped) in the output lane, all others in the control lane, which is sent
  /// first. Each lane keeps its order. Ignored once the link is closed or closing.
  virtual void Send(Message message) = 0;
  /// False: hold Output and Stdin back until OnOutputRoom(). The link queues them regardless.
  virtual bool HasOutputRoom() const = 0;
  /// False: hold KV values back until OnControlRoom(). Other control messages are few and small.
  virtual bool HasControlRoom() const = 0;
  /// Sends a Heartbeat every `period` and treats a peer that is silent for `timeout` as lost (0:
  /// never), unless its last Heartbeat had is_paused.
  virtual void StartHeartbeat(Duration period, Duration timeout) = 0;
  /// Sends what is queued and `bye`, closes the stream and calls `on_done`, at the latest after
  /// `deadline` from now. The owner is told nothing more. `on_done` may destroy the link.
  virtual void Close(Bye bye, Duration deadline, std::function<void()> on_done) = 0;
  /// Bytes in both lanes and in the stream that the kernel has not accepted yet.
  virtual size_t QueuedBytes() const = 0;
  /// Whether the link closed because of the heartbeat's timeout. The stream itself had not ended,
  /// and the process behind it may still run.
  virtual bool IsTimedOut() const = 0;
};

/// Returns a link that is ready for Start(). `loop` must outlive it.
std::unique_ptr<Link> MakeLink(Loop& loop, LinkRole role, std::unique_ptr<ByteStream> stream);

/// Decides when a silent peer is lost. Pure: reads no clock. Threads: one.
class HeartbeatMonitor {
 public:
  /// `timeout` 0: never. The silence begins at `now`.
  HeartbeatMonitor(Duration period, Duration timeout, TimePoint now)
      : period_(period), timeout_(timeout), heard_at_(now), ticked_at_(now) {}

  /// Bytes arrived. On a slow line, a part of a large message is already a sign of life.
  void OnBytes() { is_heard_ = true; }
  /// A heartbeat arrived. is_paused: a terminal is about to stop the peer, so wait for it without
  /// limit until a heartbeat without is_paused arrives.
  void OnHeartbeat(bool is_paused) { is_peer_paused_ = is_paused; }
  /// Call once per period. Returns whether the peer has been silent for longer than the timeout.
  /// Time in which this process did not run (stopped, suspended, busy) does not count.
  bool IsLostAt(TimePoint now);
  /// The silence at the last IsLostAt().
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
