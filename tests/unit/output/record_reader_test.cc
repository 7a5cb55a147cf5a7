// SPDX-License-Identifier: Apache-2.0
// The stream file of a job on Ray, read back: whole, in pieces, and broken.
#include <gtest/gtest.h>

#include <algorithm>
#include <random>
#include <vector>

#include "launcher/report/stream_file.h"

namespace hvdray {
namespace {

std::string Record(RecordKind kind, const std::string& bytes) {
  return FormatRecordHeader(kind, bytes.size()) + bytes;
}

/// Collects what a reader reports.
struct Heard {
  std::string out, err;
  std::vector<StreamEnd> ends;
  Status status;
};

Heard Read(const std::vector<std::string>& pieces) {
  Heard heard;
  RecordReader reader(
      {.on_output =
           [&heard](RecordKind kind, ByteView bytes) {
             (kind == RecordKind::kStdout ? heard.out : heard.err).append(bytes);
           },
       .on_end = [&heard](StreamEnd end) { heard.ends.push_back(std::move(end)); }});
  for (const std::string& piece : pieces) heard.status = reader.Feed(piece);
  EXPECT_EQ(reader.is_at_end(), !heard.ends.empty());
  return heard;
}

TEST(RecordReaderTest, BytesGoWhereTheyBelongAndTheEndIsTheLast) {
  const std::string bad("\xff\xfe\0x", 4);
  const Heard heard = Read({Record(RecordKind::kStdout, "a\n") + Record(RecordKind::kStderr, bad) +
                            Record(RecordKind::kStdout, "") + Record(RecordKind::kStdout, "b") +
                            Record(RecordKind::kEnd, R"({"exit_code": 3, "error": null})") +
                            "what follows is nobody's"});
  EXPECT_TRUE(heard.status.ok());
  EXPECT_EQ(heard.out, "a\nb");
  EXPECT_EQ(heard.err, bad);
  ASSERT_EQ(heard.ends.size(), 1U);
  EXPECT_EQ(heard.ends[0].exit_code, 3);
  EXPECT_EQ(heard.ends[0].error_code, "");
}

TEST(RecordReaderTest, AnErrorComesWithTheEnd) {
  const Heard heard =
      Read({Record(RecordKind::kEnd, R"({"exit_code": 125, "error": {"code": "HVD-E0208",
                                         "message": "no slots"}})")});
  ASSERT_EQ(heard.ends.size(), 1U);
  EXPECT_EQ(heard.ends[0].error_code, "HVD-E0208");
  EXPECT_EQ(heard.ends[0].error_message, "no slots");
}

TEST(RecordReaderTest, KindsOfLaterBuildsArePassedOver) {
  const Heard heard =
      Read({Record(static_cast<RecordKind>(9), "new") + Record(RecordKind::kStdout, "x")});
  EXPECT_TRUE(heard.status.ok());
  EXPECT_EQ(heard.out, "x");
}

TEST(RecordReaderTest, AStreamGoesOnInAnotherFileAndNothingBehindThatCounts) {
  std::string out;
  std::vector<uint32_t> files;
  RecordReader reader({.on_output = [&](RecordKind, ByteView bytes) { out += bytes; },
                       .on_end = [](const StreamEnd&) {},
                       .on_next = [&](uint32_t file) { files.push_back(file); }});
  const auto record = [](RecordKind kind, const std::string& bytes) {
    return FormatRecordHeader(kind, bytes.size()) + bytes;
  };
  ASSERT_TRUE(reader
                  .Feed(record(RecordKind::kStdout, "a") + record(RecordKind::kNext, "12") +
                        record(RecordKind::kStdout, "not this"))
                  .ok());
  ASSERT_TRUE(reader.Feed(record(RecordKind::kStdout, "b")).ok());
  EXPECT_EQ(out, "ab");
  EXPECT_EQ(files, std::vector<uint32_t>{12});
  EXPECT_FALSE(reader.Feed(record(RecordKind::kNext, "x")).ok());
}

TEST(RecordReaderTest, PlacesComeBeforeTheirBytesAndOnlyToWhoWantsThem) {
  const std::string file =
      Record(RecordKind::kPlaces, FormatPlaces({RecordKind::kStderr, 3, {{2, 1, false}}})) +
      Record(RecordKind::kStderr, "x");
  EXPECT_EQ(Read({file.substr(0, 8), file.substr(8)}).err, "x");
  std::vector<PlacesOfRecord> heard;
  RecordReader reader(
      {.on_output = [&heard](RecordKind /*kind*/,
                             ByteView /*bytes*/) { EXPECT_EQ(heard.size(), 1U); },
       .on_end = [](const StreamEnd& /*end*/) {},
       .on_places = [&heard](PlacesOfRecord record) { heard.push_back(std::move(record)); }});
  for (const char byte : file) EXPECT_TRUE(reader.Feed({&byte, 1}).ok());
  ASSERT_EQ(heard.size(), 1U);
  EXPECT_EQ(heard[0].places, (std::vector<RecordPlace>{{2, 1, false}}));
}

TEST(RecordReaderTest, MessagesOfASessionComeWholeWithTheirPlace) {
  const std::string long_one(3000, 'm');
  const uint64_t far = (uint64_t{1} << 40) + 5;
  const std::string file = Record(RecordKind::kControl, FormatControl(0, "a\n")) +
                           Record(RecordKind::kStdout, "x") +
                           Record(RecordKind::kControl, FormatControl(far, long_one));
  EXPECT_EQ(Read({file}).out, "x") << "nobody has to want them";
  for (const size_t step : {size_t{1}, size_t{7}, file.size()}) {
    std::vector<std::pair<std::string, uint64_t>> heard;
    RecordReader reader({.on_output = [](RecordKind, ByteView) {},
                         .on_end = [](const StreamEnd&) {},
                         .on_control =
                             [&heard](ByteView message, uint64_t offset) {
                               heard.emplace_back(message, offset);
                               return Status();
                             }});
    for (size_t at = 0; at < file.size(); at += step) {
      ASSERT_TRUE(reader.Feed(ByteView(file).substr(at, step)).ok());
    }
    ASSERT_EQ(heard.size(), 2U);
    EXPECT_EQ(heard[0], std::pair(std::string("a\n"), uint64_t{0}));
    EXPECT_EQ(heard[1], std::pair(long_one, far));
  }
}

TEST(RecordReaderTest, AMessageThatIsNotWantedIsAFault) {
  const Status refused(ErrorCode::kProtocolError, "no such message");
  int heard = 0;
  RecordReader reader({.on_output = [](RecordKind, ByteView) {},
                       .on_end = [](const StreamEnd&) {},
                       .on_control =
                           [&](ByteView, uint64_t) {
                             ++heard;
                             return refused;
                           }});
  const std::string record = Record(RecordKind::kControl, FormatControl(0, "a"));
  EXPECT_EQ(reader.Feed(record + record), refused);
  EXPECT_EQ(reader.Feed(record), refused);
  EXPECT_EQ(heard, 1);
}

TEST(RecordReaderTest, WhatNoDriverWritesIsAFault) {
  const std::vector<std::string> broken = {
      std::string(5, '\0'),
      Record(RecordKind::kEnd, ""),
      FormatRecordHeader(RecordKind::kEnd, size_t{2} << 20),
      Record(RecordKind::kEnd, "no json"),
      Record(RecordKind::kPlaces, "short"),
      FormatRecordHeader(RecordKind::kPlaces, size_t{9} << 20),
      Record(RecordKind::kControl, ""),
      Record(RecordKind::kControl, "short"),
      Record(RecordKind::kControl, FormatControl(0, "")),
      FormatRecordHeader(RecordKind::kControl, kMaxControlMessage + 9),
      FormatRecordHeader(RecordKind::kControl, UINT32_MAX),
      Record(RecordKind::kEnd, "[]"),
      Record(RecordKind::kEnd, "{}"),
      Record(RecordKind::kEnd, R"({"exit_code": 256})"),
      Record(RecordKind::kEnd, R"({"exit_code": "0"})"),
  };
  for (const std::string& text : broken) {
    const Heard heard = Read({text, Record(RecordKind::kStdout, "more")});
    EXPECT_EQ(heard.status.code(), ErrorCode::kProtocolError);
    EXPECT_EQ(heard.out, "") << "nothing after a fault";
    EXPECT_TRUE(heard.ends.empty());
  }
}

TEST(RecordReaderTest, PiecesOfAnySizeAreTheSame) {
  constexpr uint32_t kSeed = 7;
  std::mt19937 random(kSeed);
  for (int round = 0; round < 300; ++round) {
    std::string file, out, err;
    for (uint32_t i = random() % 8; i > 0; --i) {
      std::string bytes(random() % 3 == 0 ? random() % 1000 : random() % 7, '\0');
      for (char& c : bytes) c = static_cast<char>(random());
      const bool is_out = random() % 2 == 0;
      (is_out ? out : err) += bytes;
      file += Record(is_out ? RecordKind::kStdout : RecordKind::kStderr, bytes);
    }
    file += Record(RecordKind::kEnd, R"({"exit_code": 0})");
    std::vector<std::string> pieces;
    for (size_t at = 0; at < file.size();) {
      const size_t size = std::min<size_t>(1 + random() % 9, file.size() - at);
      pieces.push_back(file.substr(at, size));
      at += size;
    }
    const Heard heard = Read(pieces);
    EXPECT_EQ(heard.out, out) << kSeed << " round " << round;
    EXPECT_EQ(heard.err, err) << kSeed << " round " << round;
    EXPECT_EQ(heard.ends.size(), 1U) << kSeed << " round " << round;
  }
}

}  // namespace
}  // namespace hvdray
