// SPDX-License-Identifier: Apache-2.0
#include "launcher/engine/client_objects.h"

#include <fmt/format.h>

#include <string>
#include <utility>

#include "base/sealed_memory.h"

namespace hvdray {

Status ClientObjects::Put(const control::Put& put) {
  Result<uint64_t> size = put.size;
  if (put.memory != nullptr) size = SealedSize(put.memory->get());
  Status status = size.status();
  if (put.object <= last_) {
    status = {ErrorCode::kUsage,
              fmt::format("object numbers must increase ({} after {})", put.object, last_)};
  }
  is_refused_ = !status.ok();
  if (is_refused_) return status;
  size_ = *size;
  last_ = put.object;
  objects_.insert(put.object);
  if (size_ == 0) {
    AddPiece({}, 0);
  } else if (put.memory != nullptr) {
    parts_.push_back({.piece = {.object = put.object, .size = size_, .offset = 0, .bytes = {}},
                      .memory = put.memory});
  }
  return {};
}

void ClientObjects::AddPiece(ByteView piece, uint64_t left) {
  if (is_refused_) return;
  uint64_t offset = size_ - left - piece.size();
  do {
    const ByteView part = piece.substr(0, wire::kMaxObjectPiece);
    parts_.push_back(
        {.piece = {.object = last_, .size = size_, .offset = offset, .bytes = std::string(part)},
         .memory = nullptr});
    offset += part.size();
    piece.remove_prefix(part.size());
  } while (!piece.empty());
}

Status ClientObjects::SendNext() {
  Part& part = parts_.front();
  wire::ObjectPiece& piece = part.piece;
  if (part.memory == nullptr) {
    sink_.PutObject(piece);
  } else if (piece.offset > 0 || !sink_.MapObject(piece.object, part.memory)) {
    Result<std::string> bytes = ReadMemory(part.memory->get(), piece.offset, wire::kMaxObjectPiece);
    if (!bytes.ok()) {
      failed_.insert(piece.object);
      parts_.pop_front();
      return bytes.status();
    }
    const size_t count = bytes->size();
    piece.bytes = std::move(bytes).value();
    sink_.PutObject(piece);
    piece.offset += count;
    if (piece.offset < piece.size) return {};
  }
  parts_.pop_front();
  return {};
}

Status ClientObjects::Check(const std::vector<int64_t>& objects) const {
  for (const int64_t object : objects) {
    if (failed_.contains(object)) {
      return {ErrorCode::kOutOfResources, fmt::format("a host can't hold object {}", object)};
    }
    if (!objects_.contains(object)) {
      return {ErrorCode::kUsage, fmt::format("there is no object {}", object)};
    }
  }
  return {};
}

bool ClientObjects::Fail(int64_t object) {
  return objects_.contains(object) && failed_.insert(object).second;
}

bool ClientObjects::Drop(int64_t object) {
  failed_.erase(object);
  return objects_.erase(object) > 0;
}

std::set<int64_t> ClientObjects::Clear() {
  parts_.clear();
  failed_.clear();
  last_ = 0;
  return std::exchange(objects_, {});
}

}  // namespace hvdray
