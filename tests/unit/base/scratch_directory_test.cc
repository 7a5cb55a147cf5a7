// SPDX-License-Identifier: Apache-2.0
#include "base/scratch_directory.h"

#include <gtest/gtest.h>
#include <stdlib.h>
#include <sys/stat.h>

#include <chrono>
#include <filesystem>
#include <fstream>
#include <optional>

namespace hvdray {
namespace {

namespace fs = std::filesystem;

void Age(const fs::path& path) {
  fs::last_write_time(path, fs::file_time_type::clock::now() - std::chrono::hours(1));
}

TEST(ScratchDirectoryTest, IsRemovedAtTheEndAndByTheNextOneAfterAKill) {
  const fs::path base = fs::path(testing::TempDir()) / "scratch_directories";
  fs::remove_all(base);
  fs::create_directories(base / "test.killed" / "0");
  std::ofstream(base / "test.killed" / "0" / "secret") << "x";
  fs::create_directory(base / "test.young");
  fs::create_directory(base / "other.killed");
  ::setenv("TMPDIR", base.c_str(), 1);
  std::optional<ScratchDirectory> used(ScratchDirectory::Make("test.").value());
  for (const fs::path& path :
       {base / "test.killed", base / "other.killed", fs::path(used->path())}) {
    Age(path);
  }
  struct stat info {};
  ASSERT_EQ(::stat(used->path().c_str(), &info), 0);
  EXPECT_EQ(info.st_mode & 0777, 0700U);
  const ScratchDirectory next = ScratchDirectory::Make("test.").value();
  EXPECT_FALSE(fs::exists(base / "test.killed"));
  EXPECT_TRUE(fs::exists(base / "test.young")) << "perhaps not locked yet";
  EXPECT_TRUE(fs::exists(base / "other.killed"));
  EXPECT_TRUE(fs::exists(used->path())) << "it is locked";
  EXPECT_NE(next.path(), used->path());
  const std::string path = used->path();
  used.reset();
  EXPECT_FALSE(fs::exists(path));
  ::unsetenv("TMPDIR");
}

TEST(ScratchDirectoryTest, WithoutAPlaceForItThereIsNoneThatOthersCouldHaveMade) {
  ::setenv("TMPDIR", "/proc", 1);
  const Result<ScratchDirectory> made = ScratchDirectory::Make("test.");
  ::unsetenv("TMPDIR");
  ASSERT_FALSE(made.ok());
  EXPECT_EQ(made.status().code(), ErrorCode::kFileUnwritable);
  EXPECT_NE(made.status().message().find("/proc"), std::string::npos);
}

}  // namespace
}  // namespace hvdray
