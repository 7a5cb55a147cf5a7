// SPDX-License-Identifier: Apache-2.0
#include "wire/announcement.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <vector>

namespace hvdray::wire {
namespace {

using Event = AnnouncementScanner::Event;

constexpr std::string_view kLine = "HVDRAY-AGENT/1 4711 00112233445566778899aabbccddeeff\n";

struct Scan {
  std::vector<std::string> noise;
  bool is_announced = false;
  std::string rest;
  Status error;
  std::string unfinished;
  Announcement announcement;
};

Scan ScanAll(std::string_view text, size_t step) {
  Scan scan;
  AnnouncementScanner scanner;
  while (!text.empty() && !scan.is_announced) {
    ByteView in = text.substr(0, step);
    text.remove_prefix(in.size());
    for (bool is_more = true; is_more;) {
      const Result<Event> event = scanner.Next(in);
      if (!event.ok()) {
        scan.error = event.status();
        return scan;
      }
      if (*event == Event::kNoise) scan.noise.push_back(scanner.noise());
      scan.is_announced = *event == Event::kAnnounced;
      is_more = *event == Event::kNoise;
    }
    scan.rest = in;
  }
  scan.rest += text;
  scan.unfinished = scanner.unfinished();
  scan.announcement = scanner.announcement();
  return scan;
}

TEST(AnnouncementTest, OwnLineIsUnderstood) {
  const Announcement mine = MakeAnnouncement().value();
  EXPECT_EQ(mine.pid, static_cast<uint32_t>(::getpid()));
  const Scan scan = ScanAll(FormatAnnouncement(mine), 100);
  ASSERT_TRUE(scan.is_announced);
  EXPECT_EQ(scan.announcement, mine);
}

TEST(AnnouncementTest, NoncesDiffer) {
  EXPECT_NE(MakeAnnouncement()->nonce, MakeAnnouncement()->nonce);
}

TEST(AnnouncementScannerTest, NoiseIsGivenByLinesAndFramesAreLeft) {
  const std::string text =
      "Welcome to node7\r\n\nlast login: never\n" + std::string(kLine) + "HVDR frames\n";
  for (size_t step = 1; step <= text.size(); ++step) {
    const Scan scan = ScanAll(text, step);
    ASSERT_TRUE(scan.is_announced) << step;
    EXPECT_EQ(scan.noise, (std::vector<std::string>{"Welcome to node7", "", "last login: never"}));
    EXPECT_EQ(scan.rest, "HVDR frames\n") << step;
    EXPECT_EQ(scan.announcement.pid, 4711u);
  }
}

TEST(AnnouncementScannerTest, NoiseCannotMoveTheCursor) {
  const Scan scan = ScanAll("\x1b[2Jred \x9b\x07\nlast \x1b[31mwords", 1000);
  EXPECT_EQ(scan.noise, std::vector<std::string>{"red \\x9b"});
  EXPECT_EQ(scan.unfinished, "last words");
}

TEST(AnnouncementScannerTest, BannerWithoutNewlineMayStandBeforeIt) {
  const Scan scan = ScanAll("node7$ " + std::string(kLine) + "x", 1000);
  ASSERT_TRUE(scan.is_announced);
  EXPECT_EQ(scan.noise, std::vector<std::string>{"node7$ "});
  EXPECT_EQ(scan.rest, "x");
}

TEST(AnnouncementScannerTest, LinesThatOnlyLookLikeItAreNoise) {
  for (const std::string line : {
           "HVDRAY-AGENT/1 4711 00112233445566778899aabbccddeef",    // a digit short
           "HVDRAY-AGENT/1 4711 00112233445566778899aabbccddeeff0",  // one too many
           "HVDRAY-AGENT/1 4711 00112233445566778899AABBCCDDEEFF",
           "HVDRAY-AGENT/1 4711  0112233445566778899aabbccddeeff",
           "HVDRAY-AGENT/1 0 00112233445566778899aabbccddeeff",
           "HVDRAY-AGENT/1 -1 00112233445566778899aabbccddeeff",
           "HVDRAY-AGENT/1 99999999999 00112233445566778899aabbccddeeff",
           "HVDRAY-AGENT/1 4711",
           "HVDRAY-AGENT/1 ",
           "HVDRAY-AGENT/2 4711 00112233445566778899aabbccddeeff",
           "HVDRAY-AGENT/1 4711 00112233445566778899aabbccddeeff\r",
           "HVDRAY-AGENT/1 4711 00112233445566778899aabbccddeeff trailing",
       }) {
    const Scan scan = ScanAll(line + "\n", 1000);
    EXPECT_FALSE(scan.is_announced) << line;
    EXPECT_EQ(scan.noise.size(), 1u) << line;
  }
}

TEST(AnnouncementScannerTest, LastOfTwoMarksInALineCounts) {
  const Scan scan = ScanAll("HVDRAY-AGENT/1 said " + std::string(kLine), 1000);
  EXPECT_TRUE(scan.is_announced);
  EXPECT_EQ(scan.noise, std::vector<std::string>{"HVDRAY-AGENT/1 said "});
}

TEST(AnnouncementScannerTest, NoiseHasALimitWithAndWithoutLines) {
  const std::string lines = [] {
    std::string text;
    while (text.size() <= kMaxNoise) text += "spam spam spam spam\n";
    return text;
  }();
  for (const std::string& text : {lines, std::string(kMaxNoise + 1, 'x')}) {
    for (const size_t step : {size_t{1}, size_t{4096}, text.size()}) {
      EXPECT_EQ(ScanAll(text, step).error.code(), ErrorCode::kProtocolError) << step;
    }
  }
  const std::string just_fits = std::string(kMaxNoise - kLine.size() - 1, 'x') + "\n";
  EXPECT_TRUE(ScanAll(just_fits + std::string(kLine), 4096).is_announced);
}

TEST(AnnouncementScannerTest, UnfinishedLineIsKeptAsLastWords) {
  EXPECT_EQ(ScanAll("motd\nPermission denied", 7).unfinished, "Permission denied");
}

}  // namespace
}  // namespace hvdray::wire
