// SPDX-License-Identifier: Apache-2.0
// The files of --output-filename as a client makes them of a job's stream.
#include "cluster/ray/ray_rank_files.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <sstream>

#include "tests/fakes/temp_directory.h"

namespace hvdray {
namespace {

class RayRankFilesTest : public testing::Test {
 protected:
  std::string Text(const std::string& name) const {
    std::ostringstream text;
    text << std::ifstream(directory_ / ("out/" + name), std::ios::binary).rdbuf();
    return text.str();
  }

  const TempDirectory directory_;
  RayRankFiles files_{directory_ / "out"};
};

TEST_F(RayRankFilesTest, EachRankGetsItsBytesHoweverTheyCome) {
  files_.OnPlaces(
      {RecordKind::kStdout, 11, {{0, 3, false}, {RecordPlace::kNobody, 2, false}, {10, 4, false}}});
  files_.OnPlaces({RecordKind::kStderr, 11, {{0, 2, false}}});
  files_.OnOutput(RecordKind::kStdout, "a");
  files_.OnOutput(RecordKind::kStderr, "\xff\n");
  files_.OnOutput(RecordKind::kStdout, "b\n..c");
  files_.OnOutput(RecordKind::kStdout, "de\nof nobody");
  EXPECT_EQ(Text("rank.00/stdout"), "ab\n");
  EXPECT_EQ(Text("rank.10/stdout"), "cde\n");
  EXPECT_EQ(Text("rank.00/stderr"), "\xff\n");
  EXPECT_EQ(Text("rank.01/stdout"), "");
  EXPECT_TRUE(std::filesystem::exists(directory_ / "out/rank.09/stderr"));
  EXPECT_TRUE(files_.lost().ok());
}

TEST_F(RayRankFilesTest, AFileBeginsAnewWhereItsWorkerDid) {
  files_.OnPlaces({RecordKind::kStdout, 1, {{0, 2, false}, {0, 0, true}, {0, 1, false}}});
  files_.OnOutput(RecordKind::kStdout, "a\n");
  EXPECT_EQ(Text("rank.0/stdout"), "");
  files_.OnOutput(RecordKind::kStdout, "b");
  EXPECT_EQ(Text("rank.0/stdout"), "b");
  // Without a byte behind it.
  files_.OnPlaces({RecordKind::kStdout, 1, {{0, 0, true}}});
  EXPECT_EQ(Text("rank.0/stdout"), "");
}

TEST_F(RayRankFilesTest, WhatCannotBeWrittenIsToldAndTheRestGoesOn) {
  std::filesystem::create_directories(directory_ / "out/rank.0");
  files_.OnPlaces({RecordKind::kStdout, 2, {{0, 1, false}, {1, 1, false}}});
  std::filesystem::remove_all(directory_ / "out/rank.0");
  std::ofstream(directory_ / "out/rank.0") << "a file in its place";
  // Opened already: 256 files are.
  files_.OnPlaces({RecordKind::kStdout, 2, {{0, 0, true}}});
  files_.OnOutput(RecordKind::kStdout, "ab");
  EXPECT_EQ(files_.lost().code(), ErrorCode::kOutputLost);
  EXPECT_NE(files_.lost().message().find("out/rank.0"), std::string::npos);
  EXPECT_EQ(Text("rank.1/stdout"), "b");
}

TEST(RayRankFilesNoneTest, NobodyWantsThem) {
  RayRankFiles files("");
  files.OnPlaces({RecordKind::kStdout, 1, {{0, 2, false}}});
  files.OnOutput(RecordKind::kStdout, "ab");
  EXPECT_TRUE(files.lost().ok());
}

}  // namespace
}  // namespace hvdray
