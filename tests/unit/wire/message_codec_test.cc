// SPDX-License-Identifier: Apache-2.0
#include "wire/message_codec.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <random>
#include <set>

#include "tests/unit/wire/sample_messages.h"

namespace hvdray::wire {
namespace {

Result<Message> DecodeWhole(ByteView bytes) {
  if (bytes.size() < kHeaderBytes) return Status(ErrorCode::kCancelled, "incomplete");
  HVDRAY_ASSIGN_OR_RETURN(const FrameHeader header, DecodeHeader(bytes));
  return DecodeMessage(header, bytes.substr(kHeaderBytes));
}

/// A control frame with this JSON and these raw bytes, however wrong.
Result<Message> DecodeControl(MessageType type, ByteView json, ByteView raw = {}) {
  std::string body;
  PutU32(body, static_cast<uint32_t>(json.size()));
  body.append(json).append(raw);
  return DecodeMessage({1, static_cast<uint16_t>(type), static_cast<uint32_t>(body.size()), 7},
                       body);
}

template <typename T>
T Decoded(MessageType type, ByteView json, ByteView raw = {}) {
  Result<Message> message = DecodeControl(type, json, raw);
  EXPECT_TRUE(message.ok()) << json << ": " << message.status().ToString();
  return message.ok() ? std::get<T>(message->body) : T();
}

bool IsRefused(MessageType type, ByteView json, ByteView raw = {}) {
  const Result<Message> message = DecodeControl(type, json, raw);
  // The message is named, so that a log says which peer sent what.
  return !message.ok() && message.status().code() == ErrorCode::kProtocolError &&
         message.status().message().starts_with(Name(type));
}

TEST(MessageCodecTest, EveryMessageComesBackAsItWas) {
  std::set<size_t> seen;
  for (const auto& [name, message] : AllSampleMessages()) {
    const Result<std::string> bytes = EncodeMessage(message);
    ASSERT_TRUE(bytes.ok()) << name << ": " << bytes.status().ToString();
    const Result<Message> back = DecodeWhole(*bytes);
    ASSERT_TRUE(back.ok()) << name << ": " << back.status().ToString();
    EXPECT_EQ(*back, message) << name;
    seen.insert(message.body.index());
  }
  EXPECT_EQ(seen.size(), std::variant_size_v<Body>) << "a message type has no sample";
}

TEST(MessageCodecTest, DefaultsOfEveryMessageComeBackToo) {
  for (const auto& [name, message] : AllSampleMessages()) {
    const Message plain{5, EmptyBody(TypeOf(message.body))};
    const Result<std::string> bytes = EncodeMessage(plain);
    ASSERT_TRUE(bytes.ok()) << name;
    const Result<Message> back = DecodeWhole(*bytes);
    ASSERT_TRUE(back.ok()) << name << ": " << back.status().ToString();
    EXPECT_EQ(*back, plain) << name;
  }
}

TEST(MessageCodecTest, TypesHaveNamesOfTheirOwn) {
  std::set<std::string_view> names;
  for (size_t i = 0; i < 64; ++i) {
    const auto type = static_cast<MessageType>(i);
    if (!MaxBodyBytes(static_cast<uint16_t>(i))) {
      EXPECT_EQ(Name(type), "unknown");
      continue;
    }
    EXPECT_TRUE(names.insert(Name(type)).second) << i;
    EXPECT_EQ(TypeOf(EmptyBody(type)), type);
  }
}

TEST(MessageCodecTest, HeaderCarriesTypeGenerationAndTheVersionAskedFor) {
  const std::string frame = EncodeMessage({9, Heartbeat{}}, 5).value();
  EXPECT_EQ(*DecodeHeader(frame),
            (FrameHeader{5, 19, static_cast<uint32_t>(frame.size() - kHeaderBytes), 9}));
  EXPECT_EQ(DecodeHeader(EncodeMessage({0, Hello{}}, 5).value())->version, kHelloVersion);
}

TEST(MessageCodecTest, BodyCutAtAnyByteIsRefused) {
  for (const auto& [name, message] : AllSampleMessages()) {
    const bool is_stream =
        std::holds_alternative<Output>(message.body) || std::holds_alternative<Stdin>(message.body);
    // The value of a KV message is what the frame holds behind the names: any length is one.
    const bool has_value = std::holds_alternative<KvRequest>(message.body) ||
                           std::holds_alternative<KvReply>(message.body) ||
                           std::holds_alternative<ObjectPiece>(message.body);
    const std::string frame = EncodeMessage(message).value();
    FrameHeader header = *DecodeHeader(frame);
    const ByteView body = ByteView(frame).substr(kHeaderBytes);
    size_t must_have = body.size();
    if (is_stream) must_have = kOutputPrefixBytes;
    if (const auto* put = std::get_if<KvRequest>(&message.body)) must_have -= put->value.size();
    if (const auto* reply = std::get_if<KvReply>(&message.body)) must_have -= reply->value.size();
    if (const auto* part = std::get_if<ObjectPiece>(&message.body)) must_have -= part->bytes.size();
    for (size_t cut = 0; cut < body.size(); ++cut) {
      EXPECT_FALSE(DecodeMessage(header, body.substr(0, cut)).ok()) << "length and body differ";
      header.length = static_cast<uint32_t>(cut);
      EXPECT_EQ(DecodeMessage(header, body.substr(0, cut)).ok(),
                (is_stream || has_value) && cut >= must_have)
          << name << " cut at " << cut;
      header.length = static_cast<uint32_t>(body.size());
    }
  }
}

TEST(MessageCodecTest, AnyBitFlippedGivesAnErrorOrAMessageThatComesBack) {
  for (const auto& [name, message] : AllSampleMessages()) {
    const std::string frame = EncodeMessage(message).value();
    // Every bit of the header, the lengths and the first keys; then one bit a byte, all eight in
    // turn.
    for (size_t bit = 0; bit < frame.size() * 8; bit += bit < 400 ? 1 : 9) {
      std::string bad = frame;
      bad[bit / 8] = static_cast<char>(bad[bit / 8] ^ (1 << bit % 8));
      const Result<Message> once = DecodeWhole(bad);
      if (!once.ok()) {
        EXPECT_EQ(once.status().code(), ErrorCode::kProtocolError) << name << " bit " << bit;
        continue;
      }
      const Result<std::string> again = EncodeMessage(*once);
      ASSERT_TRUE(again.ok()) << name << " bit " << bit;
      EXPECT_EQ(DecodeWhole(*again).value(), *once) << name << " bit " << bit;
    }
  }
}

TEST(MessageCodecTest, RandomBodiesNeverPassUnchecked) {
  std::mt19937_64 random(20240501);
  for (int i = 0; i < 5'000; ++i) {
    std::string body(random() % 40, '\0');
    for (char& c : body) c = static_cast<char>(random() % 4 == 0 ? random() % 8 : random());
    const auto type = static_cast<uint16_t>(random() % 24);
    const Result<Message> message =
        DecodeMessage({1, type, static_cast<uint32_t>(body.size()), 0}, body);
    if (message.ok()) {
      EXPECT_EQ(DecodeWhole(EncodeMessage(*message).value()).value(), *message);
    }
  }
}

TEST(MessageCodecTest, UnknownKeysArePassedOverAndMissingOnesTakeTheDefault) {
  const auto welcome =
      Decoded<Welcome>(MessageType::kWelcome,
                       R"({"job_id":"j","of_version_9":{"deep":[1,{"x":null}]},"grace_ms":1})");
  Welcome wanted;
  wanted.job_id = "j";
  wanted.grace_ms = 1;
  EXPECT_EQ(welcome, wanted);
  EXPECT_EQ(Decoded<Hello>(MessageType::kHello, "{}"), Hello());
  EXPECT_EQ(Decoded<Credit>(MessageType::kCredit, "{}"), Credit());
  EXPECT_EQ(Decoded<StartGeneration>(MessageType::kStartGeneration, "{}", ByteView("\0", 1)),
            StartGeneration());
}

TEST(MessageCodecTest, WhatOnlyRayNeedsOfAStartGoesAndComesBack) {
  StartGeneration start = SampleStart();
  start.is_on_own_environment = true;
  for (const GpuVisibility gpus : {GpuVisibility::kHost, GpuVisibility::kRank}) {
    start.gpu_visibility = gpus;
    const Message message{7, start};
    EXPECT_EQ(DecodeWhole(EncodeMessage(message).value()).value(), message);
  }
  EXPECT_TRUE(
      IsRefused(MessageType::kStartGeneration, R"({"gpu_visibility":3})", ByteView("\0", 1)));
}

TEST(MessageCodecTest, WhomADirectoryIsTrustedToGoesAndComesBack) {
  StartGeneration start = SampleStart();
  Inspect inspect;
  start.directory_trust = inspect.directory_trust = {true, {{500, 4294967294}, {20}, true}};
  DirectoryList list = SampleDirectoryList();
  list.trustees = start.directory_trust.trustees;
  for (const Message& message : {Message{7, start}, Message{0, inspect}, Message{7, list}}) {
    EXPECT_EQ(DecodeWhole(EncodeMessage(message).value()).value(), message);
  }
  EXPECT_TRUE(IsRefused(MessageType::kDirectoryList, R"({"folder_owners":[-1]})", ""));
}

TEST(MessageCodecTest, WhatTheUserSaysOfVariablesGoesAndComesBack) {
  StartGeneration start = SampleStart();
  start.keeps_rank_variables = true;
  start.kept_variables = {"NCCL_SOCKET_IFNAME", "PYTHONUNBUFFERED"};
  start.threads = 12;
  const Message message{7, start};
  EXPECT_EQ(DecodeWhole(EncodeMessage(message).value()).value(), message);
  EXPECT_TRUE(IsRefused(MessageType::kStartGeneration, R"({"threads":-1})", ByteView("\0", 1)));
  EXPECT_TRUE(
      IsRefused(MessageType::kStartGeneration, R"({"kept_variables":"A"})", ByteView("\0", 1)));
}

TEST(MessageCodecTest, WorkersMayGrowElementsAtTheEnd) {
  const auto start = Decoded<StartGeneration>(
      MessageType::kStartGeneration, R"({"workers":[[1,2,3,4,5,"later"]]})", ByteView("\0", 1));
  ASSERT_EQ(start.workers.size(), 1u);
  EXPECT_EQ(start.workers[0], (WorkerSlot{1, 2, 3, 4, 5}));
}

TEST(MessageCodecTest, JsonThatIsNoObjectIsRefused) {
  for (const char* json :
       {"", "[]", "1", "null", "\"x\"", "{", "{}{}", "{} x", "\xff", "{\"a\":\"\xff\"}"}) {
    EXPECT_TRUE(IsRefused(MessageType::kHeartbeat, json)) << json;
  }
  EXPECT_TRUE(IsRefused(MessageType::kBye, std::string(100'000, '[')));
  std::string many_keys = "{";
  for (int i = 0; i < 5000; ++i) many_keys += fmt::format("\"{}\":0,", i);
  EXPECT_TRUE(IsRefused(MessageType::kBye, many_keys + "\"x\":0}"));
}

TEST(MessageCodecTest, JsonLengthThatLiesIsRefused) {
  for (const uint32_t length : {3u, 4u, 1u << 20, (1u << 20) + 1, 0x7fffffffu, UINT32_MAX}) {
    std::string body;
    PutU32(body, length);
    body += "{}";
    const FrameHeader header{1, 19, static_cast<uint32_t>(body.size()), 0};
    EXPECT_FALSE(DecodeMessage(header, body).ok()) << length;
  }
}

TEST(MessageCodecTest, RawBytesWhereNoneBelongAreRefused) {
  for (const auto& [name, message] : AllSampleMessages()) {
    const MessageType type = TypeOf(message.body);
    if (type == MessageType::kOutput || type == MessageType::kStdin ||
        type == MessageType::kKvRequest || type == MessageType::kKvReply) {
      continue;
    }
    EXPECT_TRUE(IsRefused(type, "{}", "x")) << name;
  }
}

struct BadField {
  MessageType type;
  const char* json;
};

TEST(MessageCodecTest, EveryFieldOutOfItsRangeOrTypeIsRefused) {
  using enum MessageType;
  const BadField rows[] = {
      {kHello, R"({"min":0})"},
      {kHello, R"({"min":2,"max":1})"},
      {kHello, R"({"max":65536})"},
      {kHello, R"({"build":7})"},
      {kHello, R"({"facts":[]})"},
      {kHello, R"({"facts":null})"},
      {kHello, R"({"facts":{"cpu_count":-1}})"},
      {kHello, R"({"facts":{"offered_port":65536}})"},
      {kHello, R"({"facts":{"probe_port":65536}})"},
      {kHello, R"({"facts":{"open_file_limit":-1}})"},
      {kHello, R"({"facts":{"open_file_limit":18446744073709551616}})"},
      {kHello, R"({"facts":{"interfaces":{}}})"},
      {kHello, R"({"facts":{"interfaces":[1]}})"},
      {kHello, R"({"facts":{"interfaces":[{"name":1}]}})"},
      {kHello, R"({"facts":{"interfaces":[{"speed_mbps":-1}]}})"},
      {kHello, R"({"facts":{"interfaces":[{"addresses":[{}]}]}})"},
      {kHello, R"({"facts":{"interfaces":[{"addresses":["10.0.0.1"]}]}})"},
      {kHello, R"({"facts":{"interfaces":[{"addresses":[{"address":"10.0.0.256"}]}]}})"},
      {kHello, R"({"facts":{"interfaces":[{"addresses":[{"address":"a; rm -rf"}]}]}})"},
      {kHello,
       R"({"facts":{"interfaces":[{"addresses":[{"address":"10.0.0.1","prefix_length":33}]}]}})"},
      {kWelcome, R"({"version":0})"},
      {kWelcome, R"({"heartbeat_period_ms":0})"},
      {kWelcome, R"({"heartbeat_timeout_ms":4294967296})"},
      {kWelcome, R"({"is_peer_checked":1})"},
      {kProbe, R"({"timeout_ms":-1})"},
      {kProbe, R"({"targets":{}})"},
      {kProbe, R"({"targets":[["10.0.0.1","10.0.0.2"]]})"},
      {kProbe, R"({"targets":[["10.0.0.1","10.0.0.2",0]]})"},
      {kProbe, R"({"targets":[["10.0.0.1","10.0.0.2",65536]]})"},
      {kProbe, R"({"targets":[["10.0.0.1","10.0.0.2","80"]]})"},
      {kProbe, R"({"targets":[["10.0.0.1","node7",80]]})"},
      {kProbe, R"({"targets":[["","10.0.0.2",80]]})"},
      {kProbe, R"({"targets":[["10.0.0.1",7,80]]})"},
      {kProbe, R"({"token":"short","measure_ms":250})"},
      {kProbe, R"({"token":7,"measure_ms":250})"},
      {kProbe, R"({"token":"0123456789abcdef0123456789abcdef","measure_ms":0})"},
      {kProbe, R"({"token":"0123456789abcdef0123456789abcdef","measure_ms":10001})"},
      {kProbe,
       R"({"token":"0123456789abcdef0123456789abcdef","measure_ms":1,
           "targets":[["10.0.0.1","10.0.0.2",80],["10.0.0.1","10.0.0.3",80]]})"},
      {kProbeResult, R"({"results":[[0,0,6,1,1,1]]})"},
      {kProbeResult, R"({"results":[[0,0,5,-1,1,1]]})"},
      {kProbeResult, R"({"results":[[0,0,5,1,1,9007199254740993]]})"},
      {kProbeResult, R"({"results":[[0,0,5,1,"1",1]]})"},
      {kHello, R"({"facts":{"measures":1}})"},
      {MessageType::kInspection, R"({"packages":[{"name":"torch","version":2}]})"},
      {MessageType::kInspection, R"({"variables":{"NCCL_DEBUG":"INFO"}})"},
      {kProbeResult, R"({"results":7})"},
      {kProbeResult, R"({"results":[0]})"},
      {kProbeResult, R"({"results":[[0]]})"},
      {kProbeResult, R"({"results":[[5,0]]})"},
      {kProbeResult, R"({"results":[[0,4096]]})"},
      {kProbeResult, R"({"results":[[-1,0]]})"},
      {kProbeResult, R"({"results":[["ok",0]]})"},
      {kStartGeneration, R"({"size":65537})"},
      {kStartGeneration, R"({"size":-1})"},
      {kStartGeneration, R"({"host_index":65536})"},
      {kStartGeneration, R"({"master_port":-1})"},
      {kStartGeneration, R"({"stdin_rank":-2})"},
      {kStartGeneration, R"({"workers":7})"},
      {kStartGeneration, R"({"workers":[[0,0,0]]})"},
      {kStartGeneration, R"({"workers":[[0,0,0,"1"]]})"},
      {kStartGeneration, R"({"workers":[[65536,0,0,1]]})"},
      {kStartGeneration, R"({"workers":[[-1,0,0,1]]})"},
      {kStartGeneration, R"({"workers":[{"rank":0}]})"},
      {kStartGeneration, R"({"workers":[[0,0,0,1,16777216]]})"},
      {kStartGeneration, R"({"has_channel":1})"},
      {kWorkerStarted, R"({"rank":16777216})"},
      {kNotify, R"({"worker":-1})"},
      {kNotify, R"({"timestamp":-1})"},
      {kNotify, R"({"code":4})"},
      {kWorkerArrived, R"({"worker":16777216})"},
      {kStopWorkers, R"({"workers":[-1]})"},
      {kObjectPiece, R"({"object":-1,"size":1,"offset":0})"},
      {kObjectPiece, R"({"object":1,"size":1,"offset":2})"},
      {kObjectPiece, R"({"object":1,"size":9223372036854775808,"offset":0})"},
      {kGiveObject, R"({"object":-1,"rank":0})"},
      {kMapObject, R"({"object":1,"descriptor":-1})"},
      {kDropObject, R"({"object":"1"})"},
      {kObjectProblem, R"({"object":1,"error":4096})"},
      {kStartGeneration, R"({"preload":"torch"})"},
      {kStartGeneration, R"({"preload":[1]})"},
      {kStartGeneration, R"({"preload":["a"],"preload_limit_ms":-1})"},
      {kWarm, R"({"preload":"torch"})"},
      {kWarm, R"({"workers":[{"rank":0}]})"},
      {kWarmed, R"({"is_warm":1})"},
      {kWarmed, R"({"took_ms":4294967296})"},
      {kWarmed, R"({"modules":[3]})"},
      {kStopWorkers, R"({"workers":["1"]})"},
      {kStopWorkers, R"({"grace_ms":-1})"},
      {kHostLeaving, R"({"in_ms":4294967296})"},
      {kConnectionsBroken, R"({"shut":-1})"},
      {kWorkerStarted, R"({"rank":-1})"},
      {kWorkerStarted, R"({"pid":4294967296})"},
      {kWorkerStarted, R"({"pid":1.5})"},
      {kWorkerExited, R"({"exit_code":256})"},
      {kWorkerExited, R"({"exit_code":-1})"},
      {kWorkerExited, R"({"signal":65})"},
      {kWorkerExited, R"({"stage":6})"},
      {kWorkerExited, R"({"error":4096})"},
      {kWorkerExited, R"({"has_core":"yes"})"},
      {kCredit, R"({"stream":2})"},
      {kCredit, R"({"stream":3})"},
      {kCredit, R"({"stream":4})"},
      {kCredit, R"({"bytes":1048577})"},
      {kCredit, R"({"rank":-1})"},
      {kSignal, R"({"rank":-2})"},
      {kSignal, R"({"signo":65})"},
      {kSignal, R"({"signo":-1})"},
      {kKvRequest, R"({"id":-1})"},
      {kKvRequest, R"({"id":18446744073709551616})"},
      {kKvRequest, R"({"operation":0})"},
      {kKvRequest, R"({"operation":8})"},
      {kKvRequest, R"({"rank":-2})"},
      {kKvRequest, R"({"scope_bytes":1})"},
      {kKvRequest, R"({"key_bytes":4294967295})"},
      {kKvReply, R"({"status":99})"},
      {kKvReply, R"({"status":600})"},
      {kKvReply, R"({"key_bytes":1})"},
      {kStopGeneration, R"({"grace_ms":-1})"},
      {kGenerationStopped, R"({"swept":"2"})"},
      {kGenerationStopped, R"({"offered_port":65536})"},
      {kHeartbeat, R"({"is_paused":0})"},
      {kBye, R"({"code":65536})"},
      {kBye, R"({"text":null})"},
  };
  for (const BadField& row : rows) {
    const ByteView raw = row.type == kStartGeneration ? ByteView("\0", 1) : ByteView();
    EXPECT_TRUE(IsRefused(row.type, row.json, raw)) << Name(row.type) << ' ' << row.json;
  }
}

TEST(MessageCodecTest, TextThatIsTooLongIsRefused) {
  const std::string text(4097, 'x');
  EXPECT_TRUE(IsRefused(MessageType::kWelcome, "{\"job_id\":\"" + text + "\"}"));
  EXPECT_TRUE(IsRefused(MessageType::kHello, "{\"build\":\"" + text.substr(0, 257) + "\"}"));
}

TEST(ProbeCodecTest, SixtyFourTargetsTravelAndOneMoreIsRefused) {
  Probe probe;
  ProbeResult result;
  for (size_t i = 0; i < kMaxProbeTargets; ++i) {
    probe.targets.push_back({"255.255.255.255", "255.255.255.254", 65535});
    result.results.push_back({ProbeStage::kTimeout, 4095});
  }
  EXPECT_EQ(DecodeWhole(EncodeMessage({1, probe}).value()).value(), (Message{1, probe}));
  EXPECT_EQ(DecodeWhole(EncodeMessage({1, result}).value()).value(), (Message{1, result}));
  probe.targets.push_back({"10.0.0.1", "10.0.0.2", 1});
  result.results.emplace_back();
  EXPECT_FALSE(DecodeWhole(EncodeMessage({1, probe}).value()).ok());
  EXPECT_FALSE(DecodeWhole(EncodeMessage({1, result}).value()).ok());
}

TEST(ProbeCodecTest, ElementsOfALaterVersionArePassedOver) {
  const auto probe =
      Decoded<Probe>(MessageType::kProbe, R"({"targets":[["10.0.0.1","10.0.0.2",80,"later"]]})");
  ASSERT_EQ(probe.targets.size(), 1U);
  EXPECT_EQ(probe.targets[0], (ProbeTarget{"10.0.0.1", "10.0.0.2", 80}));
  EXPECT_EQ(probe.timeout_ms, 5000U);
  const auto result = Decoded<ProbeResult>(MessageType::kProbeResult, R"({"results":[[1,111,0]]})");
  ASSERT_EQ(result.results.size(), 1U);
  EXPECT_EQ(result.results[0], (ProbeOutcome{ProbeStage::kRefused, 111}));
}

TEST(StartGenerationCodecTest, CountsThatDoNotFitTheStringsAreRefused) {
  const auto refused = [](uint32_t arguments, uint32_t variables, std::string_view raw) {
    return IsRefused(
        MessageType::kStartGeneration,
        fmt::format(R"({{"argument_count":{},"environment_count":{}}})", arguments, variables),
        raw);
  };
  using namespace std::string_view_literals;
  EXPECT_FALSE(refused(1, 1, "\0a\0B=1\0"sv));
  EXPECT_TRUE(refused(1, 1, "\0a\0B=1"sv)) << "the last string has no end";
  EXPECT_TRUE(refused(1, 1, "\0a\0"sv));
  EXPECT_TRUE(refused(1, 1, "\0a\0B=1\0C=2\0"sv));
  EXPECT_TRUE(refused(0, 0, ""sv)) << "no working directory";
  EXPECT_TRUE(refused(UINT32_MAX, UINT32_MAX, "\0a\0B=1\0"sv));
  EXPECT_TRUE(refused(UINT32_MAX, 3, "\0\0\0"sv)) << "a sum that wraps in 32 bits";
}

TEST(StartGenerationCodecTest, NulWithinAStringIsNotSent) {
  const std::string nul("a\0b", 3);
  for (int place = 0; place < 3; ++place) {
    StartGeneration start;
    start.working_directory = place == 0 ? nul : "";
    start.command = {place == 1 ? nul : "c"};
    start.environment = {place == 2 ? nul : "A=1"};
    EXPECT_EQ(EncodeMessage({1, start}).status().code(), ErrorCode::kInternal) << place;
  }
}

TEST(StartGenerationCodecTest, LargeEnvironmentAndGangTravel) {
  StartGeneration start;
  start.size = 4096;
  start.local_size = 4096;
  for (int32_t i = 0; i < 4096; ++i) start.workers.push_back({i, i, 0, 1});
  start.command = {"true"};
  for (int i = 0; i < 4; ++i) start.environment.push_back("V=" + std::string(1 << 20, 'x'));
  const Message message{1, start};
  EXPECT_EQ(DecodeWhole(EncodeMessage(message).value()).value(), message);
  start.environment.assign(17, std::string(1 << 20, 'x'));
  EXPECT_EQ(EncodeMessage({1, start}).status().code(), ErrorCode::kInternal);
}

TEST(OutputCodecTest, LargestFrameTravelsAndALargerOneIsNotSent) {
  const Message largest{1, Output{0, StreamId::kStderr, false, std::string(kMaxOutput, '\0')}};
  EXPECT_EQ(DecodeWhole(EncodeMessage(largest).value()).value(), largest);
  const std::string more(kMaxOutput + 1, 'x');
  EXPECT_EQ(EncodeMessage({1, Output{0, StreamId::kStdout, false, more}}).status().code(),
            ErrorCode::kInternal);
  EXPECT_EQ(EncodeMessage({1, Stdin{0, false, more}}).status().code(), ErrorCode::kInternal);
}

TEST(OutputCodecTest, LayoutIsAsDocumentedAndEachFieldIsChecked) {
  const std::string frame = EncodeMessage({1, Output{258, StreamId::kStderr, true, "x"}}).value();
  const std::string body = frame.substr(kHeaderBytes);
  EXPECT_EQ(body, std::string("\x02\x01\x00\x00\x02\x01\x00\x00x", 9));
  const auto is_ok = [&body](MessageType type, size_t at, char value) {
    std::string changed = body;
    changed[at] = value;
    return DecodeMessage({1, static_cast<uint16_t>(type), 9, 1}, changed).ok();
  };
  EXPECT_TRUE(is_ok(MessageType::kOutput, 4, 1));
  EXPECT_FALSE(is_ok(MessageType::kOutput, 4, 0)) << "stdin is no output";
  EXPECT_FALSE(is_ok(MessageType::kOutput, 4, 3));
  EXPECT_TRUE(is_ok(MessageType::kStdin, 4, 0));
  EXPECT_FALSE(is_ok(MessageType::kStdin, 4, 1));
  EXPECT_TRUE(is_ok(MessageType::kOutput, 2, 1)) << "a number above all ranks";
  EXPECT_FALSE(is_ok(MessageType::kOutput, 3, 1)) << "16777216 and above";
  EXPECT_FALSE(is_ok(MessageType::kOutput, 3, -128));
  EXPECT_FALSE(is_ok(MessageType::kOutput, 5, 2)) << "a flag of a later version";
  EXPECT_FALSE(is_ok(MessageType::kOutput, 6, 1));
  EXPECT_FALSE(is_ok(MessageType::kOutput, 7, 1));
}

TEST(OutputCodecTest, ChannelsHaveAStreamFromVersionTwoOn) {
  const Message messages[] = {{1, Output{2, StreamId::kChannel, false, "x"}},
                              {1, Stdin{2, false, "x", StreamId::kChannel}},
                              {1, Credit{2, StreamId::kChannel, 1}},
                              {0, ObjectPiece{1, 1, 0, "x"}},
                              {0, MapObject{1, 5}},
                              {1, GiveObject{0, 1}},
                              {0, DropObject{1}},
                              {0, ObjectProblem{1, 28}},
                              {1, Warmed{true, "", 1, {"torch"}}},
                              {0, Warm{}}};
  for (const Message& message : messages) {
    const MessageType type = TypeOf(message.body);
    for (const uint16_t version : {kChannelVersion, uint16_t{kMaxVersion + 1}}) {
      EXPECT_EQ(DecodeWhole(EncodeMessage(message, version).value()).value(), message);
    }
    const Result<Message> old = DecodeWhole(EncodeMessage(message, 1).value());
    ASSERT_FALSE(old.ok()) << Name(type);
    EXPECT_EQ(old.status().code(), ErrorCode::kProtocolError);
    EXPECT_TRUE(old.status().message().starts_with(Name(type))) << old.status().ToString();
  }
}

TEST(OutputCodecTest, AStreamBeyondTheChannelsIsRefusedInEveryVersion) {
  for (const MessageType type : {MessageType::kOutput, MessageType::kStdin}) {
    for (const uint16_t version : {1, 2, 3}) {
      for (const char stream : {'\x04', '\x7f', '\xff'}) {
        const std::string body = std::string("\x02\x00\x00\x00", 4) + stream + std::string(3, '\0');
        EXPECT_FALSE(DecodeMessage({version, static_cast<uint16_t>(type), 8, 1}, body).ok());
      }
    }
  }
}

TEST(StartGenerationCodecTest, ChannelsAreNamedOnlyWhereThereAreAny) {
  StartGeneration start = SampleStart();
  EXPECT_EQ(EncodeMessage({1, start})->find("has_channel"), std::string::npos);
  start.has_channel = true;
  EXPECT_NE(EncodeMessage({1, start})->find(R"("has_channel":true)"), std::string::npos);
}

TEST(StartGenerationCodecTest, ModulesAreNamedOnlyWhereThereAreAny) {
  StartGeneration start = SampleStart();
  EXPECT_EQ(EncodeMessage({1, start})->find("preload"), std::string::npos);
  start.preload = {"torch"};
  // In the JSON, where an agent that does not know it ignores it: also in version 1.
  for (const uint16_t version : {1, 2}) {
    const std::string frame = EncodeMessage({1, start}, version).value();
    EXPECT_NE(frame.find(R"("preload":["torch"],"preload_limit_ms":30000)"), std::string::npos);
    EXPECT_EQ(DecodeWhole(frame).value(), (Message{1, start}));
  }
  start.preload.assign(kMaxPreload + 1, "torch");
  EXPECT_FALSE(DecodeWhole(EncodeMessage({1, start}).value()).ok());
}

TEST(KvCodecTest, ValueOf16MiBTravelsAndALargerOneIsNeitherSentNorTaken) {
  Message put{1, KvRequest{1, KvOp::kPut, 0, "scope", "key", std::string(kMaxKvValue, 'v')}};
  EXPECT_EQ(DecodeWhole(EncodeMessage(put).value()).value(), put);
  std::get<KvRequest>(put.body).value += 'v';
  EXPECT_EQ(EncodeMessage(put).status().code(), ErrorCode::kInternal);
  EXPECT_TRUE(IsRefused(MessageType::kKvRequest, "{}", std::string(kMaxKvValue + 1, 'v')));
  EXPECT_TRUE(IsRefused(MessageType::kKvReply, "{}", std::string(kMaxKvValue + 1, 'v')));
}

TEST(KvCodecTest, ADeflatedValueSaysItsSizeAndAPlainOneSaysNothing) {
  const Message deflated{1, KvReply{3, 200, "0", "zlib's", 139'264}};
  const std::string frame = EncodeMessage(deflated, kMaxVersion).value();
  EXPECT_NE(frame.find(R"("inflated_bytes":139264)"), std::string::npos);
  const Message plain{1, KvReply{3, 200, "0", "value"}};
  EXPECT_EQ(EncodeMessage(plain, kMaxVersion).value().find("inflated"), std::string::npos);
  const Message asked{1, KvRequest{3, KvOp::kPut, 0, "global", "0", "zlib's", 139'264}};
  for (const Message& message : {deflated, plain, asked}) {
    EXPECT_EQ(DecodeWhole(EncodeMessage(message).value()).value(), message);
  }
}

TEST(KvCodecTest, NamesThatAreTooLongAreNeitherSentNorTaken) {
  const std::string name(kMaxKvNames, 'n');
  EXPECT_TRUE(EncodeMessage({1, KvRequest{1, KvOp::kGet, 0, name, "", ""}}).ok());
  EXPECT_FALSE(EncodeMessage({1, KvRequest{1, KvOp::kGet, 0, name, "k", ""}}).ok());
  EXPECT_FALSE(EncodeMessage({1, KvReply{1, 200, name + "k", ""}}).ok());
  EXPECT_TRUE(IsRefused(MessageType::kKvReply, R"({"key_bytes":16385})", name + "kv"));
  EXPECT_TRUE(
      IsRefused(MessageType::kKvRequest, R"({"scope_bytes":16384,"key_bytes":1})", name + "kv"));
}

TEST(KvCodecTest, NamesAndValueKeepEveryByte) {
  std::string all;
  for (int c = 0; c < 256; ++c) all += static_cast<char>(c);
  const Message put{1, KvRequest{1, KvOp::kPut, -1, all, all, all}};
  EXPECT_EQ(DecodeWhole(EncodeMessage(put).value()).value(), put);
  const Message reply{1, KvReply{1, 404, all, all}};
  EXPECT_EQ(DecodeWhole(EncodeMessage(reply).value()).value(), reply);
}

TEST(HelloCodecTest, TextThatIsNotUtf8IsReplacedNotRefused) {
  Hello hello;
  hello.facts.host_name = "caf\xe9";
  const Message back = DecodeWhole(EncodeMessage({0, hello}).value()).value();
  EXPECT_EQ(std::get<Hello>(back.body).facts.host_name, "caf\xef\xbf\xbd");
}

TEST(HelloCodecTest, HelloAboveItsLimitIsNotSent) {
  Hello hello;
  for (int i = 0; i < 1000; ++i) {
    hello.facts.interfaces.push_back({"veth" + std::to_string(i), {}, true, false, true, 0, false});
  }
  EXPECT_EQ(EncodeMessage({0, hello}).status().code(), ErrorCode::kInternal);
}

}  // namespace
}  // namespace hvdray::wire
