// SPDX-License-Identifier: Apache-2.0
#include "wire/message_codec.h"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <type_traits>

#include "wire/directory_codec.h"
#include "wire/message_fields.h"

namespace hvdray::wire {
namespace {

constexpr uint8_t kFlagEnd = 1;

Status Unsendable(MessageType type, std::string_view what) {
  return {ErrorCode::kInternal, fmt::format("cannot send {}: {}", NameOf(type), what)};
}

// The raw part of StartGeneration: working directory, argv, environment, each ended by a NUL.
Status PackStrings(const StartGeneration& start, std::string& raw) {
  size_t total = start.working_directory.size() + 1;
  for (const auto* list : {&start.command, &start.environment}) {
    for (const std::string& text : *list) total += text.size() + 1;
  }
  if (total > kMaxRaw) {
    return Unsendable(MessageType::kStartGeneration,
                      fmt::format("command and environment have {} bytes", total));
  }
  raw.reserve(total);
  const auto add = [&raw](const std::string& text) {
    raw += text;
    raw += '\0';
    return text.find('\0') == std::string::npos;
  };
  bool is_clean = add(start.working_directory);
  for (const auto* list : {&start.command, &start.environment}) {
    for (const std::string& text : *list) is_clean = add(text) && is_clean;
  }
  return is_clean ? Status()
                  : Unsendable(MessageType::kStartGeneration,
                               "a NUL within an argument, a "
                               "variable or the working directory");
}

Status UnpackStrings(StringCounts counts, ByteView raw, StartGeneration& start) {
  const auto ends = static_cast<uint64_t>(std::count(raw.begin(), raw.end(), '\0'));
  if (ends != uint64_t{1} + counts.command + counts.environment ||
      (!raw.empty() && raw.back() != '\0')) {
    return Violation(MessageType::kStartGeneration, "the strings are not as many as counted");
  }
  const auto next = [&raw] {
    const size_t end = raw.find('\0');
    std::string text(raw.substr(0, end));
    raw.remove_prefix(end + 1);
    return text;
  };
  start.working_directory = next();
  start.command.reserve(counts.command);
  start.environment.reserve(counts.environment);
  for (uint32_t i = 0; i < counts.command; ++i) start.command.push_back(next());
  for (uint32_t i = 0; i < counts.environment; ++i) start.environment.push_back(next());
  return {};
}

// The raw part of Inspect: working directory, command, PATH, then files, modules and environment,
// each ended by a NUL.
Status PackStrings(const Inspect& inspect, std::string& raw) {
  bool is_clean = true;
  const auto add = [&raw, &is_clean](const std::string& text) {
    is_clean = is_clean && text.find('\0') == std::string::npos;
    raw += text;
    raw += '\0';
  };
  for (const auto* text : {&inspect.working_directory, &inspect.command, &inspect.path}) add(*text);
  for (const auto* list : {&inspect.files, &inspect.modules, &inspect.environment}) {
    std::for_each(list->begin(), list->end(), add);
  }
  if (!is_clean) return Unsendable(MessageType::kInspect, "a NUL within a text");
  if (raw.size() <= kMaxInspectStrings) return {};
  return Unsendable(MessageType::kInspect, fmt::format("texts of {} bytes", raw.size()));
}

Status UnpackStrings(const InspectCounts& counts, ByteView raw, Inspect& inspect) {
  const auto ends = static_cast<uint64_t>(std::count(raw.begin(), raw.end(), '\0'));
  const uint64_t wanted = uint64_t{3} + counts.files + counts.modules + counts.environment;
  if (ends != wanted || raw.back() != '\0') {
    return Violation(MessageType::kInspect, "the texts are not as many as counted");
  }
  const auto next = [&raw] {
    std::string text(raw.substr(0, raw.find('\0')));
    raw.remove_prefix(text.size() + 1);
    return text;
  };
  for (auto* text : {&inspect.working_directory, &inspect.command, &inspect.path}) *text = next();
  for (uint32_t i = 0; i < counts.files; ++i) inspect.files.push_back(next());
  for (uint32_t i = 0; i < counts.modules; ++i) inspect.modules.push_back(next());
  for (uint32_t i = 0; i < counts.environment; ++i) inspect.environment.push_back(next());
  return {};
}

// Cuts the names off the front of the raw part of a KV message; what is left is the value.
Status TakeName(MessageType type, uint32_t size, ByteView& raw, std::string& name) {
  if (size > raw.size()) return Violation(type, "a name is longer than the frame");
  if (size > kMaxKvNames) return Violation(type, "a name over 16 KiB");
  name = raw.substr(0, size);
  raw.remove_prefix(size);
  return {};
}

Status TakeValue(MessageType type, ByteView raw, std::string& value) {
  if (raw.size() > kMaxKvValue) return Violation(type, "value over 16 MiB");
  value = raw;
  return {};
}

// Sees to the raw part of each body: nothing for most.
struct RawWriter {
  std::string& raw;

  Status operator()(const StartGeneration& start) const { return PackStrings(start, raw); }
  Status operator()(const Inspect& inspect) const { return PackStrings(inspect, raw); }
  Status operator()(const KvRequest& request) const {
    raw.reserve(request.scope.size() + request.key.size() + request.value.size());
    raw.append(request.scope).append(request.key).append(request.value);
    return Limits(MessageType::kKvRequest, request.scope.size() + request.key.size(),
                  request.value.size());
  }
  Status operator()(const KvReply& reply) const {
    raw.reserve(reply.key.size() + reply.value.size());
    raw.append(reply.key).append(reply.value);
    return Limits(MessageType::kKvReply, reply.key.size(), reply.value.size());
  }
  Status operator()(const DirectoryList& list) const { return PackRaw(list, raw); }
  Status operator()(const DirectoryWanted& wanted) const { return PackRaw(wanted, raw); }
  Status operator()(const File& file) const { return PackRaw(file, raw); }
  Status operator()(const DirectoryProblem& problem) const { return PackRaw(problem, raw); }
  template <typename Other>
  Status operator()(const Other& /*body*/) const {
    return {};
  }

 private:
  static Status Limits(MessageType type, size_t names, size_t value) {
    if (names <= kMaxKvNames && value <= kMaxKvValue) return {};
    return Unsendable(type, fmt::format("names of {} and a value of {} bytes", names, value));
  }
};

struct RawReader {
  ByteView raw;
  const RawSizes& sizes;

  Status operator()(StartGeneration& start) { return UnpackStrings(sizes.strings, raw, start); }
  Status operator()(Inspect& inspect) { return UnpackStrings(sizes.inspect, raw, inspect); }
  Status operator()(KvRequest& request) {
    constexpr auto kType = MessageType::kKvRequest;
    HVDRAY_RETURN_IF_ERROR(TakeName(kType, sizes.scope, raw, request.scope));
    HVDRAY_RETURN_IF_ERROR(TakeName(kType, sizes.key, raw, request.key));
    if (request.scope.size() + request.key.size() > kMaxKvNames) {
      return Violation(kType, "names over 16 KiB");
    }
    return TakeValue(kType, raw, request.value);
  }
  Status operator()(KvReply& reply) {
    HVDRAY_RETURN_IF_ERROR(TakeName(MessageType::kKvReply, sizes.key, raw, reply.key));
    return TakeValue(MessageType::kKvReply, raw, reply.value);
  }
  Status operator()(DirectoryList& list) { return UnpackRaw(sizes.directory, raw, list); }
  Status operator()(DirectoryWanted& wanted) { return UnpackRaw(sizes.directory, raw, wanted); }
  Status operator()(File& file) { return UnpackRaw(sizes.directory, raw, file); }
  Status operator()(DirectoryProblem& problem) { return UnpackRaw(sizes.directory, raw, problem); }
  template <typename Other>
  Status operator()(Other& body) {
    return raw.empty() ? Status() : Violation(TypeOf(Body(body)), "bytes behind the JSON");
  }
};

Result<std::string> EncodeStream(const Message& message, uint16_t version, int32_t rank,
                                 StreamId stream, bool is_end, const std::string& bytes) {
  const MessageType type = TypeOf(message.body);
  if (bytes.size() > kMaxOutput) {
    return Unsendable(type, fmt::format("{} bytes, at most {} allowed", bytes.size(), kMaxOutput));
  }
  std::string frame;
  frame.reserve(kHeaderBytes + kOutputPrefixBytes + bytes.size());
  EncodeHeader(frame,
               {version, static_cast<uint16_t>(type),
                static_cast<uint32_t>(kOutputPrefixBytes + bytes.size()), message.generation});
  PutU32(frame, static_cast<uint32_t>(rank));
  frame += static_cast<char>(stream);
  frame += static_cast<char>(is_end ? kFlagEnd : 0);
  PutU16(frame, 0);
  frame += bytes;
  return frame;
}

Result<Message> DecodeStream(const FrameHeader& header, ByteView body) {
  const auto type = static_cast<MessageType>(header.type);
  if (body.size() < kOutputPrefixBytes) return Violation(type, "shorter than its prefix");
  const uint32_t rank = GetU32(body.data());
  const auto stream = static_cast<uint8_t>(body[4]);
  const auto flags = static_cast<uint8_t>(body[5]);
  if (rank > static_cast<uint32_t>(kMaxWorker)) return Violation(type, "rank out of range");
  if ((flags & ~kFlagEnd) != 0) return Violation(type, "unknown flags");
  if (GetU16(body.data() + 6) != 0) return Violation(type, "reserved bytes are not 0");
  body.remove_prefix(kOutputPrefixBytes);
  if (body.size() > kMaxOutput) return Violation(type, "over 64 KiB");
  const bool is_end = (flags & kFlagEnd) != 0;
  if (type == MessageType::kStdin) {
    if (stream != 0) return Violation(type, "stream out of range");
    return Message{header.generation, Stdin{static_cast<int32_t>(rank), is_end, std::string(body)}};
  }
  if (stream != 1 && stream != 2) return Violation(type, "stream out of range");
  return Message{header.generation,
                 Output{static_cast<int32_t>(rank), StreamId{stream}, is_end, std::string(body)}};
}

}  // namespace

Result<std::string> EncodeMessage(const Message& message, uint16_t version) {
  const MessageType type = TypeOf(message.body);
  if (const auto* output = std::get_if<Output>(&message.body)) {
    return EncodeStream(message, version, output->rank, output->stream, output->is_end,
                        output->bytes);
  }
  if (const auto* input = std::get_if<Stdin>(&message.body)) {
    return EncodeStream(message, version, input->rank, StreamId::kStdin, input->is_end,
                        input->bytes);
  }
  const std::string json = FieldsToJson(message.body);
  const size_t json_limit = type == MessageType::kHello ? kMaxAgentHello - 4 : kMaxControlJson;
  if (json.size() > json_limit) {
    return Unsendable(type,
                      fmt::format("{} bytes of JSON, at most {} allowed", json.size(), json_limit));
  }
  std::string raw;
  HVDRAY_RETURN_IF_ERROR(std::visit(RawWriter{raw}, message.body));
  std::string frame;
  frame.reserve(kHeaderBytes + 4 + json.size() + raw.size());
  EncodeHeader(frame,
               {type == MessageType::kHello ? kHelloVersion : version, static_cast<uint16_t>(type),
                static_cast<uint32_t>(4 + json.size() + raw.size()), message.generation});
  PutU32(frame, static_cast<uint32_t>(json.size()));
  frame += json;
  frame += raw;
  return frame;
}

Result<Message> DecodeMessage(const FrameHeader& header, ByteView body) {
  const auto type = static_cast<MessageType>(header.type);
  const std::optional<size_t> limit = MaxBodyBytes(header.type);
  if (!limit) {
    return Status(ErrorCode::kProtocolError, fmt::format("unknown message type {}", header.type));
  }
  if (body.size() != header.length || body.size() > *limit) {
    return Violation(type, "length out of range");
  }
  if (type == MessageType::kOutput || type == MessageType::kStdin) {
    return DecodeStream(header, body);
  }
  if (body.size() < 4) return Violation(type, "shorter than its JSON length");
  const uint32_t json_bytes = GetU32(body.data());
  body.remove_prefix(4);
  if (json_bytes > kMaxControlJson || json_bytes > body.size()) {
    return Violation(type, "JSON length out of range");
  }
  Result<Json> json = ParseJson(body.substr(0, json_bytes), kMaxControlJson);
  if (!json.ok()) return std::move(json).status().WithContext(NameOf(type));
  body.remove_prefix(json_bytes);
  RawSizes sizes;
  Result<Body> fields = FieldsFromJson(type, *json, sizes);
  if (!fields.ok()) return std::move(fields).status();
  Message message{header.generation, std::move(fields).value()};
  HVDRAY_RETURN_IF_ERROR(std::visit(RawReader{body, sizes}, message.body));
  return message;
}

}  // namespace hvdray::wire
