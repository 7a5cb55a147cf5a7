// SPDX-License-Identifier: Apache-2.0
#include "wire/frame.h"

#include <gtest/gtest.h>

#include "wire/message.h"

namespace hvdray::wire {
namespace {

static_assert(kMaxControlJson == size_t{1} << 20, "documented in docs/protocol.md");
static_assert(kMaxKvValue == size_t{16} << 20, "documented in docs/protocol.md");
static_assert(kMaxOutput == size_t{64} << 10, "documented in docs/protocol.md");
static_assert(kMaxLauncherHello == 4096 && kMaxAgentHello == 65536, "docs/protocol.md");

constexpr auto kHeartbeat = static_cast<uint16_t>(MessageType::kHeartbeat);
constexpr auto kOutput = static_cast<uint16_t>(MessageType::kOutput);
constexpr auto kKvReply = static_cast<uint16_t>(MessageType::kKvReply);

std::string FrameOf(uint16_t type, ByteView body, Generation generation = 0) {
  std::string bytes;
  EncodeHeader(bytes, {1, type, static_cast<uint32_t>(body.size()), generation});
  return bytes.append(body);
}

std::string HeaderOf(uint16_t type, uint32_t length) {
  std::string bytes;
  EncodeHeader(bytes, {1, type, length, 0});
  return bytes;
}

/// The one frame, or the error, that `bytes` make when they come in pieces of `step`.
Result<std::vector<std::string>> Bodies(FrameDecoder& decoder, ByteView bytes, size_t step) {
  std::vector<std::string> bodies;
  while (!bytes.empty()) {
    const size_t count = std::min(step, bytes.size());
    decoder.Push(bytes.substr(0, count));
    bytes.remove_prefix(count);
    for (;;) {
      HVDRAY_ASSIGN_OR_RETURN(const std::optional<Frame> frame, decoder.Next());
      if (!frame) break;
      bodies.emplace_back(frame->body);
    }
  }
  return bodies;
}

TEST(FrameHeaderTest, LayoutIsAsDocumented) {
  std::string bytes;
  EncodeHeader(bytes, {0x0102, 0x0007, 0x00000a0b, 0xc1c2c3c4});
  EXPECT_EQ(bytes, std::string("HVDR\x02\x01\x07\x00\x0b\x0a\x00\x00\xc4\xc3\xc2\xc1", 16));
  const Result<FrameHeader> header = DecodeHeader(bytes);
  ASSERT_TRUE(header.ok());
  EXPECT_EQ(*header, (FrameHeader{0x0102, 7, 0xa0b, 0xc1c2c3c4}));
}

TEST(FrameHeaderTest, EachBitOfTheMagicCounts) {
  const std::string good = HeaderOf(kHeartbeat, 0);
  for (size_t bit = 0; bit < 32; ++bit) {
    std::string bad = good;
    bad[bit / 8] = static_cast<char>(bad[bit / 8] ^ (1 << bit % 8));
    EXPECT_EQ(DecodeHeader(bad).status().code(), ErrorCode::kProtocolError) << bit;
  }
}

TEST(FrameHeaderTest, TypeThatIsNotKnownIsRefusedWhateverItsLength) {
  int known = 0;
  for (uint32_t type = 0; type <= 0xffff; ++type) {
    const bool is_ok = DecodeHeader(HeaderOf(static_cast<uint16_t>(type), 0)).ok();
    EXPECT_EQ(is_ok, MaxBodyBytes(static_cast<uint16_t>(type)).has_value());
    known += is_ok ? 1 : 0;
  }
  EXPECT_EQ(known, static_cast<int>(std::variant_size_v<Body>));
}

TEST(FrameHeaderTest, LengthAboveTheLimitOfItsTypeIsRefused) {
  for (uint16_t type = 1; type < 32; ++type) {
    const std::optional<size_t> limit = MaxBodyBytes(type);
    if (!limit) continue;
    EXPECT_TRUE(DecodeHeader(HeaderOf(type, static_cast<uint32_t>(*limit))).ok()) << type;
    EXPECT_FALSE(DecodeHeader(HeaderOf(type, static_cast<uint32_t>(*limit + 1))).ok()) << type;
    EXPECT_FALSE(DecodeHeader(HeaderOf(type, UINT32_MAX)).ok()) << type;
  }
}

TEST(FrameHeaderTest, VersionIsStampedInPlace) {
  std::string frame = FrameOf(kHeartbeat, "body");
  SetVersion(frame, 0x0203);
  EXPECT_EQ(DecodeHeader(frame)->version, 0x0203);
  EXPECT_EQ(frame.substr(kHeaderBytes), "body");
}

TEST(FrameDecoderTest, SplitsDoNotMatter) {
  const std::string stream = FrameOf(kHeartbeat, "one") + FrameOf(kOutput, "") +
                             FrameOf(kHeartbeat, std::string(40'000, 'x')) +
                             FrameOf(kHeartbeat, "four");
  const std::vector<std::string> wanted = {"one", "", std::string(40'000, 'x'), "four"};
  for (const size_t step : {size_t{1}, size_t{2}, size_t{3}, size_t{15}, size_t{16}, size_t{17},
                            size_t{19}, size_t{20}, size_t{4096}, stream.size()}) {
    FrameDecoder decoder(kMaxAgentHello);
    const auto bodies = Bodies(decoder, stream, step);
    ASSERT_TRUE(bodies.ok()) << step;
    EXPECT_EQ(*bodies, wanted) << step;
    EXPECT_EQ(decoder.BufferedBytes(), 0u);
  }
}

TEST(FrameDecoderTest, CutAnywhereGivesTheWholeFramesAndNoError) {
  const std::string stream = FrameOf(kHeartbeat, "one") + FrameOf(kHeartbeat, "two");
  for (size_t cut = 0; cut < stream.size(); ++cut) {
    FrameDecoder decoder(kMaxAgentHello);
    const auto bodies = Bodies(decoder, ByteView(stream).substr(0, cut), stream.size());
    ASSERT_TRUE(bodies.ok()) << cut;
    EXPECT_EQ(bodies->size(), cut < 19 ? 0u : 1u) << cut;
  }
}

TEST(FrameDecoderTest, FirstFrameHasALimitOfItsOwn) {
  for (const size_t limit : {kMaxLauncherHello, kMaxAgentHello}) {
    FrameDecoder fits(limit);
    EXPECT_TRUE(Bodies(fits, FrameOf(kKvReply, std::string(limit, 'x')), 1000).ok());
    FrameDecoder too_long(limit);
    EXPECT_FALSE(Bodies(too_long, FrameOf(kKvReply, std::string(limit + 1, 'x')), 1000).ok());
    FrameDecoder second(limit);
    EXPECT_TRUE(Bodies(second,
                       FrameOf(kHeartbeat, "") + FrameOf(kKvReply, std::string(limit + 1, 'x')),
                       1000)
                    .ok());
  }
}

TEST(FrameDecoderTest, KeepsWhatCameNotWhatWasPromised) {
  FrameDecoder decoder(kMaxAgentHello);
  ASSERT_TRUE(Bodies(decoder, FrameOf(kHeartbeat, ""), 100).ok());
  const std::string promise = HeaderOf(kKvReply, 16 << 20) + "few";
  ASSERT_TRUE(Bodies(decoder, promise, 7).ok());
  EXPECT_EQ(decoder.BufferedBytes(), promise.size());
}

TEST(FrameDecoderTest, HeaderIsJudgedAsSoonAsItIsThere) {
  FrameDecoder decoder(kMaxAgentHello);
  const auto bodies = Bodies(decoder, HeaderOf(kOutput, UINT32_MAX), 1);
  EXPECT_EQ(bodies.status().code(), ErrorCode::kProtocolError);
  EXPECT_EQ(decoder.BufferedBytes(), 0u);
}

TEST(FrameDecoderTest, TextBetweenFramesIsQuoted) {
  const std::string noise = "late words of a background job\n";
  const std::string bytes = HeaderOf(kHeartbeat, 0) + noise + HeaderOf(kHeartbeat, 0);
  for (size_t step = 1; step <= bytes.size(); ++step) {
    FrameDecoder decoder(kMaxAgentHello);
    const Status error = Bodies(decoder, bytes, step).status();
    EXPECT_EQ(error.code(), ErrorCode::kProtocolError);
    EXPECT_NE(error.message().find("'late words of"), std::string::npos) << error.message();
    EXPECT_NE(error.hint().find("background"), std::string::npos) << error.hint();
  }
}

TEST(FrameDecoderTest, StaysInErrorAndTakesNothingMore) {
  FrameDecoder decoder(kMaxAgentHello);
  EXPECT_FALSE(Bodies(decoder, "HTTP/1.1 200 OK\r\n\r\n", 100).ok());
  const auto again = Bodies(decoder, FrameOf(kHeartbeat, ""), 100);
  EXPECT_EQ(again.status().code(), ErrorCode::kProtocolError);
}

TEST(FrameDecoderTest, FramesBeforeABadOneAreStillGiven) {
  FrameDecoder decoder(kMaxAgentHello);
  const std::string stream = FrameOf(kHeartbeat, "good") + "garbage garbage garbage";
  decoder.Push(stream);
  const auto first = decoder.Next();
  ASSERT_TRUE(first.ok() && first->has_value());
  EXPECT_EQ((*first)->body, "good");
  EXPECT_FALSE(decoder.Next().ok());
}

}  // namespace
}  // namespace hvdray::wire
