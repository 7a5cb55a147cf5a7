// SPDX-License-Identifier: Apache-2.0
#include "collective/async/request.h"

#include <algorithm>
#include <cstring>
#include <type_traits>

#include "collective/communicator.h"

namespace hvdray {
namespace {

// Raised with each change of what follows.
constexpr uint32_t kRoundVersion = 3;
constexpr uint8_t kLeaving = 1;
constexpr uint8_t kStalled = 2;
constexpr uint8_t kLeftUndone = 4;

struct RequestHead {
  uint8_t kind;
  uint8_t type;
  uint8_t op;
  uint8_t is_on_device;
  int32_t process_set;
  int32_t root;
  uint32_t group_size;
  uint64_t group;
  int64_t sequence;
  double prescale;
  double postscale;
  uint32_t dimensions;
  uint32_t numbers;
};

struct MessageHead {
  uint32_t version;
  uint32_t flags;
  uint32_t known;
  uint32_t fresh;
};

template <typename T>
void Append(std::string& bytes, const T* values, size_t count) {
  static_assert(std::is_trivially_copyable_v<T>);
  if (count > 0) bytes.append(reinterpret_cast<const char*>(values), count * sizeof(T));
}

// Takes from the front of `bytes`; false when there is less.
template <typename T>
bool Take(std::string_view& bytes, T* values, size_t count) {
  if (bytes.size() / sizeof(T) < count) return false;
  if (count > 0) std::memcpy(static_cast<void*>(values), bytes.data(), count * sizeof(T));
  bytes.remove_prefix(count * sizeof(T));
  return true;
}

template <typename T>
bool TakeVector(std::string_view& bytes, std::vector<T>& values, size_t count) {
  if (bytes.size() / sizeof(T) < count) return false;
  values.resize(count);
  return Take(bytes, values.data(), count);
}

}  // namespace

std::string_view Name(RequestKind kind) {
  switch (kind) {
    case RequestKind::kAllReduce:
      return "allreduce";
    case RequestKind::kAllGather:
      return "allgather";
    case RequestKind::kBroadcast:
      return "broadcast";
    case RequestKind::kAllToAll:
      return "alltoall";
    case RequestKind::kReduceScatter:
      return "reducescatter";
    case RequestKind::kBarrier:
      return "barrier";
    case RequestKind::kJoin:
      return "join";
    case RequestKind::kAddProcessSet:
      return "add_process_set";
    case RequestKind::kRemoveProcessSet:
      return "remove_process_set";
  }
  return "?";
}

size_t SizeOfType(uint8_t type) {
  return type == kBoolType ? 1 : SizeOf(static_cast<DataType>(type));
}

std::string_view NameOfType(uint8_t type) {
  return type == kBoolType ? "bool" : Name(static_cast<DataType>(type));
}

size_t Request::Elements() const {
  size_t elements = 1;
  for (const int64_t dimension : shape) elements *= static_cast<size_t>(dimension);
  return elements;
}

uint64_t GroupOf(std::vector<std::string_view> names) {
  std::sort(names.begin(), names.end());
  uint64_t digest = 0xCBF29CE484222325;  // FNV-1a
  const auto add = [&](unsigned char byte) { digest = (digest ^ byte) * 0x100000001B3; };
  for (const std::string_view name : names) {
    for (const char c : name) add(static_cast<unsigned char>(c));
    add(0);
  }
  return digest;
}

std::string Encode(const Request& request) {
  const RequestHead head{static_cast<uint8_t>(request.kind),
                         request.type,
                         request.op,
                         static_cast<uint8_t>(request.is_on_device),
                         request.process_set,
                         request.root,
                         request.group_size,
                         request.group,
                         request.sequence,
                         request.prescale,
                         request.postscale,
                         static_cast<uint32_t>(request.shape.size()),
                         static_cast<uint32_t>(request.numbers.size())};
  std::string bytes;
  bytes.reserve(sizeof head + (request.shape.size() + request.numbers.size()) * sizeof(int64_t) +
                request.name.size());
  Append(bytes, &head, 1);
  Append(bytes, request.shape.data(), request.shape.size());
  Append(bytes, request.numbers.data(), request.numbers.size());
  return bytes += request.name;
}

Result<Request> DecodeRequest(std::string_view bytes) {
  RequestHead head{};
  Request request;
  if (!Take(bytes, &head, 1) || head.kind > static_cast<uint8_t>(RequestKind::kRemoveProcessSet) ||
      head.type > kBoolType || !TakeVector(bytes, request.shape, head.dimensions) ||
      !TakeVector(bytes, request.numbers, head.numbers)) {
    return Status(ErrorCode::kAborted, "invalid request of a rank");
  }
  request.kind = static_cast<RequestKind>(head.kind);
  request.type = head.type;
  request.op = head.op;
  request.is_on_device = head.is_on_device != 0;
  request.process_set = head.process_set;
  request.root = head.root;
  request.group_size = head.group_size;
  request.group = head.group;
  request.sequence = head.sequence;
  request.prescale = head.prescale;
  request.postscale = head.postscale;
  request.name = bytes;
  return request;
}

std::string Encode(const RoundMessage& message) {
  const MessageHead head{
      kRoundVersion,
      (message.is_leaving ? kLeaving : 0U) | (message.has_stalled ? kStalled : 0U) |
          (message.leave == Leave::kFailed ? kLeftUndone : 0U),
      static_cast<uint32_t>(message.known.size()), static_cast<uint32_t>(message.fresh.size())};
  std::string bytes;
  Append(bytes, &head, 1);
  Append(bytes, message.known.data(), message.known.size());
  for (const std::string_view request : message.fresh) {
    const auto size = static_cast<uint32_t>(request.size());
    Append(bytes, &size, 1);
    bytes += request;
  }
  return bytes.append(message.why);
}

Result<RoundMessage> DecodeMessage(std::string_view bytes) {
  const Status invalid(ErrorCode::kAborted, "invalid message of a rank");
  MessageHead head{};
  RoundMessage message;
  if (!Take(bytes, &head, 1)) return invalid;
  if (head.version != kRoundVersion) {
    return Status(ErrorCode::kAborted, "ranks have different versions of libhvdray",
                  "install the same version of hvdray on all hosts");
  }
  message.is_leaving = (head.flags & kLeaving) != 0;
  message.has_stalled = (head.flags & kStalled) != 0;
  message.leave = (head.flags & kLeftUndone) != 0 ? Leave::kFailed : Leave::kInOrder;
  if (!TakeVector(bytes, message.known, head.known)) return invalid;
  for (uint32_t i = 0; i < head.fresh; ++i) {
    uint32_t size = 0;
    if (!Take(bytes, &size, 1) || bytes.size() < size) return invalid;
    message.fresh.push_back(bytes.substr(0, size));
    bytes.remove_prefix(size);
  }
  message.why = bytes;
  return message;
}

}  // namespace hvdray
