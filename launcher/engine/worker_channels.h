// SPDX-License-Identifier: Apache-2.0
// The launcher's side of the workers' channels (docs/channel.md): reads what workers send and tells
// it as facts; queues what they get until their agents have room. Pure.
#ifndef HVDRAY_LAUNCHER_ENGINE_WORKER_CHANNELS_H_
#define HVDRAY_LAUNCHER_ENGINE_WORKER_CHANNELS_H_

#include <cstdint>
#include <functional>
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
  struct Handlers {
    std::function<void(int worker, const Json& hello)> on_hello;
    /// Its `number`-th report, from 1.
    std::function<void(int worker, uint32_t number, const Json& metrics)> on_report;
    /// A piece of a message of `of` raw bytes, from byte `at` on; `data`: its key of that name, the
    /// same for each piece. A message without raw bytes is one empty piece.
    std::function<void(int worker, const Json& data, ByteView piece, uint64_t at, uint64_t of)>
        on_data;
    /// The worker violated the protocol; no further facts follow.
    std::function<void(int worker, const Status& why)> on_violation;
    /// Bytes for a worker, within its credit. Needed by Write() only.
    std::function<void(int worker, wire::Stdin)> send = {};
    /// An object for a worker, in order with these bytes. Needed by Give() only.
    std::function<void(int worker, int64_t object)> give = {};
    /// No worker waits for the object any more. Needed by DropObject() only.
    std::function<void(int64_t object)> drop = {};
    /// True while the receiver accepts more. Needed by Take() only, as the next one.
    std::function<bool()> has_room = {};
    /// The worker may send `bytes` more.
    std::function<void(int worker, uint32_t bytes)> grant = {};
  };
  explicit WorkerChannels(Handlers handlers);
  ~WorkerChannels();
  WorkerChannels(const WorkerChannels&) = delete;
  WorkerChannels& operator=(const WorkerChannels&) = delete;

  /// What a worker's agent has read of its channel, in order. Credit for it is granted at once, or
  /// by GrantWithheld(), which the caller calls when there is room again. Not from within a
  /// handler.
  void Take(const wire::Output& output);
  void GrantWithheld();

  /// Forgets all workers: a new generation begins.
  void Clear();
  /// Forgets that worker: no more bytes of it come.
  void End(int worker);
  /// Bytes of a worker's channel, in order. Must not be called from within a handler.
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

  const Handlers handlers_;
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
