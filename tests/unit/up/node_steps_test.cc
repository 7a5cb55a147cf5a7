// SPDX-License-Identifier: Apache-2.0
#include "cluster/up/node_steps.h"

#include <gtest/gtest.h>
#include <sys/stat.h>

#include <filesystem>
#include <fstream>
#include <set>

#include "cluster/up/node_files.h"
#include "tests/fakes/temp_directory.h"

namespace hvdray {
namespace {

namespace fs = std::filesystem;

ClusterNodeSetup MakeSetup() {
  ClusterNodeSetup setup;
  setup.file_mounts = {{"~/code", "./code"}};
  setup.initialization_commands = {"init"};
  setup.setup_commands = {"one", "two", "three"};
  setup.start_commands = {"ray stop", "ray start --head"};
  return setup;
}

std::vector<std::string> Hashes(const std::vector<NodeStep>& steps) {
  std::vector<std::string> hashes;
  for (const NodeStep& step : steps) hashes.push_back(step.hash);
  return hashes;
}

TEST(NodeStepsTest, StepsStandInRaysOrderWithoutRayStop) {
  const std::vector<NodeStep> steps = StepsOf(MakeSetup(), {.files_hash = "files"});
  ASSERT_EQ(steps.size(), 6U);
  EXPECT_EQ(StepText(steps[0]), "file mounts: ./code to ~/code");
  EXPECT_EQ(StepText(steps[1]), "initialization: init");
  EXPECT_EQ(StepText(steps[3]), "setup 2/3: two");
  EXPECT_EQ(StepText(steps[5]), "start: ray start --head");
  EXPECT_EQ(FirstStart(steps), 5U);
}

TEST(NodeStepsTest, WithoutStartCommandsThereIsNoFirstStart) {
  ClusterNodeSetup setup = MakeSetup();
  setup.start_commands = {"ray stop"};
  EXPECT_EQ(FirstStart(StepsOf(setup, {.files_hash = "files"})), 5U);
  EXPECT_EQ(StepsOf(setup, {.files_hash = "files"}).size(), 5U);
}

TEST(NodeStepsTest, AChangedCommandUndoesExactlyWhatFollows) {
  const std::vector<std::string> record =
      Hashes(StepsOf(MakeSetup(), {.files_hash = "files", .head = "head"}));
  EXPECT_EQ(CountDone(StepsOf(MakeSetup(), {.files_hash = "files", .head = "head"}), record), 6U);
  for (size_t changed = 0; changed < 3; ++changed) {
    ClusterNodeSetup setup = MakeSetup();
    setup.setup_commands[changed] += " changed";
    EXPECT_EQ(CountDone(StepsOf(setup, {.files_hash = "files", .head = "head"}), record),
              2 + changed);
  }
}

TEST(NodeStepsTest, ChangedFilesUndoEverythingAndAnotherHeadOnlyTheStart) {
  const std::vector<std::string> record =
      Hashes(StepsOf(MakeSetup(), {.files_hash = "files", .head = "head"}));
  EXPECT_EQ(CountDone(StepsOf(MakeSetup(), {.files_hash = "others", .head = "head"}), record), 0U);
  EXPECT_EQ(CountDone(StepsOf(MakeSetup(), {.files_hash = "files", .head = "other"}), record), 5U);
}

TEST(NodeStepsTest, ACommandThatMovesToAnotherListIsAnotherStep) {
  ClusterNodeSetup first, second;
  first.initialization_commands = {"same"};
  second.setup_commands = {"same"};
  EXPECT_NE(StepsOf(first, {})[0].hash, StepsOf(second, {})[0].hash);
}

TEST(NodeStepsTest, ARecordThatIsCutShortCountsUpToTheCut) {
  const std::vector<NodeStep> steps = StepsOf(MakeSetup(), {.files_hash = "files"});
  std::vector<std::string> record = Hashes(steps);
  for (size_t length = 0; length <= steps.size(); ++length) {
    record = Hashes(steps);
    record.resize(length);
    EXPECT_EQ(CountDone(steps, record), length);
  }
  record = Hashes(steps);
  record[2] = "torn";
  EXPECT_EQ(CountDone(steps, record), 2U);
}

TEST(NodeStepsTest, AContainerFollowsTheInitializationAndKnowsItsMounts) {
  ClusterNodeSetup setup = MakeSetup();
  setup.file_mounts = {{"~/code", "c"}, {"/opt/x/", "x"}, {"plain", "p"}};
  setup.container = {.image = "image:1", .name = "box", .run_options = {"-v a:b", "--ipc=host"}};
  const std::vector<NodeStep> steps =
      StepsOf(setup, {.files_hash = "files", .host_mounts = "mounts"});
  ASSERT_EQ(steps.size(), 7U);
  EXPECT_EQ(StepText(steps[2]), "container: box from image:1");
  EXPECT_EQ(FindContainer(steps), &steps[2]);
  EXPECT_EQ(steps[2].arguments,
            std::vector<std::string>({"always", "detect", "detect", "image:1", "-v a:b --ipc=host",
                                      "mounts/home/code", "~/code", "mounts/root/opt/x", "/opt/x",
                                      "mounts/home/plain", "~/plain"}));
  EXPECT_EQ(FindContainer(StepsOf(MakeSetup(), {.files_hash = "files"})), nullptr);
}

TEST(NodeStepsTest, WhatAContainerIsStartedWithCountsAndNothingElse) {
  ClusterNodeSetup setup = MakeSetup();
  setup.container = {.image = "image:1", .name = "box"};
  const std::string config =
      FindContainer(StepsOf(setup, {.files_hash = "files", .host_mounts = "mounts"}))->config;
  EXPECT_EQ(
      FindContainer(StepsOf(setup, {.files_hash = "others", .host_mounts = "mounts"}))->config,
      config);
  std::set<std::string> configs = {config};
  for (int i = 0; i < 6; ++i) {
    ClusterNodeSetup other = setup;
    if (i == 0) other.container->image = "image:2";
    if (i == 1) other.container->name = "crate";
    if (i == 2) other.container->run_options = {"--ipc=host"};
    if (i == 3) other.container->is_podman = true;
    if (i == 4) other.container->detects_shm_size = false;
    if (i == 5) other.file_mounts.push_back({"~/more", "m"});
    configs.insert(
        FindContainer(StepsOf(other, {.files_hash = "files", .host_mounts = "mounts"}))->config);
  }
  EXPECT_EQ(configs.size(), 7U);
}

TEST(NodeStepsTest, NoCommandStopsTheRaysOfOthers) {
  ClusterNodeSetup setup;
  setup.initialization_commands = {"ray stop"};
  setup.setup_commands = {"ray stop --force; pip install x"};
  setup.start_commands = {"ray stop", "conda activate ml && ray stop && ray start --head"};
  std::vector<std::string> commands;
  for (const NodeStep& step : StepsOf(setup, {})) commands.push_back(step.command);
  EXPECT_EQ(commands, std::vector<std::string>({"true; pip install x",
                                                "conda activate ml && true && ray start --head"}));
}

class MountsTest : public ::testing::Test {
 protected:
  void Write(const std::string& name, const std::string& text) {
    const fs::path path = fs::path(directory_.path()) / name;
    fs::create_directories(path.parent_path());
    std::ofstream(path) << text;
  }
  ClusterNodeSetup Mounting(const std::string& remote, const std::string& local) {
    ClusterNodeSetup setup;
    setup.file_mounts = {{remote, directory_.path() + "/" + local}};
    return setup;
  }
  Result<std::vector<SyncedDirectory>> Plan(const ClusterNodeSetup& setup) {
    return PlanMounts(setup, directory_.path(), directory_.path() + "/renamed");
  }
  std::string HashOf(const ClusterNodeSetup& setup) {
    const auto planned = Plan(setup);
    EXPECT_TRUE(planned.ok()) << planned.status().ToString();
    const auto hash = HashFiles(*planned);
    EXPECT_TRUE(hash.ok());
    return *hash;
  }
  TempDirectory directory_;
};

TEST_F(MountsTest, ADirectoryGoesToItsTargetBelowTheHome) {
  Write("code/a.py", "a");
  Write("code/sub/b.py", "b");
  const auto planned = Plan(Mounting("~/code/", "code"));
  ASSERT_TRUE(planned.ok());
  EXPECT_EQ((*planned)[0].target, "code");
  EXPECT_EQ((*planned)[0].listing.files, 2U);
}

TEST_F(MountsTest, WithAContainerFilesGoBelowItsMounts) {
  Write("code/a.py", "a");
  const std::string mounts = HostMounts("c");
  const auto planned =
      PlanMounts(Mounting("~/code/", "code"), directory_.path(), directory_.path() + "/r", mounts);
  ASSERT_TRUE(planned.ok());
  EXPECT_EQ((*planned)[0].target, ".hvdray/clusters/c/mounts/home/code");
  const auto absolute = PlanMounts(Mounting("/opt/a.py", "code/a.py"), directory_.path(),
                                   directory_.path() + "/r", mounts);
  ASSERT_TRUE(absolute.ok());
  EXPECT_EQ((*absolute)[0].target, ".hvdray/clusters/c/mounts/root/opt");
}

TEST_F(MountsTest, AFileComesAloneAndUnderItsNameThere) {
  Write("code/a.py", "a");
  Write("code/b.py", "b");
  auto planned = Plan(Mounting("/opt/x/a.py", "code/a.py"));
  ASSERT_TRUE(planned.ok()) << planned.status().ToString();
  EXPECT_EQ((*planned)[0].target, "/opt/x");
  ASSERT_EQ((*planned)[0].listing.entries.size(), 1U);
  EXPECT_EQ((*planned)[0].listing.entries[0].path, "a.py");

  planned = Plan(Mounting("~/c.py", "code/b.py"));
  ASSERT_TRUE(planned.ok()) << planned.status().ToString();
  EXPECT_EQ((*planned)[0].target, "");
  ASSERT_EQ((*planned)[0].listing.entries.size(), 1U);
  EXPECT_EQ((*planned)[0].listing.entries[0].path, "c.py");
}

TEST_F(MountsTest, ExcludesAndFiltersLeaveFilesOut) {
  Write("code/a.py", "a");
  Write("code/a.pyc", "a");
  Write("code/big.bin", "b");
  Write("code/.filter", "*.bin\n");
  ClusterNodeSetup setup = Mounting("~/code", "code");
  setup.rsync_exclude = {"*.pyc"};
  setup.rsync_filter = {".filter"};
  const auto planned = Plan(setup);
  ASSERT_TRUE(planned.ok());
  EXPECT_EQ((*planned)[0].listing.files, 2U);  // a.py and .filter
}

TEST_F(MountsTest, PatternsMeanWhatRsyncMeansByThem) {
  for (const char* path : {"code/.git/HEAD", "code/sub/logs/a.log", "code/logs/b.txt",
                           "code/data/x", "code/data/deep/y", "code/a.py"}) {
    Write(path, "x");
  }
  ClusterNodeSetup setup = Mounting("~/code", "code");
  setup.rsync_exclude = {"data/**", "logs/*.log"};
  const auto planned = Plan(setup);
  ASSERT_TRUE(planned.ok()) << planned.status().ToString();
  std::string paths;
  for (const auto& entry : (*planned)[0].listing.entries) paths += entry.path + " ";
  EXPECT_EQ(paths, ".git .git/HEAD a.py data logs logs/b.txt sub sub/logs ");
}

TEST_F(MountsTest, AFileOntoADirectoryGoesIntoIt) {
  Write("a.py", "x");
  for (const char* remote : {"~/lib/", "~", "/opt/lib/"}) {
    const auto planned = Plan(Mounting(remote, "a.py"));
    ASSERT_TRUE(planned.ok()) << planned.status().ToString();
    EXPECT_EQ((*planned)[0].listing.entries[0].path, "a.py") << remote;
  }
  EXPECT_EQ((*Plan(Mounting("~/lib/", "a.py")))[0].target, "lib");
  EXPECT_EQ((*Plan(Mounting("~", "a.py")))[0].target, "");
  // Whether ~/lib is a directory, the host knows.
  const wire::DirectoryEntry entry = (*Plan(Mounting("~/lib", "a.py")))[0].listing.entries[0];
  EXPECT_EQ(entry.kind, wire::DirectoryEntryKind::kFileOrInto);
  EXPECT_EQ(entry.path + " " + entry.link, "lib a.py");
  // With a container the place on the host is ours alone: a file that is mounted.
  const std::string top = directory_.path();
  const auto mounted = PlanMounts(Mounting("~/lib", "a.py"), top, top + "/renamed", "mounts");
  ASSERT_TRUE(mounted.ok()) << mounted.status().ToString();
  EXPECT_EQ((*mounted)[0].target, "mounts/home");
  EXPECT_EQ((*mounted)[0].listing.entries[0].kind, wire::DirectoryEntryKind::kFile);
}

TEST_F(MountsTest, ALinkToAFileComesAsAFileUnderItsOwnName) {
  Write("data/v3.csv", "x");
  fs::create_symlink("data/v3.csv", directory_.path() + "/latest.csv");
  for (const auto* remote : {"~/in/", "~/in/latest.csv"}) {
    ClusterNodeSetup setup = Mounting(remote, "latest.csv");
    setup.rsync_exclude = {"v*.csv"};
    const auto planned = Plan(setup);
    ASSERT_TRUE(planned.ok()) << planned.status().ToString();
    ASSERT_EQ((*planned)[0].listing.entries.size(), 1U) << remote;
    EXPECT_EQ((*planned)[0].listing.entries[0].path, "latest.csv") << remote;
    EXPECT_EQ((*planned)[0].listing.entries[0].size, 1U);
    EXPECT_FALSE(HashOf(setup).empty());
  }
}

TEST_F(MountsTest, AFileThatIsExcludedIsNotCopied) {
  Write("a.py", "x");
  ClusterNodeSetup setup = Mounting("~/a.py", "a.py");
  setup.rsync_exclude = {"*.py"};
  EXPECT_TRUE((*Plan(setup))[0].listing.entries.empty());
}

TEST_F(MountsTest, AFileNameIsNoPattern) {
  Write("a[1].py", "x");
  const auto planned = Plan(Mounting("~/a[1].py", "a[1].py"));
  ASSERT_TRUE(planned.ok()) << planned.status().ToString();
  EXPECT_EQ((*planned)[0].listing.files, 1U);
}

TEST_F(MountsTest, AMissingFileIsNamedWithItsMount) {
  const auto planned = Plan(Mounting("~/code", "nowhere"));
  ASSERT_FALSE(planned.ok());
  EXPECT_EQ(planned.status().code(), ErrorCode::kFileUnreadable);
  EXPECT_NE(planned.status().message().find("file_mounts: ~/code"), std::string::npos);
  EXPECT_NE(planned.status().message().find("nowhere"), std::string::npos);
}

TEST_F(MountsTest, TheHashFollowsContentsModesAndNamesButNotTimes) {
  Write("code/a.py", "a");
  const ClusterNodeSetup setup = Mounting("~/code", "code");
  const std::string before = HashOf(setup);
  const fs::path file = fs::path(directory_.path()) / "code/a.py";
  fs::last_write_time(file, fs::last_write_time(file) - std::chrono::hours(5));
  EXPECT_EQ(HashOf(setup), before);
  ASSERT_EQ(::chmod(file.c_str(), 0755), 0);
  const std::string executable = HashOf(setup);
  EXPECT_NE(executable, before);
  Write("code/a.py", "b");
  EXPECT_NE(HashOf(setup), executable);
  const std::string changed = HashOf(setup);
  fs::rename(file, file.string() + "c");
  EXPECT_NE(HashOf(setup), changed);
  EXPECT_NE(HashOf(Mounting("~/elsewhere", "code")), HashOf(setup));
}

}  // namespace
}  // namespace hvdray
