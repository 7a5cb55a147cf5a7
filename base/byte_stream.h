// SPDX-License-Identifier: Apache-2.0
// A two-way stream of bytes with back-pressure: a socketpair, an SSH channel, a TLS connection.
#ifndef HVDRAY_BASE_BYTE_STREAM_H_
#define HVDRAY_BASE_BYTE_STREAM_H_

#include <functional>
#include <memory>

#include "base/fd.h"
#include "base/loop.h"
#include "base/types.h"

namespace hvdray {

/// Threads: the loop's. The owner may drop the stream at any time, also when it is called: only the
/// loop calls it, as the last thing that it does with the stream; no method does.
class ByteStream {
 public:
  class Owner {
   public:
    /// Bytes as they arrive; the view is valid during the call only.
    virtual void OnData(ByteView bytes) = 0;
    /// The queue is empty again after a Write() that had to wait.
    virtual void OnDrained() {}
    /// Once, as the last call. ok: the peer closed the stream in order. OnData() gets all the peer
    /// sent first, even if a write failed.
    virtual void OnClosed(Status why) = 0;

   protected:
    ~Owner() = default;
  };

  virtual ~ByteStream() = default;
  /// Begins to read. Call once. Failures come as OnClosed(). `owner` outlives the stream.
  virtual void Start(Owner& owner) = 0;
  /// Sends what it can at once and queues the rest. The queue has no limit: the caller watches
  /// QueuedBytes(). Does nothing after a failure.
  virtual void Write(std::string bytes) = 0;
  /// Bytes given to Write() that have not been sent yet.
  virtual size_t QueuedBytes() const = 0;
  /// false: no OnData() until reading is resumed, so that the peer gets back-pressure.
  virtual void SetReading(bool is_reading) = 0;
};

/// A stream over descriptors, which it owns; `read_fd` and `write_fd` may be duplicates of one
/// socket. Start() makes both non-blocking. Bytes still queued at destruction are lost. If
/// `write_fd` is a pipe, the program must ignore SIGPIPE (sockets do not raise it).
std::unique_ptr<ByteStream> MakeFdStream(Loop& loop, UniqueFd read_fd, UniqueFd write_fd);

/// As MakeFdStream(), over a Unix socket whose peer may pass descriptors (SCM_RIGHTS).
/// `on_descriptor`: called for each, before OnData() gets the byte that it came with; it may not
/// drop the stream. More than 8 with one byte end the stream with kSystem.
std::unique_ptr<ByteStream> MakeDescriptorStream(Loop& loop, UniqueFd read_fd, UniqueFd write_fd,
                                                 std::function<void(UniqueFd)> on_descriptor);

}  // namespace hvdray

#endif  // HVDRAY_BASE_BYTE_STREAM_H_
