// SPDX-License-Identifier: Apache-2.0
#include "agent/start_directory.h"

#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>

#include "base/file.h"
#include "tests/fakes/other_user.h"
#include "tests/fakes/temp_directory.h"

namespace hvdray {
namespace {

class StartDirectoryTest : public testing::Test {
 protected:
  void SetUp() override {
    if (::geteuid() != 0) GTEST_SKIP() << "only root can give files away";
    ASSERT_EQ(::chmod(temp_.path().c_str(), 0755), 0);
    start_.working_directory = temp_ / "job";
    start_.directory_trust.is_checked = true;
    ASSERT_TRUE(MakeDirs(start_.working_directory).ok());
  }

  TempDirectory temp_;
  wire::StartGeneration start_;
};

TEST_F(StartDirectoryTest, OneThatAnotherUserOwnsOrMayWriteToIsRefused) {
  EXPECT_EQ(SettleStartDirectory(start_), 0);
  GiveAway(start_.working_directory);
  EXPECT_EQ(SettleStartDirectory(start_), EPERM);
  ASSERT_EQ(::chown(start_.working_directory.c_str(), 0, 0), 0);
  ASSERT_EQ(::chmod(start_.working_directory.c_str(), 0777), 0);
  EXPECT_EQ(SettleStartDirectory(start_), EPERM);
  start_.directory_trust.is_checked = false;
  EXPECT_EQ(SettleStartDirectory(start_), 0);
}

TEST_F(StartDirectoryTest, ThoseWhoCanChangeTheLaunchersOwnAreTrusted) {
  GiveAway(start_.working_directory);
  ASSERT_EQ(::chmod(start_.working_directory.c_str(), 0775), 0);
  start_.directory_trust.trustees = TrusteesOf(start_.working_directory);
  EXPECT_EQ(start_.directory_trust.trustees, (Trustees{{kOtherUser}, {kOtherUser}, false}));
  EXPECT_EQ(SettleStartDirectory(start_), 0);
  ASSERT_EQ(::chmod(start_.working_directory.c_str(), 0777), 0);
  EXPECT_EQ(SettleStartDirectory(start_), EPERM);
  start_.directory_trust.trustees = TrusteesOf(start_.working_directory);
  EXPECT_EQ(SettleStartDirectory(start_), 0);
  ASSERT_EQ(::chmod(start_.working_directory.c_str(), 01777), 0);
  start_.directory_trust.trustees = TrusteesOf(start_.working_directory);
  EXPECT_EQ(SettleStartDirectory(start_), EPERM) << "as /tmp: many users' on every machine";
}

TEST_F(StartDirectoryTest, AMissingOneIsLeftToChdirUnlessItIsOptional) {
  start_.working_directory = temp_ / "none";
  EXPECT_EQ(SettleStartDirectory(start_), 0);
  EXPECT_EQ(start_.working_directory, temp_ / "none");
  start_.is_directory_optional = true;
  EXPECT_EQ(SettleStartDirectory(start_), 0);
  EXPECT_EQ(start_.working_directory, "");
}

}  // namespace
}  // namespace hvdray
