// SPDX-License-Identifier: Apache-2.0
#include "rendezvous/notice.h"

#include <fmt/format.h>

#include <string_view>

#include "base/digest.h"
#include "base/secrets_equal.h"
#include "rendezvous/pickle_machine.h"

namespace hvdray {
namespace {

constexpr size_t kHeaderBytes = kHmacSha256Bytes + 4;
constexpr PickleClass kAckResponse = {"horovod.runner.common.util.network", "AckResponse"};

ByteView View(const NoticeKey& key) {
  return {reinterpret_cast<const char*>(key.data()), key.size()};
}

/// Little-endian: the "native order" of Horovod's frames on every supported machine.
std::string Bytes(uint64_t number, size_t width) {
  std::string bytes;
  for (size_t i = 0; i < width; ++i) bytes.push_back(static_cast<char>(number >> (8 * i) & 0xFF));
  return bytes;
}

/// BINUNICODE
std::string Text(std::string_view text) { return "X" + Bytes(text.size(), 4) + std::string(text); }

Status WrongAnswer(std::string_view what) {
  return {ErrorCode::kProtocolError, fmt::format("the worker's answer {}", what)};
}

Status ReadAck(ByteView pickle) {
  PickleMachine machine(pickle, {&kAckResponse, 1});
  if (!machine.Run()) {
    return machine.Refused().WithCode(ErrorCode::kProtocolError).WithContext("the worker's answer");
  }
  if (machine.Root().kind != PickleNode::Kind::kObject) return WrongAnswer("is not an AckResponse");
  return {};
}

}  // namespace

std::string PickleNotice(const Notice& notice) {
  std::string pickle = "\x80\x02";                                    // PROTO
  pickle += "chorovod.runner.elastic.worker\nHostsUpdatedRequest\n";  // GLOBAL
  pickle += ")\x81}(";  // EMPTY_TUPLE NEWOBJ EMPTY_DICT MARK
  pickle += Text("timestamp");
  pickle += "\x8a\x08" + Bytes(static_cast<uint64_t>(notice.timestamp), 8);  // LONG1
  pickle += Text("res");
  pickle += "K" + Bytes(notice.code, 1);  // BININT1
  pickle += "ub.";                        // SETITEMS BUILD STOP
  return pickle;
}

std::string SignedFrame(const NoticeKey& key, ByteView body) {
  std::string frame = HmacSha256(View(key), body);
  frame += Bytes(body.size(), 4);
  frame += body;
  return frame;
}

std::optional<Status> ReadNoticeAnswer(const NoticeKey& key, ByteView received) {
  if (received.size() < kHeaderBytes) return std::nullopt;
  uint32_t length = 0;
  for (size_t i = 0; i < 4; ++i) {
    length |= uint32_t{static_cast<uint8_t>(received[kHmacSha256Bytes + i])} << (8 * i);
  }
  if (length > kMaxAnswerBytes) {
    return WrongAnswer(fmt::format("is longer than {} bytes", kMaxAnswerBytes));
  }
  if (received.size() < kHeaderBytes + length) return std::nullopt;
  if (received.size() > kHeaderBytes + length) return WrongAnswer("has bytes after its end");
  const ByteView body = received.substr(kHeaderBytes);
  if (!SecretsEqual(received.substr(0, kHmacSha256Bytes), HmacSha256(View(key), body))) {
    return WrongAnswer("is not signed with its registered key");
  }
  return ReadAck(body);
}

}  // namespace hvdray
