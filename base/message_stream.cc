// SPDX-License-Identifier: Apache-2.0
#include "base/message_stream.h"

#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <utility>

namespace hvdray {

Status MessageReader::Feed(ByteView bytes) {
  while (!bytes.empty() && !is_broken_) {
    Status status;
    if (blob_left_ > 0) {
      const ByteView piece = bytes.substr(0, std::min<uint64_t>(bytes.size(), blob_left_));
      bytes.remove_prefix(piece.size());
      blob_left_ -= piece.size();
      status = handlers_.on_blob(piece, blob_left_);
    } else {
      const size_t end = bytes.find('\n');
      const ByteView part = bytes.substr(0, end);
      if (line_.size() + part.size() >= kMaxMessageLine) {
        status = {ErrorCode::kProtocolError, "a line of over 1 MiB"};
      } else {
        line_ += part;
        if (end == ByteView::npos) return {};
        bytes.remove_prefix(end + 1);
        status = OnLine(std::exchange(line_, {}));
      }
    }
    if (status.ok()) continue;
    is_broken_ = true;
    line_.clear();
    return status;
  }
  return {};
}

Status MessageReader::OnLine(ByteView line) {
  Result<Json> head = ParseJson(line, kMaxMessageLine);
  if (!head.ok()) return head.status();
  const auto type = head->is_object() ? head->find("type") : head->end();
  if (!head->is_object() || type == head->end() || !type->is_string()) {
    return {ErrorCode::kProtocolError, "expected a JSON object with a string \"type\""};
  }
  if (const auto blob = head->find("blob"); blob != head->end()) {
    constexpr auto kMost = static_cast<uint64_t>(std::numeric_limits<int64_t>::max());
    if (!blob->is_number_unsigned() || blob->get<uint64_t>() > kMost) {
      return {ErrorCode::kProtocolError, "blob must be a whole number from 0 to 2^63 - 1"};
    }
    blob_left_ = blob->get<uint64_t>();
  }
  return handlers_.on_message(type->get_ref<const std::string&>(), *head, blob_left_);
}

std::string MessageLine(const Json& head) { return DumpJson(head) + '\n'; }

}  // namespace hvdray
