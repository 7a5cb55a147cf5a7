// SPDX-License-Identifier: Apache-2.0
// The stdio of a remote shell. Carries the bootstrap dialogue first, and the agent's link once the
// agent has announced itself.
#ifndef HVDRAY_CLUSTER_STAGED_STREAM_H_
#define HVDRAY_CLUSTER_STAGED_STREAM_H_

#include <functional>
#include <memory>
#include <string>

#include "base/byte_stream.h"
#include "cluster/agent_bootstrap.h"

namespace hvdray {

/// As a ByteStream it replays the noise and the announcement first, so its user sees the same bytes
/// as from an agent that was installed already. Threads: the loop's.
class StagedStream : public ByteStream {
 public:
  struct ScanHandlers {
    /// Called for NeedsAgent (answer it with Write()), Failed and AgentSpeaks. AgentSpeaks is the
    /// last: reading pauses until Start().
    std::function<void(const BootstrapLine& line)> on_line;
    /// The stream closed before AgentSpeaks, or the shell printed over 64 KiB of noise
    /// (kProtocolError).
    std::function<void(Status)> on_closed;
  };
  /// `inner`: not started yet. The loop outlives the stream.
  StagedStream(Loop& loop, std::unique_ptr<ByteStream> inner);

  /// Starts reading the shell's output. Call once, before Start().
  void Scan(ScanHandlers handlers);

  void Start(Handlers handlers) override;
  void Write(std::string bytes) override { inner_->Write(std::move(bytes)); }
  size_t QueuedBytes() const override { return inner_->QueuedBytes(); }
  void SetReading(bool is_reading) override;

 private:
  void OnData(ByteView bytes);
  void OnClosed(Status why);
  void TakeLines();
  void Deliver();

  Loop& loop_;
  std::unique_ptr<ByteStream> inner_;
  // Shared with the call in progress only.
  std::shared_ptr<const ScanHandlers> scan_;
  std::shared_ptr<const Handlers> handlers_;
  std::string kept_;     // for Start(): noise, the announcement and what follows it
  std::string pending_;  // an unfinished line
  bool is_found_ = false;
  bool is_passing_ = false;
  bool wants_reading_ = true;
  bool is_closed_ = false;
  Status closed_;
  Watch deliver_;
};

}  // namespace hvdray

#endif  // HVDRAY_CLUSTER_STAGED_STREAM_H_
