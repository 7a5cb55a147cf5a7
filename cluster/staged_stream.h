// The stdio of a remote shell until an agent speaks on it, and the agent's link from then on.
#ifndef HVDRAY_CLUSTER_STAGED_STREAM_H_
#define HVDRAY_CLUSTER_STAGED_STREAM_H_

#include <functional>
#include <memory>
#include <string>

#include "base/byte_stream.h"
#include "cluster/agent_bootstrap.h"

namespace hvdray {

/// Threads: the loop's. As a ByteStream it begins with the noise and with the announcement, so that
/// its user sees what it would see of an agent that was there from the start.
class StagedStream : public ByteStream {
 public:
  struct ScanHandlers {
    /// NeedsAgent (answer by Write()), Failed, or AgentSpeaks: the last, nothing is read after it
    /// until Start().
    std::function<void(const BootstrapLine& line)> on_line;
    /// Before AgentSpeaks: closed, or over 64 KiB of noise (kProtocolError).
    std::function<void(Status)> on_closed;
  };
  StagedStream(Loop& loop, std::unique_ptr<ByteStream> inner);

  /// Begins to read what the shell says. Call once, before Start(). The handlers may destroy this.
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
  ScanHandlers scan_;
  Handlers handlers_;
  std::string kept_;     // noise, and the announcement with what follows
  std::string pending_;  // not a whole line yet
  bool is_found_ = false;
  bool is_passing_ = false;
  bool wants_reading_ = true;
  bool is_closed_ = false;
  Status closed_;
  std::shared_ptr<int> alive_ = std::make_shared<int>();
};

}  // namespace hvdray

#endif  // HVDRAY_CLUSTER_STAGED_STREAM_H_
