// SPDX-License-Identifier: Apache-2.0
#include "base/path_walk.h"

#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <filesystem>

#include "base/file.h"
#include "tests/fakes/other_user.h"
#include "tests/fakes/temp_directory.h"

namespace hvdray {
namespace {

class PathWalkTest : public testing::Test {
 protected:
  void SetUp() override {
    if (::geteuid() != 0) GTEST_SKIP() << "only root can give files away";
    ASSERT_EQ(::chmod(temp_.path().c_str(), 0755), 0);
  }
  std::string Make(const std::string& name, mode_t mode) const {
    std::string path = temp_ / name;
    HVDRAY_CHECK(MakeDirs(path).ok());
    HVDRAY_CHECK(::chmod(path.c_str(), mode) == 0);
    return path;
  }
  // What is wrong with the directory; empty: nothing.
  std::string FaultOf(const std::string& path, std::optional<mode_t> create_mode = {}) const {
    PathFault fault;
    if (WalkToDirectory(path, WalkRule::kOwnDirectories, create_mode, fault)) return "";
    EXPECT_EQ(fault.error, 0) << fault.what;
    return std::string(fault.what) + " " + fault.path;
  }

  TempDirectory temp_;
};

TEST_F(PathWalkTest, ADirectoryOfAnotherUserIsNotTrustedNorIsAnythingBelow) {
  const std::string theirs = Make("theirs", 0755);
  Make("theirs/ours", 0755);
  GiveAway(theirs);
  EXPECT_EQ(FaultOf(theirs), "another user owns " + theirs);
  EXPECT_EQ(FaultOf(theirs + "/ours"), "another user owns " + theirs);
}

TEST_F(PathWalkTest, ADirectoryThatOthersMayWriteToIsNotTrustedUnlessItIsStickyAndOnTheWay) {
  const std::string open = Make("open", 0777);
  const std::string below = Make("open/below", 0755);
  const std::string fault = "other users may write to " + open;
  EXPECT_EQ(FaultOf(open), fault);
  EXPECT_EQ(FaultOf(below), fault);
  ASSERT_EQ(::chmod(open.c_str(), 01777), 0);
  for (const char* end : {"", "/", "/.", "/below/.."}) {
    EXPECT_TRUE(FaultOf(open + end).starts_with(fault)) << FaultOf(open + end);
  }
  EXPECT_EQ(FaultOf(below), "");
}

TEST_F(PathWalkTest, AGroupsDirectoryIsNotTrustedUnlessTheGroupIsPrivate) {
  const std::string shared = Make("shared", 0775);
  ASSERT_EQ(::chown(shared.c_str(), 0, kOtherUser), 0);
  EXPECT_NE(FaultOf(shared), "");
  struct stat info {};
  ASSERT_EQ(::stat(shared.c_str(), &info), 0);
  EXPECT_FALSE(IsOursAlone(info));
  info.st_gid = 0;  // root's own
  EXPECT_TRUE(IsOursAlone(info));
}

TEST_F(PathWalkTest, BelowADirectoryThatOnlyWeCanEnterAnybodyMayWrite) {
  Make("home/job/sub", 0775);
  for (const char* part : {"home/job", "home/job/sub"}) {
    ASSERT_EQ(::chown((temp_ / part).c_str(), 0, kOtherUser), 0);
    ASSERT_EQ(::chmod((temp_ / part).c_str(), 0775), 0);
  }
  ASSERT_EQ(::symlink("../../job/sub", (temp_ / "home/job/sub/again").c_str()), 0);
  const std::string home = temp_ / "home";
  for (const mode_t mode : {0711, 0750, 0701}) {
    ASSERT_EQ(::chmod(home.c_str(), mode), 0);
    EXPECT_EQ(FaultOf(home + "/job/sub"), "other users may write to " + home + "/job") << mode;
  }
  ASSERT_EQ(::chmod(home.c_str(), 0700), 0);
  for (const char* path : {"/job", "/job/sub", "/job/sub/..", "/job/sub/again", "/job/../job"}) {
    EXPECT_EQ(FaultOf(home + path), "") << path;
  }
  Make("home/job/theirs", 0755);
  GiveAway(home + "/job/theirs");
  EXPECT_EQ(FaultOf(home + "/job/theirs"), "another user owns " + home + "/job/theirs")
      << "a container may have it mounted";
}

TEST_F(PathWalkTest, TheWayOutOfADirectoryThatOnlyWeCanEnterIsCheckedAgain) {
  const std::string open = Make("open", 0777);
  const std::string home = Make("home", 0700);
  const std::string fault = "other users may write to " + open;
  ASSERT_EQ(::symlink("../open", (home + "/relative").c_str()), 0);
  ASSERT_EQ(::symlink(open.c_str(), (home + "/absolute").c_str()), 0);
  for (const char* path : {"/relative", "/absolute", "/../open", "/./../home/../open"}) {
    EXPECT_TRUE(FaultOf(home + path).starts_with("other users may write to ")) << path;
  }
}

TEST_F(PathWalkTest, RootsGroupIsPrivateToEveryUser) {
  struct stat info {};
  info.st_mode = S_IFDIR | 0775;
  EXPECT_TRUE(IsOursAlone(info));
  ASSERT_EQ(::seteuid(kOtherUser), 0);  // without a name, as in a container of OpenShift
  const bool is_ours_alone = IsOursAlone(info);
  ASSERT_EQ(::seteuid(0), 0);
  EXPECT_TRUE(is_ours_alone);
}

TEST_F(PathWalkTest, MissingDirectoriesAreMadeInOwnDirectoriesOnly) {
  EXPECT_EQ(FaultOf(temp_ / "a/b/c", 0750), "");
  struct stat info {};
  ASSERT_EQ(::stat((temp_ / "a/b").c_str(), &info), 0);
  EXPECT_EQ(info.st_mode & 0777, 0750U);
  const std::string theirs = Make("theirs", 0777);
  GiveAway(theirs);
  EXPECT_NE(FaultOf(theirs + "/new", 0755), "");
  EXPECT_FALSE(std::filesystem::exists(theirs + "/new"));
}

TEST_F(PathWalkTest, LinksOfAnotherUserAreFollowedOnlyWhereNobodyElseCouldPutThem) {
  const std::string target = Make("target", 0755);
  for (const auto& [name, mode] : {std::pair("sticky", 01777), std::pair("closed", 0755)}) {
    const std::string link = Make(name, mode) + "/link";
    ASSERT_EQ(::symlink(target.c_str(), link.c_str()), 0);
    EXPECT_EQ(FaultOf(link), "");
    GiveAway(link);
    EXPECT_EQ(FaultOf(link).empty(), mode == 0755) << FaultOf(link);
  }
}

TEST_F(PathWalkTest, WaysThroughLinksAndDotsEndWhereTheKernelEnds) {
  Make("a/b", 0755);
  ASSERT_EQ(::symlink("b", (temp_ / "a/relative").c_str()), 0);
  ASSERT_EQ(::symlink("../a/./relative/", (temp_ / "a/further").c_str()), 0);
  ASSERT_EQ(::symlink("loop", (temp_ / "loop").c_str()), 0);
  PathFault fault;
  struct stat expected {};
  struct stat reached {};
  for (const char* path : {"a/further", "a/relative/..", "a/b/../further/.", "a//b/", "."}) {
    const auto end = WalkToDirectory(temp_ / path, WalkRule::kOwnDirectories, std::nullopt, fault);
    ASSERT_TRUE(end) << path << ": " << fault.what << " " << fault.path;
    ASSERT_EQ(::stat((temp_ / path).c_str(), &expected), 0) << path;
    ASSERT_EQ(::fstat(end->directory.get(), &reached), 0) << path;
    EXPECT_EQ(reached.st_ino, expected.st_ino) << path;
  }
  EXPECT_FALSE(WalkToDirectory(temp_ / "loop", WalkRule::kOwnLinks, 0755, fault));
  EXPECT_EQ(fault.error, ELOOP);
  EXPECT_FALSE(WalkToDirectory("", WalkRule::kOwnLinks, 0755, fault));
  EXPECT_EQ(std::filesystem::weakly_canonical(WalkToFile(temp_ / "a/further/new", fault)->path),
            temp_ / "a/b/new");
  EXPECT_EQ(WalkToFile(temp_ / "a/b/", fault)->name, ".");
}

}  // namespace
}  // namespace hvdray
