#include "cmd/drive/job_folder.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <string>

#include "tests/fakes/temp_folder.h"

namespace hvdray {
namespace {

std::string JobText(const std::string& id) {
  RayJobFile job;
  job.job_id = id;
  job.key = std::string(64, 'a');
  return RayJobFileText(job);
}

TEST(JobFolderTest, TheFirstFolderOfThePathThatHasThePackageCounts) {
  const TempFolder folder;
  for (const char* name : {"one", "two", "three"}) {
    std::filesystem::create_directories(folder / name);
  }
  for (const char* name : {"two", "three"}) {
    std::filesystem::create_directories(folder / name + "/hvdray_job");
    std::ofstream(folder / name + "/hvdray_job/job.json") << JobText(name);
  }
  const Result<RayJobFile> job = LoadJobOf(":/nowhere:" + (folder / "one") + ":" +
                                           (folder / "two") + ":" + (folder / "three"));
  ASSERT_TRUE(job.ok()) << job.status().ToString();
  EXPECT_EQ(job->job_id, "two");
  EXPECT_EQ(std::filesystem::status(folder / "two/hvdray_job/job.json").permissions(),
            std::filesystem::perms::owner_read | std::filesystem::perms::owner_write);
}

TEST(JobFolderTest, WithoutThePackageTheErrorNamesIt) {
  const TempFolder folder;
  for (const std::string& path : {std::string(), folder.path(), std::string(":::")}) {
    const Result<RayJobFile> job = LoadJobOf(path);
    ASSERT_FALSE(job.ok());
    EXPECT_EQ(job.status().code(), ErrorCode::kFileUnreadable);
    EXPECT_NE(job.status().message().find("hvdray_job/job.json"), std::string::npos);
  }
}

TEST(JobFolderTest, AFileThatIsNoneIsNamed) {
  const TempFolder folder;
  std::filesystem::create_directories(folder / "hvdray_job");
  std::ofstream(folder / "hvdray_job/job.json") << "{";
  const Result<RayJobFile> job = LoadJobOf(folder.path());
  ASSERT_FALSE(job.ok());
  EXPECT_NE(job.status().message().find("hvdray_job/job.json"), std::string::npos);
  EXPECT_EQ(LoadJob(folder / "none").status().code(), ErrorCode::kFileUnreadable);
}

}  // namespace
}  // namespace hvdray
