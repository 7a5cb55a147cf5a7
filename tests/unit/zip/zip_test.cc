// SPDX-License-Identifier: Apache-2.0
// Archives as libzip makes them for us; what others read out of them: tests of the job package.
#include "base/zip.h"

#include <gtest/gtest.h>

#include <fstream>

#include "tests/fakes/temp_directory.h"

namespace hvdray {
namespace {

std::string Packed(ZipEffort effort, uint16_t mode = 0644) {
  ZipWriter writer(size_t{1} << 20);
  EXPECT_TRUE(writer.AddDirectory("empty", 0755).ok());
  EXPECT_TRUE(writer.AddBytes("a/b.txt", mode, std::string(5000, 'x'), effort).ok());
  const Result<std::string> zip = writer.Finish();
  EXPECT_TRUE(zip.ok()) << zip.status().ToString();
  return zip.ok() ? *zip : std::string();
}

TEST(ZipTest, TheSameEntriesAreTheSameBytesAndCompressed) {
  const std::string zip = Packed(ZipEffort::kUsual);
  EXPECT_EQ(zip, Packed(ZipEffort::kUsual));
  EXPECT_EQ(zip.substr(0, 4), "PK\x03\x04");
  EXPECT_LT(zip.size(), 600U);
  EXPECT_LT(Packed(ZipEffort::kFast).size(), 600U);
}

TEST(ZipTest, ModesAreInTheBytes) {
  EXPECT_NE(Packed(ZipEffort::kUsual, 0644), Packed(ZipEffort::kUsual, 0755));
}

TEST(ZipTest, StopsAtItsLimit) {
  std::string noise(20000, '\0');
  uint32_t state = 1;
  for (char& c : noise) c = static_cast<char>((state = state * 1664525 + 1013904223) >> 24);
  ZipWriter writer(10000);
  ASSERT_TRUE(writer.AddBytes("noise", 0644, noise).ok());
  EXPECT_EQ(writer.Finish().status().code(), ErrorCode::kPackageTooLarge);
  ZipWriter larger(30000);
  ASSERT_TRUE(larger.AddBytes("noise", 0644, noise).ok());
  EXPECT_TRUE(larger.Finish().ok());
}

TEST(ZipTest, FilesAreReadWhenItIsMade) {
  const TempDirectory directory;
  const std::string path = directory.path() + "/file";
  ZipWriter writer(size_t{1} << 20);
  std::ofstream(path) << "first";
  ASSERT_TRUE(writer.AddFile("file", 0640, path).ok());
  const Result<std::string> zip = writer.Finish();
  ASSERT_TRUE(zip.ok()) << zip.status().ToString();
  ZipWriter gone(size_t{1} << 20);
  std::ofstream(path).close();
  const std::string missing = directory.path() + "/missing";
  Status status = gone.AddFile("missing", 0644, missing);
  if (status.ok()) status = gone.Finish().status();
  EXPECT_EQ(status.code(), ErrorCode::kFileUnreadable) << status.ToString();
}

TEST(ZipTest, ANameStandsOnceAndIsText) {
  ZipWriter writer(1000);
  ASSERT_TRUE(writer.AddBytes("a", 0644, "1").ok());
  EXPECT_EQ(writer.AddBytes("a", 0644, "2").code(), ErrorCode::kUsage);
  EXPECT_EQ(writer.AddBytes("a\xff", 0644, "2").code(), ErrorCode::kUsage);
  EXPECT_EQ(ZipWriter(1000).Finish().status().code(), ErrorCode::kUsage);
}

TEST(ZipTest, OneThatIsNotFinishedLeavesNothingBehind) {
  ZipWriter writer(1000);
  ASSERT_TRUE(writer.AddBytes("a", 0644, "1").ok());
  ZipWriter moved = std::move(writer);
  EXPECT_TRUE(moved.AddBytes("b", 0644, "1").ok());
}

}  // namespace
}  // namespace hvdray
