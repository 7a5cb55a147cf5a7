// SPDX-License-Identifier: Apache-2.0
// However a stream is split into reads, the output is the same and can be parsed back.
#include <gtest/gtest.h>

#include <algorithm>
#include <random>

#include "launcher/report/worker_lines.h"

namespace hvdray {
namespace {

constexpr std::string_view kTag = "[7]<stdout>:";

std::string RandomBytes(std::mt19937_64& random, size_t size) {
  // A third of the runs have few line ends, so that lines exceed the limit.
  const unsigned rare = std::uniform_int_distribution<unsigned>(0, 2)(random) == 0 ? 200'000 : 40;
  std::string bytes(size, '\0');
  for (char& byte : bytes) {
    const auto roll = std::uniform_int_distribution<unsigned>(0, rare)(random);
    byte = roll == 0 ? '\n' : roll == 1 ? '\r' : static_cast<char>(random());
    if (roll > 1 && (byte == '\n' || byte == '\r')) byte = '.';
  }
  return bytes;
}

std::string Reference(std::string_view bytes) {
  std::string out;
  bool is_line_start = true;
  for (const char byte : bytes) {
    if (is_line_start) out += kTag;
    out += byte;
    is_line_start = byte == '\n' || byte == '\r';
  }
  return out;
}

TEST(LineTaggerPropertyTest, AnyCutOfTheStreamGivesTheSameText) {
  const uint64_t seed = std::random_device()();
  SCOPED_TRACE(testing::Message() << "seed " << seed);
  std::mt19937_64 random(seed);
  for (int round = 0; round < 60; ++round) {
    const size_t size = std::uniform_int_distribution<size_t>(0, 300'000)(random);
    const std::string bytes = RandomBytes(random, size);
    const size_t max_cut = size_t{1} << std::uniform_int_distribution<int>(3, 18)(random);
    LineTagger tagger{std::string(kTag)};
    std::string out;
    for (size_t at = 0; at < bytes.size();) {
      const size_t cut =
          std::min(std::uniform_int_distribution<size_t>(0, max_cut)(random), bytes.size() - at);
      tagger.Feed(std::string_view(bytes).substr(at, cut), {}, out);
      ASSERT_LE(tagger.held_bytes(), kMaxHeldLine);
      at += cut;
    }
    tagger.Finish({}, out);
    ASSERT_TRUE(out == Reference(bytes)) << "round " << round << ", " << size << " bytes";
  }
}

TEST(LineTaggerPropertyTest, TextEndsAtALineEndUnlessALongLineIsOpen) {
  const uint64_t seed = std::random_device()();
  SCOPED_TRACE(testing::Message() << "seed " << seed);
  std::mt19937_64 random(seed);
  LineTagger tagger{std::string(kTag)};
  size_t since_end = 0;
  for (int round = 0; round < 2000; ++round) {
    std::string bytes = RandomBytes(random, std::uniform_int_distribution<size_t>(0, 500)(random));
    std::string out;
    tagger.Feed(bytes, {}, out);
    const size_t last = bytes.find_last_of("\r\n");
    since_end = last == std::string::npos ? since_end + bytes.size() : bytes.size() - last - 1;
    if (!out.empty() && since_end <= kMaxHeldLine) {
      ASSERT_TRUE(out.back() == '\n' || out.back() == '\r') << "round " << round;
    }
  }
}

}  // namespace
}  // namespace hvdray
