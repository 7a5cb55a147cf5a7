// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <fstream>

#include "cluster/ray/ray_launch_log.h"
#include "tests/fakes/temp_directory.h"

namespace hvdray {
namespace {

TEST(JobDirectoryTest, AFileThatIsNoneIsNamed) {
  const TempDirectory directory;
  std::ofstream(directory / "job.json") << "{";
  const Result<RayJobFile> job = LoadJob(directory.path());
  ASSERT_FALSE(job.ok());
  EXPECT_NE(job.status().message().find(directory / "job.json"), std::string::npos);
  EXPECT_EQ(LoadJob(directory / "none").status().code(), ErrorCode::kFileUnreadable);
}

TEST(JobDirectoryTest, MostJobsHaveNoClientOfASession) {
  const TempDirectory directory;
  const Result<UniqueFd> none = OpenControl(directory.path());
  ASSERT_TRUE(none.ok()) << none.status().ToString();
  EXPECT_FALSE(none->is_valid());
  std::ofstream(directory / "control") << "x";
  const Result<UniqueFd> control = OpenControl(directory.path());
  ASSERT_TRUE(control.ok()) << control.status().ToString();
  EXPECT_TRUE(control->is_valid());
  ASSERT_EQ(::unlink((directory / "control").c_str()), 0);
  ASSERT_EQ(::mkdir((directory / "control").c_str(), 0700), 0);
  EXPECT_EQ(OpenControl(directory.path()).status().code(), ErrorCode::kFileUnreadable);
}

}  // namespace
}  // namespace hvdray
