// SPDX-License-Identifier: Apache-2.0
// What a ByteStream over descriptors moves its bytes through: two ends of pipes, a socket, TLS on a
// socket. Only base/ uses it: the others see ByteStream.
#ifndef HVDRAY_BASE_IO_CHANNEL_H_
#define HVDRAY_BASE_IO_CHANNEL_H_

#include <memory>

#include "base/byte_stream.h"
#include "base/loop.h"
#include "base/status.h"
#include "base/types.h"

namespace hvdray {

enum class IoStep : uint8_t {
  kDone,       ///< All bytes have moved; there may be more.
  kWantRead,   ///< Again once it can be read.
  kWantWrite,  ///< Again once it can be written.
  kClosed,     ///< The peer will send no more.
  kFailed,     ///< error() says why.
};

/// Nothing blocks. Threads: one at a time.
class IoChannel {
 public:
  virtual ~IoChannel() = default;
  /// Called once, before any other.
  virtual Status Prepare() = 0;
  virtual int read_fd() const = 0;
  virtual int write_fd() const = 0;
  /// `count`: how many have come, whatever the step.
  virtual IoStep Read(char* buffer, size_t size, size_t& count) = 0;
  /// `count`: how many have left, whatever the step. The rest is to be given again.
  virtual IoStep Write(ByteView bytes, size_t& count) = 0;
  virtual Status error() const = 0;
  /// kClosed of Read() is the peer's own word, so that it counts for more than a write that failed.
  virtual bool is_close_its_word() const = 0;
  /// The last call. `has_last_word`: all that was written has left.
  virtual void Close(bool has_last_word) = 0;
};

std::unique_ptr<ByteStream> MakeChannelStream(Loop& loop, std::unique_ptr<IoChannel> channel);

}  // namespace hvdray

#endif  // HVDRAY_BASE_IO_CHANNEL_H_
