// SPDX-License-Identifier: Apache-2.0
#include "agent/exec_plan.h"

#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>

#include "base/file.h"
#include "tests/fakes/temp_directory.h"

namespace hvdray {
namespace {

class ExecPlanTest : public ::testing::Test {
 protected:
  std::string MakeProgram(const std::string& name, mode_t mode) {
    const std::string path = directory_.path() + "/" + name;
    EXPECT_TRUE(WriteFileAtomically(path, "#!/bin/sh\n").ok());
    EXPECT_EQ(::chmod(path.c_str(), mode), 0);
    return path;
  }
  std::string Subdirectory(const std::string& name) {
    const std::string path = directory_.path() + "/" + name;
    EXPECT_TRUE(MakeDirs(path).ok());
    return path;
  }
  TempDirectory directory_;
};

TEST_F(ExecPlanTest, EmptyCommandAndEmptyNameAreNotFound) {
  EXPECT_EQ(PlanExec({}, "/bin", "").error, ENOENT);
  EXPECT_EQ(PlanExec({}, "/bin", "").argv.size(), 1U);
  EXPECT_EQ(PlanExec({""}, "/bin", "").error, ENOENT);
}

TEST_F(ExecPlanTest, NameWithSlashIsNotSearched) {
  const std::string path = MakeProgram("tool", 0755);
  const ExecPlan plan = PlanExec({path, "x"}, "/nowhere", "");
  EXPECT_EQ(plan.paths, std::vector<std::string>{path});
  EXPECT_TRUE(plan.has_executable);
  EXPECT_EQ(plan.error, 0);
  EXPECT_EQ(PlanExec({"./tool"}, directory_.path(), "").error, ENOENT);
}

TEST_F(ExecPlanTest, SearchKeepsTheOrderOfPathAndLeavesOutWhatIsNotThere) {
  const std::string first = Subdirectory("first");
  const std::string second = Subdirectory("second");
  MakeProgram("first/tool", 0644);
  MakeProgram("second/tool", 0755);
  const ExecPlan plan = PlanExec({"tool"}, first + ":/nowhere:" + second, "");
  EXPECT_EQ(plan.paths, (std::vector<std::string>{first + "/tool", second + "/tool"}));
  EXPECT_TRUE(plan.has_executable);
}

TEST_F(ExecPlanTest, EmptyEntryOfPathIsTheWorkingDirectory) {
  MakeProgram("tool", 0755);
  for (const char* path : {"", ":", "/nowhere:", ":/nowhere"}) {
    const ExecPlan plan = PlanExec({"tool"}, path, directory_.path());
    ASSERT_FALSE(plan.paths.empty()) << path;
    EXPECT_EQ(plan.paths[0], "./tool");
  }
}

TEST_F(ExecPlanTest, RelativeEntryOfPathCountsFromTheWorkingDirectory) {
  Subdirectory("bin");
  MakeProgram("bin/tool", 0755);
  EXPECT_EQ(PlanExec({"tool"}, "bin", directory_.path()).paths,
            std::vector<std::string>{"bin/tool"});
}

TEST_F(ExecPlanTest, UnsetPathMeansTheSystemDirectories) {
  EXPECT_FALSE(PlanExec({"sh"}, std::nullopt, "").paths.empty());
}

TEST_F(ExecPlanTest, PathIsTheWorkersOwn) {
  EXPECT_EQ(PlanExec({"sh"}, "/nowhere", "").error, ENOENT);
}

TEST_F(ExecPlanTest, DirectoryIsNoExecutableAndLeftForExecveToRefuse) {
  Subdirectory("tool");
  const ExecPlan plan = PlanExec({"tool"}, directory_.path(), "");
  EXPECT_EQ(plan.paths.size(), 1U);
  EXPECT_FALSE(plan.has_executable);
}

TEST_F(ExecPlanTest, MissingWorkingDirectoryIsLeftForChdirToName) {
  EXPECT_EQ(PlanExec({"./tool"}, "/bin", "/no/such/folder").paths.size(), 1U);
  EXPECT_EQ(PlanExec({"sh"}, "/bin", MakeProgram("file", 0644)).paths.size(), 1U);
}

TEST_F(ExecPlanTest, FileWhereADirectoryBelongsIsNotFound) {
  const std::string file = MakeProgram("file", 0755);
  EXPECT_EQ(PlanExec({file + "/tool"}, "/bin", "").error, ENOTDIR);
  EXPECT_EQ(PlanExec({"tool"}, file, "").error, ENOENT);
}

TEST(FindPathTest, FirstEntryCountsAndNoEntryIsUnset) {
  EXPECT_EQ(FindPath({"XPATH=/x", "PATH=/a", "PATH=/b"}), "/a");
  EXPECT_EQ(FindPath({"PATH="}), "");
  EXPECT_EQ(FindPath({"PATHS=/a", "PATH"}), std::nullopt);
}

}  // namespace
}  // namespace hvdray
