// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <fstream>

#include "launcher/ray/ray_launch_log.h"
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

}  // namespace
}  // namespace hvdray
