#include <gtest/gtest.h>

#include <fstream>

#include "launcher/ray/drive_log.h"
#include "tests/fakes/temp_folder.h"

namespace hvdray {
namespace {

TEST(JobFolderTest, AFileThatIsNoneIsNamed) {
  const TempFolder folder;
  std::ofstream(folder / "job.json") << "{";
  const Result<RayJobFile> job = LoadJob(folder.path());
  ASSERT_FALSE(job.ok());
  EXPECT_NE(job.status().message().find(folder / "job.json"), std::string::npos);
  EXPECT_EQ(LoadJob(folder / "none").status().code(), ErrorCode::kFileUnreadable);
}

}  // namespace
}  // namespace hvdray
