// SPDX-License-Identifier: Apache-2.0
#include "base/distinct_files.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <vector>

#include "base/fd.h"
#include "base/file.h"
#include "tests/fakes/temp_directory.h"

namespace hvdray {
namespace {

using Files = std::vector<NamedFile>;

TEST(CheckDistinctTest, NoOutputIsAnInputByAnyOfItsNames) {
  const TempDirectory temp;
  ASSERT_TRUE(WriteFileAtomically(temp / "job.yaml", "job").ok());
  std::filesystem::create_symlink("job.yaml", temp / "link");
  std::filesystem::create_symlink("link", temp / "far");
  std::filesystem::create_hard_link(temp / "job.yaml", temp / "hard");
  std::filesystem::create_directory_symlink(temp.path(), temp / "folder");
  const UniqueFd open_one(::open((temp / "hard").c_str(), O_RDWR | O_CLOEXEC));
  const Files inputs = {LookAtFile("-f", temp / "other"), LookAtFile("-f", temp / "job.yaml")};
  for (const std::string& name :
       {temp / "job.yaml", temp / "./job.yaml", temp / "link", temp / "far", temp / "hard",
        temp / "folder/hard", "/dev/fd/" + std::to_string(open_one.get())}) {
    const Status status = CheckDistinct(Files{LookAtFile("--report", name)}, inputs);
    EXPECT_EQ(status.code(), ErrorCode::kUsage) << name;
    EXPECT_EQ(status.message(), "-f and --report name the same file '" + name + "'");
  }
  for (const char* name : {"new", "other"}) {
    EXPECT_TRUE(CheckDistinct(Files{LookAtFile("--report", temp / name)}, inputs).ok()) << name;
  }
}

TEST(CheckDistinctTest, NoFileIsWrittenTwiceButStreamsAre) {
  const TempDirectory temp;
  ASSERT_TRUE(WriteFileAtomically(temp / "old", "").ok());
  std::filesystem::create_hard_link(temp / "old", temp / "hard");
  const auto check = [](const std::string& one, const std::string& other) {
    return CheckDistinct(Files{LookAtFile("--report", one), LookAtFile("--trace", other)}, {});
  };
  EXPECT_EQ(check(temp / "new", temp / "./new").code(), ErrorCode::kUsage);
  EXPECT_EQ(check(temp / "old", temp / "hard").code(), ErrorCode::kUsage);
  EXPECT_TRUE(check(temp / "old", temp / "new").ok());
  for (const char* many : {"", "/dev/null", "/dev/stdout"}) EXPECT_TRUE(check(many, many).ok());
  const UniqueFd file(::open((temp / "old").c_str(), O_RDWR | O_CLOEXEC));
  const std::string stream = "/dev/fd/" + std::to_string(file.get());
  EXPECT_TRUE(check(stream, stream).ok()) << "it is appended to";
  EXPECT_EQ(check(stream, temp / "old").code(), ErrorCode::kUsage);
}

TEST(CheckDistinctTest, InputsMayBeOneFileAndNoFileIsNoConflict) {
  const TempDirectory temp;
  ASSERT_TRUE(WriteFileAtomically(temp / "both", "").ok());
  const Files inputs = {LookAtFile("-f", temp / "both"), LookAtFile("--cluster", temp / "both"),
                        LookAtFile("the program", temp.path()), LookAtFile("--hostfile", "")};
  EXPECT_TRUE(CheckDistinct({}, inputs).ok());
  EXPECT_TRUE(CheckDistinct(Files{LookAtFile("--report", "")}, inputs).ok());
}

}  // namespace
}  // namespace hvdray
