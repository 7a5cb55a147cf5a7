// SPDX-License-Identifier: Apache-2.0
#include "base/report_file.h"

#include <gtest/gtest.h>

#include <filesystem>

#include "base/fd.h"
#include "base/file.h"
#include "tests/fakes/other_user.h"
#include "tests/fakes/temp_directory.h"

namespace hvdray {
namespace {

TEST(CheckReportPathTest, AcceptsWhatCanBeWrittenAndChangesNothing) {
  const TempDirectory temp;
  ASSERT_TRUE(WriteFileAtomically(temp / "old", "old").ok());
  EXPECT_TRUE(CheckReportPath(temp / "new", "--report").ok());
  EXPECT_TRUE(CheckReportPath(temp / "old", "--report").ok());
  EXPECT_TRUE(CheckReportPath("/dev/null", "--report").ok());
  EXPECT_TRUE(CheckReportPath("/dev/stdout", "--report").ok());
  EXPECT_TRUE(CheckReportPath("", "--report").ok());
  EXPECT_EQ(ReadFile(temp / "old").value(), "old");
  EXPECT_FALSE(ReadFile(temp / "new").ok());
}

TEST(CheckReportPathTest, RefusesByFlagAndPlace) {
  const TempDirectory temp;
  const auto refused = [](const std::string& path) {
    const Status status = CheckReportPath(path, "--junit");
    EXPECT_EQ(status.code(), ErrorCode::kFileUnwritable) << path;
    EXPECT_TRUE(status.message().starts_with("--junit: ")) << status.message();
  };
  refused("/nowhere/report");
  refused(temp.path());
  refused(temp / "no/such");
  refused(temp / "trailing/");
  refused("/dev/fd/987");
  ASSERT_TRUE(WriteFileAtomically(temp / "file", "").ok());
  refused(temp / "file/below");
}

TEST(CheckReportPathTest, AnotherUsersLinkOnTheWayIsRefusedBeforeTheJob) {
  if (::geteuid() != 0) GTEST_SKIP() << "only root can give files away";
  const TempDirectory temp;
  ASSERT_TRUE(MakeDirs(temp / "theirs").ok());
  ASSERT_EQ(::symlink(temp.path().c_str(), (temp / "theirs/link").c_str()), 0);
  for (const char* name : {"theirs", "theirs/link"}) GiveAway(temp / name);
  const Status status = CheckReportPath(temp / "theirs/link/new", "--report");
  EXPECT_EQ(status.code(), ErrorCode::kFileUnwritable);
  EXPECT_NE(status.message().find("--report: another user owns the link"), std::string::npos);
}

TEST(WriteReportFileTest, ReplacesAFileWholeOrNotAtAll) {
  const TempDirectory temp;
  ASSERT_TRUE(WriteFileAtomically(temp / "old", std::string(1000, 'x')).ok());
  ASSERT_TRUE(WriteReportFile(temp / "old", "--json", "new").ok());
  EXPECT_EQ(ReadFile(temp / "old").value(), "new");
  const Status status = WriteReportFile("/dev/full", "--json", "new");
  EXPECT_EQ(status.code(), ErrorCode::kOutputLost);
  EXPECT_TRUE(status.message().starts_with("--json: /dev/full: ")) << status.message();
}

TEST(FileBehindTest, IsTheSameForAllNamesOfAFile) {
  const TempDirectory temp;
  const std::string real = FileBehind(temp / "file");
  EXPECT_FALSE(real.empty());
  EXPECT_EQ(FileBehind(temp / "./file"), real);
  std::filesystem::create_symlink(temp / "file", temp / "link");
  ASSERT_TRUE(WriteFileAtomically(temp / "file", "").ok());
  EXPECT_EQ(FileBehind(temp / "link"), FileBehind(temp / "file"));
  EXPECT_NE(FileBehind(temp / "other"), real);
  for (const char* many : {"", "/dev/null", "/dev/stdout"}) EXPECT_EQ(FileBehind(many), "") << many;
}

}  // namespace
}  // namespace hvdray
