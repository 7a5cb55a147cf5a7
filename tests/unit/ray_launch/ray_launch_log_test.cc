// SPDX-License-Identifier: Apache-2.0
#include "cluster/ray/ray_launch_log.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <fstream>
#include <sstream>

#include "tests/fakes/temp_directory.h"

namespace hvdray {
namespace {

std::string Whole(const std::string& path) {
  std::ostringstream text;
  text << std::ifstream(path).rdbuf();
  return text.str();
}

std::string Record(RecordKind kind, const std::string& bytes) {
  return FormatRecordHeader(kind, bytes.size()) + bytes;
}

class RayLaunchLogTest : public testing::Test {
 protected:
  std::string LogText() { return Whole(directory_ / "log"); }

  const TempDirectory directory_;
  const UniqueFd log_fd_{
      ::open((directory_ / "log").c_str(), O_RDWR | O_CREAT | O_CLOEXEC | O_APPEND, 0600)};
  RayLaunchLog log_{log_fd_.get()};
};

TEST_F(RayLaunchLogTest, TheJobsLogGetsAsciiOnlyAndTheStreamNoControlBytes) {
  ASSERT_TRUE(log_.Open(directory_ / "stream").ok());
  log_.Say("caf\xc3\xa9\x1b[31m\xff", /*is_quiet=*/false);
  EXPECT_EQ(LogText(), "hvdray: caf???[31m?\n");
  EXPECT_EQ(Whole(directory_ / "stream"),
            Record(RecordKind::kStderr, "hvdray: caf\xc3\xa9\\xff\n"));
}

TEST_F(RayLaunchLogTest, WhatWasSaidBeforeThereWasAStreamComesFirst) {
  log_.Say("one", false);
  log_.Say("two", /*is_quiet=*/true);
  ASSERT_TRUE(log_.Open(directory_ / "stream").ok());
  log_.Note("three");
  log_.Print("four");
  EXPECT_EQ(Whole(directory_ / "stream"),
            Record(RecordKind::kStderr, "hvdray: one\n") + Record(RecordKind::kStderr, "four\n"));
  EXPECT_EQ(LogText(), "hvdray: one\nhvdray: two\nhvdray: three\n");
}

TEST_F(RayLaunchLogTest, MessagesOfASessionSayHowManyBytesCameBefore) {
  ASSERT_TRUE(log_.Open(directory_ / "stream").ok());
  EXPECT_TRUE(log_.Control("one\n").ok());
  log_.Print("aside");
  EXPECT_TRUE(log_.Control("two\n").ok());
  EXPECT_EQ(Whole(directory_ / "stream"),
            Record(RecordKind::kControl, FormatControl(0, "one\n")) +
                Record(RecordKind::kStderr, "aside\n") +
                Record(RecordKind::kControl, FormatControl(4, "two\n")));
}

TEST_F(RayLaunchLogTest, TheLastRecordSaysHowTheJobEnded) {
  ASSERT_TRUE(log_.Open(directory_ / "stream").ok());
  EXPECT_TRUE(log_.End(0, Status()).ok());
  EXPECT_EQ(Whole(directory_ / "stream"),
            Record(RecordKind::kEnd, R"({"exit_code":0,"error":null})"));
  ASSERT_TRUE(log_.Open(directory_ / "other").ok());
  EXPECT_TRUE(log_.End(125, {ErrorCode::kNoCapacity, "no room", "wait"}).ok());
  EXPECT_NE(Whole(directory_ / "other").find(R"("exit_code":125,"error":{"code":"HVD-E0208")"),
            std::string::npos);
}

TEST_F(RayLaunchLogTest, TheStreamIsTheUsersOwnAndALinkInItsPlaceGoes) {
  ASSERT_TRUE(log_.Open(directory_ / "stream").ok());
  struct stat info {};
  ASSERT_EQ(::stat((directory_ / "stream").c_str(), &info), 0);
  EXPECT_EQ(info.st_mode & 0777, 0600U);
  ASSERT_EQ(::symlink("stream", (directory_ / "link").c_str()), 0);
  ASSERT_TRUE(log_.Open(directory_ / "link").ok());
  ASSERT_EQ(::lstat((directory_ / "link").c_str(), &info), 0);
  EXPECT_TRUE(S_ISREG(info.st_mode)) << "the file that it led to is left alone";
  EXPECT_EQ(RayLaunchLog(log_fd_.get()).Open("/nowhere/stream").code(), ErrorCode::kFileUnwritable);
}

TEST_F(RayLaunchLogTest, WithoutAStreamTheEndIsNoLoss) {
  EXPECT_TRUE(log_.End(125, {ErrorCode::kRayFailed, "x"}).ok());
}

}  // namespace
}  // namespace hvdray
