// SPDX-License-Identifier: Apache-2.0
// Messages between programs over a byte stream: a JSON object on a line, and the raw bytes that its
// key "blob" announces. docs/channel.md, "Messages". Pure.
#ifndef HVDRAY_BASE_MESSAGE_STREAM_H_
#define HVDRAY_BASE_MESSAGE_STREAM_H_

#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>
#include <string_view>

#include "base/json.h"
#include "base/status.h"
#include "base/types.h"

namespace hvdray {

/// Bytes of the longest line, its newline included.
inline constexpr size_t kMaxMessageLine = size_t{1} << 20;

/// Cuts a stream into messages. Holds at most one line, and no more of it than has arrived.
class MessageReader {
 public:
  struct Handlers {
    /// A line. `type`: its key of that name. `blob`: how many raw bytes follow.
    std::function<Status(std::string_view type, const Json& head, uint64_t blob)> on_message;
    /// Some of them, in order; `left`: how many still follow. Never for a blob of 0 bytes.
    std::function<Status(ByteView piece, uint64_t left)> on_blob;
  };
  explicit MessageReader(Handlers handlers) : handlers_(std::move(handlers)) {}

  /// Errors: kProtocolError for what is no message, and those of the handlers. After an error,
  /// takes nothing more.
  Status Feed(ByteView bytes);
  /// No message has begun.
  bool is_between() const { return line_.empty() && blob_left_ == 0; }

 private:
  Status OnLine(ByteView line);

  const Handlers handlers_;
  std::string line_;
  uint64_t blob_left_ = 0;
  bool is_broken_ = false;
};

/// `head` as a line. Its blob is to follow.
std::string MessageLine(const Json& head);

}  // namespace hvdray

#endif  // HVDRAY_BASE_MESSAGE_STREAM_H_
