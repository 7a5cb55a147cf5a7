// SPDX-License-Identifier: Apache-2.0
// What a ByteStream over descriptors moves its bytes through: two pipes, a socket, TLS on a socket.
// For base/ only; other rooms see ByteStream.
#ifndef HVDRAY_BASE_IO_CHANNEL_H_
#define HVDRAY_BASE_IO_CHANNEL_H_

#include <memory>

#include "base/byte_stream.h"
#include "base/loop.h"
#include "base/status.h"
#include "base/types.h"

namespace hvdray {

enum class IoStep : uint8_t {
  kDone,       ///< Moved all it could; there may be more.
  kWantRead,   ///< Call again when read_fd() is readable.
  kWantWrite,  ///< Call again when write_fd() is writable.
  kClosed,     ///< The peer sends no more.
  kFailed,     ///< error() tells why. No more reads or writes.
};

/// Owns its descriptors. No call blocks. Threads: one at a time.
class IoChannel {
 public:
  virtual ~IoChannel() = default;
  /// Called once, before the first read or write. Errors: kSystem.
  virtual Status Prepare() = 0;
  virtual int read_fd() const = 0;
  virtual int write_fd() const = 0;
  /// Reads at most `size` bytes. `count`: bytes read, whatever the step; 0 on entry.
  virtual IoStep Read(char* buffer, size_t size, size_t& count) = 0;
  /// `count`: bytes sent, whatever the step; 0 on entry. The caller passes the rest again.
  virtual IoStep Write(ByteView bytes, size_t& count) = 0;
  /// Why the last step was kFailed.
  virtual Status error() const = 0;
  /// A kClosed from Read() is the peer's explicit statement, which outranks a failed write.
  virtual bool is_explicit_close() const = 0;
  /// The last call. `all_sent`: everything written has been sent.
  virtual void Close(bool all_sent) = 0;
};

/// A stream that owns `channel`. The loop outlives it.
std::unique_ptr<ByteStream> MakeChannelStream(Loop& loop, std::unique_ptr<IoChannel> channel);

}  // namespace hvdray

#endif  // HVDRAY_BASE_IO_CHANNEL_H_
