// A two-way stream of bytes with back-pressure: a socketpair, an SSH channel, a TLS connection.
#ifndef HVDRAY_BASE_BYTE_STREAM_H_
#define HVDRAY_BASE_BYTE_STREAM_H_

#include <functional>
#include <memory>

#include "base/fd.h"
#include "base/loop.h"
#include "base/types.h"

namespace hvdray {

/// Threads: the loop's only. Callbacks may destroy the stream; none is called from within one of
/// its methods.
class ByteStream {
 public:
  struct Handlers {
    std::function<void(ByteView)> on_data;
    /// All that was written has left; called after a Write() that had to wait.
    std::function<void()> on_drained;
    /// Once: ok = the peer closed in order. Nothing is called afterwards. What the peer had sent
    /// before is given to on_data first, also when it was writing that failed.
    std::function<void(Status)> on_closed;
  };
  virtual ~ByteStream() = default;
  /// Begins to read. Call once.
  virtual void Start(Handlers handlers) = 0;
  /// Takes the bytes over; what can't be sent at once is queued without limit: the caller watches
  /// QueuedBytes().
  virtual void Write(std::string bytes) = 0;
  virtual size_t QueuedBytes() const = 0;
  /// No on_data until resumed: the peer feels it as back-pressure.
  virtual void SetReading(bool is_reading) = 0;
};

/// Over descriptors; `read_fd` and `write_fd` may be duplicates of one socket. Both become
/// non-blocking. Bytes queued when it is destroyed are lost. A program that gives it a pipe to
/// write to ignores SIGPIPE (sockets do not raise it).
std::unique_ptr<ByteStream> MakeFdStream(Loop& loop, UniqueFd read_fd, UniqueFd write_fd);

}  // namespace hvdray

#endif  // HVDRAY_BASE_BYTE_STREAM_H_
