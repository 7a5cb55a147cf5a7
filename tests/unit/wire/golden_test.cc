// Frames of released versions, byte for byte: a difference means that older builds can't be spoken
// to. HVDRAY_UPDATE_GOLDEN=1 in the environment (tools/update_golden.py sets it) rewrites them.
#include <gtest/gtest.h>

#include "base/environ.h"
#include "base/fd.h"
#include "base/file.h"
#include "tests/unit/wire/sample_messages.h"
#include "wire/message_codec.h"

namespace hvdray::wire {
namespace {

// 16 bytes a line, as text that a diff shows well.
std::string ToHex(ByteView bytes) {
  static constexpr char kDigits[] = "0123456789abcdef";
  std::string text;
  for (size_t i = 0; i < bytes.size(); ++i) {
    const auto byte = static_cast<unsigned char>(bytes[i]);
    text += kDigits[byte >> 4];
    text += kDigits[byte & 15];
    text += i % 16 == 15 || i + 1 == bytes.size() ? '\n' : ' ';
  }
  return text;
}

std::string FromHex(std::string_view text) {
  std::string bytes;
  for (size_t i = 0; i + 1 < text.size(); i += 3) {
    bytes += static_cast<char>(std::stoi(std::string(text.substr(i, 2)), nullptr, 16));
  }
  return bytes;
}

using Samples = std::vector<std::pair<std::string, Message>>;

void ExpectReleased(uint16_t version, const Samples& samples) {
  const bool is_update = Environment::FromProcess().Get("HVDRAY_UPDATE_GOLDEN") == "1";
  for (const auto& [name, message] : samples) {
    const std::string path = "tests/golden/wire/v" + std::to_string(version) + "/" + name + ".hex";
    const Result<std::string> bytes = EncodeMessage(message, version);
    ASSERT_TRUE(bytes.ok()) << bytes.status().ToString();
    if (is_update) {
      ASSERT_TRUE(WriteFileAtomically(path, ToHex(*bytes)).ok());
    }
    const Result<std::string> golden = ReadFile(path);
    ASSERT_TRUE(golden.ok()) << golden.status().ToString();
    EXPECT_EQ(ToHex(*bytes), *golden) << name;

    const std::string old = FromHex(*golden);
    const Result<FrameHeader> header = DecodeHeader(old);
    ASSERT_TRUE(header.ok()) << name;
    const Result<Message> back = DecodeMessage(*header, ByteView(old).substr(kHeaderBytes));
    ASSERT_TRUE(back.ok()) << name << ": " << back.status().ToString();
    EXPECT_EQ(*back, message) << name;
  }
}

TEST(GoldenFramesTest, VersionOneIsByteForByteAsReleased) { ExpectReleased(1, SampleMessages()); }

TEST(GoldenFramesTest, VersionTwoIsByteForByteAsReleased) {
  ExpectReleased(2, SampleChannelMessages());
}

// All that version 1 has is the same in version 2, but for the number in the header.
TEST(GoldenFramesTest, VersionTwoChangesNoMessageOfVersionOne) {
  for (const auto& [name, message] : SampleMessages()) {
    const std::string old = EncodeMessage(message, 1).value();
    const std::string now = EncodeMessage(message, 2).value();
    EXPECT_EQ(now.substr(kHeaderBytes), old.substr(kHeaderBytes)) << name;
  }
}

}  // namespace
}  // namespace hvdray::wire
