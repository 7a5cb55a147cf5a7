// SPDX-License-Identifier: Apache-2.0
// The connection to the client of `hvdray serve`: who it is, what it asks, that it is still there.
// docs/serve.md, "Connection".
#ifndef HVDRAY_LAUNCHER_ENGINE_CONTROL_LINK_H_
#define HVDRAY_LAUNCHER_ENGINE_CONTROL_LINK_H_

#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "base/byte_stream.h"
#include "base/fd.h"
#include "base/loop.h"
#include "base/message_stream.h"
#include "base/result.h"
#include "launcher/engine/control_messages.h"

namespace hvdray {

/// Bytes of `data` messages that the client may be behind.
inline constexpr int64_t kControlWindowBytes = int64_t{64} << 20;

/// One client. Threads: the loop's.
class ControlLink final : private ByteStream::Owner {
 public:
  /// Called from the loop; may not destroy the link.
  class Owner {
   public:
    /// In order; the first one is Hello. Credit is not among them.
    virtual void OnRequest(ControlRequest request) = 0;
    /// The bytes of a Put, which OnRequest() has got already.
    virtual void OnPiece(ByteView piece, uint64_t left) = 0;
    /// Once, last: ok after `bye`, its end of file, or its death. Else kProtocolError.
    virtual void OnGone(const Status& why) = 0;
    /// HasRoom() is true again.
    virtual void OnRoom() = 0;

   protected:
    ~Owner() = default;
  };
  /// `socket`: connected; `grace`: see ReadControlRequest(). Errors: kUsage if it is no stream
  /// socket, or its peer is of another user. `owner` outlives the link.
  static Result<std::unique_ptr<ControlLink>> Open(Loop& loop, UniqueFd socket, Duration grace,
                                                   Owner& owner);

  void Send(const Json& head);
  /// A message `data` with its blob: counts against the window.
  void SendData(Json head, ByteView blob);
  /// The client takes data: neither the window nor the socket is full. After its end always:
  /// nothing waits for a client that has gone.
  bool HasRoom() const;
  /// false: the workers take no more for now. The end of the client is noticed all the same, and
  /// what it said before and was not read is lost.
  void SetReading(bool is_reading);
  /// Says bye; nothing is sent or read afterwards.
  void Close(int exit_code);
  bool is_open() const { return stream_ != nullptr && !is_closed_; }
  /// All has left this process.
  bool IsFlushed() const { return stream_->QueuedBytes() == 0; }

 private:
  ControlLink(Loop& loop, Duration grace, Owner& owner);
  void Begin(UniqueFd socket, std::optional<int> peer);
  void OnData(ByteView bytes) override;
  void OnDrained() override { TellRoom(); }
  void OnClosed(Status why) override;
  Status OnMessage(std::string_view type, const Json& head, uint64_t blob);
  Status OnBlob(ByteView piece, uint64_t left);
  Status Take(ControlRequest request);
  void End(const Status& why);
  void TellRoom();
  bool IsTaking() const;

  Loop& loop_;
  const Duration grace_;
  Owner& owner_;
  MessageReader reader_;
  std::unique_ptr<ByteStream> stream_;
  std::optional<ControlRequest> pending_;  // its blob still comes
  std::deque<UniqueFd> descriptors_;       // that came, for requests to come
  int64_t window_ = kControlWindowBytes;
  bool is_greeted_ = false;
  bool is_closed_ = false;
  bool is_gone_ = false;  // as the owner knows
  bool was_full_ = false;
  UniqueFd peer_;  // a pidfd
  Watch peer_watch_;
  UniqueFd hang_up_;  // the socket again: one descriptor has one watch of each kind
  // While it is not read.
  Watch hang_up_watch_;
};

/// Accepts the clients of `--control PATH`, one at a time.
class ControlListener {
 public:
  /// Makes the socket, with mode 0600, replacing a stale one. Errors: kFileUnwritable.
  static Result<std::unique_ptr<ControlListener>> Open(
      Loop& loop, std::string path, std::function<void(UniqueFd socket)> on_client);
  ~ControlListener();

 private:
  ControlListener(Loop& loop, std::string path, UniqueFd fd,
                  std::function<void(UniqueFd)> on_client);
  void Listen();
  void Accept();

  Loop& loop_;
  const std::string path_;
  const UniqueFd fd_;
  const std::function<void(UniqueFd)> on_client_;
  Watch watch_;
};

}  // namespace hvdray

#endif  // HVDRAY_LAUNCHER_ENGINE_CONTROL_LINK_H_
