// SPDX-License-Identifier: Apache-2.0
// The launcher's side of the workers' channels (docs/channel.md): reads what workers send and tells
// it as facts; queues what they get until their agents have room. Pure.
#ifndef HVDRAY_LAUNCHER_ENGINE_WORKER_CHANNELS_H_
#define HVDRAY_LAUNCHER_ENGINE_WORKER_CHANNELS_H_

#include <cstdint>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <string_view>

#include "base/json.h"
#include "base/message_stream.h"
#include "base/status.h"
#include "base/types.h"
#include "launcher/driver/last_error.h"
#include "wire/message.h"

namespace hvdray {

inline constexpr int kChannelProtocol = 1;
/// Bytes of the longest metrics, as JSON.
inline constexpr size_t kMaxMetricsBytes = size_t{64} << 10;

/// Names workers as their agents do. Threads: the loop's.
class WorkerChannels {
 public:
  /// Called from within the functions below. Its functions may not call Take() or Feed().
  class Owner {
   public:
    virtual void OnHello(int worker, const Json& hello) = 0;
    /// Its `number`-th report, from 1.
    virtual void OnReport(int worker, uint32_t number, const Json& metrics) = 0;
    /// A piece of a message of `of` raw bytes, from byte `at` on; `data`: its key of that name, the
    /// same for each piece. A message without raw bytes is one empty piece.
    virtual void OnData(int worker, const Json& data, ByteView piece, uint64_t at, uint64_t of) = 0;
    /// The worker violated the protocol; no further facts follow.
    virtual void OnViolation(int worker, const Status& why) = 0;
    /// Bytes for a worker, within its credit.
    virtual void SendBytes(int worker, wire::Stdin frame) = 0;
    /// An object for a worker, in order with these bytes.
    virtual void SendObject(int worker, int64_t object) = 0;
    /// No worker waits for the object any more.
    virtual void OnDropped(int64_t object) = 0;
    /// The receiver accepts more.
    virtual bool HasRoom() const = 0;
    /// The worker may send `bytes` more.
    virtual void GrantRead(int worker, uint32_t bytes) = 0;

   protected:
    ~Owner() = default;
  };
  /// `owner` outlives it.
  explicit WorkerChannels(Owner& owner);
  ~WorkerChannels();
  WorkerChannels(const WorkerChannels&) = delete;
  WorkerChannels& operator=(const WorkerChannels&) = delete;

  /// What a worker's agent has read of its channel, in order. Credit for it is granted at once, or
  /// by GrantWithheld(), which the caller calls when there is room again.
  void Take(const wire::Output& output);
  void GrantWithheld();

  /// Forgets all workers: a new generation begins.
  void Clear();
  /// Forgets that worker: no more bytes of it come.
  void End(int worker);
  /// Bytes of a worker's channel, in order.
  void Feed(int worker, ByteView bytes);

  /// Queues whole messages for the worker, which has started.
  void Write(int worker, std::shared_ptr<const std::string> bytes);
  /// Queues an object behind them.
  void Give(int worker, int64_t object);
  /// Hosts may drop the object once those that wait for it have it, or are gone.
  void DropObject(int64_t object);
  /// The worker's agent has taken `bytes`.
  void AddCredit(int worker, uint32_t bytes);
  /// The worker is gone: drops what waits for it.
  void Drop(int worker);
  /// Bytes that wait for any worker.
  size_t queued_bytes() const { return queued_bytes_; }

 private:
  struct Channel;
  Channel& ChannelOf(int worker);
  void Flush(Channel& channel);
  bool IsWaitedFor(int64_t object) const;
  void DropObjects();
  Status OnMessage(Channel& channel, std::string_view type, const Json& head, uint64_t blob);
  Status OnReport(Channel& channel, const Json& head);

  Owner& owner_;
  std::map<int, std::unique_ptr<Channel>> channels_;
  std::map<int, uint32_t> withheld_;  // by worker: credit that waits for room
  std::set<int64_t> dropping_;        // objects that a worker waits for
  size_t queued_bytes_ = 0;
};

/// Whether `metrics` may be reported: an object of numbers, texts, booleans, nulls and such
/// objects, of at most kMaxMetricsBytes. Errors: kProtocolError.
Status CheckMetrics(const Json& metrics);

/// The message `end`: the worker is to end within `grace`.
std::shared_ptr<const std::string> EndMessage(Duration grace);

/// "rank 3 broke the rules of its channel and is killed: ..."
std::string ChannelFaultText(std::string_view who, const Status& why);
/// The same as the worker's last error, for the verdict.
LastError ChannelError(const Status& why);

}  // namespace hvdray

#endif  // HVDRAY_LAUNCHER_ENGINE_WORKER_CHANNELS_H_
