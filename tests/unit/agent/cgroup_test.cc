// SPDX-License-Identifier: Apache-2.0
#include "agent/cgroup.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>

#include "base/exec.h"
#include "base/fd.h"
#include "base/file.h"
#include "tests/fakes/other_user.h"
#include "tests/fakes/temp_directory.h"
#include "tests/unit/agent/probe.h"
#include "tests/unit/agent/process_scan.h"

namespace hvdray {
namespace {

constexpr char kHybrid[] =
    "31 23 0:28 / /sys/fs/cgroup rw - tmpfs tmpfs rw,mode=755\n"
    "35 31 0:32 / /sys/fs/cgroup/memory rw,relatime shared:5 - cgroup cgroup rw,memory\n"
    "41 31 0:38 / /sys/fs/cgroup/unified rw,relatime - cgroup2 cgroup2 rw\n";
constexpr char kUnified[] = "30 24 0:26 / /sys/fs/cgroup rw,nosuid shared:4 - cgroup2 cg rw,nsd\n";

TEST(FindCgroupDirectoryTest, UnifiedAndHybridMountsAreFound) {
  EXPECT_EQ(FindCgroupDirectory(kUnified, "0::/user.slice/a\n"), "/sys/fs/cgroup/user.slice/a");
  EXPECT_EQ(FindCgroupDirectory(kHybrid, "8:memory:/x\n0::/\n"), "/sys/fs/cgroup/unified");
}

TEST(FindCgroupDirectoryTest, PathCountsFromTheRootOfTheMount) {
  constexpr char kContainer[] = "30 24 0:26 /docker/abc /sys/fs/cgroup ro - cgroup2 cgroup rw\n";
  EXPECT_EQ(FindCgroupDirectory(kContainer, "0::/docker/abc\n"), "/sys/fs/cgroup");
  EXPECT_EQ(FindCgroupDirectory(kContainer, "0::/docker/abc/x\n"), "/sys/fs/cgroup/x");
  EXPECT_EQ(FindCgroupDirectory(kContainer, "0::/docker/abcd\n"), std::nullopt);
  EXPECT_EQ(FindCgroupDirectory(kContainer, "0::/other\n"), std::nullopt);
}

TEST(FindCgroupDirectoryTest, GroupOutsideOfTheNamespaceIsNotOurs) {
  EXPECT_EQ(FindCgroupDirectory(kUnified, "0::/../other\n"), std::nullopt);
  EXPECT_EQ(FindCgroupDirectory(kUnified, "0::/a/..\n"), std::nullopt);
}

TEST(FindCgroupDirectoryTest, EscapedMountPointsAreRead) {
  EXPECT_EQ(FindCgroupDirectory("1 2 0:3 / /a\\040b\\134 rw - cgroup2 c rw\n", "0::/x\n"),
            "/a b\\/x");
}

TEST(FindCgroupDirectoryTest, NonsenseIsNowhere) {
  for (const char* mounts :
       {"", "\n\n", "1 2 3", "1 2 0:3 / /x rw - cgroup2", " - cgroup2 a b\n"}) {
    EXPECT_EQ(FindCgroupDirectory(mounts, "0::/\n"), std::nullopt) << mounts;
  }
  for (const char* groups : {"", "0", "0:", "1::/x\n", "0:cpu:/x\n", ":::\n"}) {
    EXPECT_EQ(FindCgroupDirectory(kUnified, groups), std::nullopt) << groups;
  }
}

TEST(FindV1DirectoryTest, MemoryHierarchyIsFoundByItsOption) {
  EXPECT_EQ(FindV1Directory("memory", kHybrid, "8:memory:/job\n0::/\n"),
            "/sys/fs/cgroup/memory/job");
  EXPECT_EQ(FindV1Directory("memory", kHybrid, "8:cpu,memory:/job\n"), "/sys/fs/cgroup/memory/job");
  EXPECT_EQ(FindV1Directory("memory", kUnified, "0::/\n"), std::nullopt);
}

TEST(FindV1DirectoryTest, AControllerIsFoundBesideOthers) {
  constexpr char kTogether[] =
      "9 1 0:9 /docker/a /sys/fs/cgroup/cpu ro - cgroup c rw,cpuacct,cpu\n";
  EXPECT_EQ(FindV1Directory("cpu", kTogether, "4:cpuset:/y\n3:cpuacct,cpu:/docker/a/b\n"),
            "/sys/fs/cgroup/cpu/b");
}

/// A hierarchy whose groups are directories.
class CpuQuotaTest : public testing::Test {
 protected:
  /// Of "a", or "a/b": adds the group, and `text` as its file `name`.
  void Write(const std::string& group, const std::string& name, const std::string& text) {
    const std::string path = directory_ / group;
    std::filesystem::create_directories(path);
    ASSERT_TRUE(WriteFileAtomically(path + "/cgroup.procs", "").ok());
    ASSERT_TRUE(WriteFileAtomically(path + "/" + name, text).ok());
  }
  std::optional<uint32_t> Quota(const std::string& group) { return CpuQuota(directory_ / group); }
  TempDirectory directory_;
};

TEST_F(CpuQuotaTest, OfBothVersionsIsRoundedUp) {
  for (const auto& [quota, cpus] : std::vector<std::pair<std::string, std::optional<uint32_t>>>{
           {"150000", 2},
           {"200000", 2},
           {"200001", 3},
           {"1000", 1},
           {"99999999999999", 999999999 + 1}}) {
    Write("v2", "cpu.max", quota + " 100000\n");
    EXPECT_EQ(Quota("v2"), cpus) << quota;
    Write("v1", "cpu.cfs_quota_us", quota + "\n");
    Write("v1", "cpu.cfs_period_us", "100000\n");
    EXPECT_EQ(Quota("v1"), cpus) << quota;
  }
}

TEST_F(CpuQuotaTest, TheLeastOfTheGroupsAboveCounts) {
  Write("a", "cpu.max", "300000 100000\n");
  Write("a/b", "cpu.stat", "");  // the controller is off
  Write("a/b/c", "cpu.max", "max 100000\n");
  EXPECT_EQ(Quota("a/b/c"), 3U);
  EXPECT_EQ(Quota("a/b"), 3U);
  Write("a/b/c", "cpu.max", "50000 100000\n");
  EXPECT_EQ(Quota("a/b/c"), 1U);
}

TEST_F(CpuQuotaTest, WhatIsNoLimitIsNone) {
  for (const char* text : {"max 100000\n", "-1 100000\n", "", "150000", "x 1", "1 0", "0 1"}) {
    Write("a", "cpu.max", text);
    EXPECT_EQ(Quota("a"), std::nullopt) << text;
  }
  Write("b", "cpu.cfs_quota_us", "-1\n");
  Write("b", "cpu.cfs_period_us", "100000\n");
  EXPECT_EQ(Quota("b"), std::nullopt);
  EXPECT_EQ(CpuQuota("/no/such/group"), std::nullopt);
  EXPECT_EQ(CpuQuota(""), std::nullopt);
}

TEST(ParseOomKillsTest, BothFileFormatsAreRead) {
  EXPECT_EQ(ParseOomKills("low 0\nhigh 0\nmax 3\noom 2\noom_kill 7\noom_group_kill 1\n"), 7U);
  EXPECT_EQ(ParseOomKills("oom_kill_disable 0\nunder_oom 0\noom_kill 2\n"), 2U);
  EXPECT_EQ(ParseOomKills("oom_kill_disable 9\n"), 0U);
  EXPECT_EQ(ParseOomKills("oom_kill x\n"), 0U);
  EXPECT_EQ(ParseOomKills(""), 0U);
}

TEST(AgentCgroupDirectoryTest, NameIsAFixedRule) {
  EXPECT_EQ(AgentCgroupDirectory("/x", 42), AgentCgroupDirectory("/x", 42));
  EXPECT_NE(AgentCgroupDirectory("/x", 42), AgentCgroupDirectory("/x", 43));
  EXPECT_TRUE(AgentCgroupDirectory("/x", 42).starts_with("/x/hvdray-"));
}

TEST(OomWatchTest, NothingIsClaimedWithoutAKill) {
  OomWatch watch("");
  EXPECT_FALSE(watch.ClaimKill());
  EXPECT_FALSE(OomWatch("/no/such/folder").ClaimKill());
}

// Starts a probe that first enters the group with this cgroup.procs.
pid_t StartIn(const std::string& procs, std::vector<std::string> words) {
  const std::vector<std::string> command = ProbeCommand(std::move(words));
  const std::vector<char*> argv = ExecArray(command);
  const pid_t pid = ::fork();
  if (pid != 0) return pid;
  const int fd = ::open(procs.c_str(), O_WRONLY);
  if (::write(fd, "0", 1) != 1) ::_exit(96);
  ::execv(argv[0], argv.data());
  ::_exit(95);
}

class RealCgroupTest : public ::testing::Test {
 protected:
  void SetUp() override {
    const auto own = OwnCgroupDirectory();
    if (own) directory_ = AgentCgroupDirectory(*own, ::getpid());
    if (directory_.empty() || !Cgroup::Create(directory_ + "/probe").ok()) {
      GTEST_SKIP() << "no cgroup may be made here";
    }
  }
  void TearDown() override {
    if (!directory_.empty()) KillAndRemoveCgroup(directory_);
  }
  bool Exists(const std::string& path) const { return ::access(path.c_str(), F_OK) == 0; }
  std::string directory_;
};

TEST_F(RealCgroupTest, GroupIsRemovedWithItsOwner) {
  {
    const Result<Cgroup> group = Cgroup::Create(directory_ + "/one");
    ASSERT_TRUE(group.ok());
    EXPECT_TRUE(Exists(directory_ + "/one"));
    EXPECT_TRUE(group->Members().empty());
  }
  EXPECT_FALSE(Exists(directory_ + "/one"));
}

TEST_F(RealCgroupTest, EverythingBelowIsKilledAndRemoved) {
  Result<Cgroup> group = Cgroup::Create(directory_ + "/one");
  ASSERT_TRUE(group.ok());
  ASSERT_EQ(::mkdir((directory_ + "/one/nested").c_str(), 0755), 0);
  const pid_t outer = StartIn(directory_ + "/one/cgroup.procs", {"wait"});
  const pid_t inner = StartIn(directory_ + "/one/nested/cgroup.procs", {"wait"});
  ASSERT_TRUE(WaitFor([&] { return group->Members().size() == 2; }));
  EXPECT_TRUE(WaitFor([&] { return group->KillAndRemove(); }));  // dying takes a moment
  for (const pid_t pid : {outer, inner}) {
    int status = 0;
    EXPECT_EQ(::waitpid(pid, &status, 0), pid);
    EXPECT_EQ(WTERMSIG(status), SIGKILL);
  }
  EXPECT_FALSE(Exists(directory_ + "/one"));
}

TEST_F(RealCgroupTest, GroupLeftBehindByADeadAgentIsTakenOver) {
  ASSERT_EQ(::mkdir((directory_ + "/old").c_str(), 0755), 0);
  const Result<Cgroup> group = Cgroup::Create(directory_ + "/old");
  ASSERT_TRUE(group.ok());
  EXPECT_TRUE(group->Members().empty());
}

TEST_F(RealCgroupTest, GroupsOfDeadAgentsAreFoundHereAndBesideUs) {
  const pid_t zombie = ::fork();
  if (zombie == 0) ::_exit(0);
  siginfo_t info{};
  ASSERT_EQ(::waitid(P_PID, static_cast<id_t>(zombie), &info, WEXITED | WNOWAIT), 0);
  const pid_t dead = ::fork();
  if (dead == 0) ::_exit(0);
  ReapChild(dead);
  const std::string beside = directory_ + "/session-1";
  const std::string own = directory_ + "/session-2";
  const std::string elsewhere = beside + "/deeper";
  for (const std::string& group :
       {beside, own, elsewhere, AgentCgroupDirectory(own, dead), AgentCgroupDirectory(beside, dead),
        AgentCgroupDirectory(own, zombie), AgentCgroupDirectory(own, ::getpid()),
        AgentCgroupDirectory(elsewhere, dead)}) {
    ASSERT_EQ(::mkdir(group.c_str(), 0755), 0) << group;
  }
  std::vector<std::string> found = GroupsOfDeadAgents(own);
  std::sort(found.begin(), found.end());
  std::vector<std::string> expected = {AgentCgroupDirectory(beside, dead),
                                       AgentCgroupDirectory(own, dead),
                                       AgentCgroupDirectory(own, zombie)};
  std::sort(expected.begin(), expected.end());
  EXPECT_EQ(found, expected);
  ReapChild(zombie);
}

TEST_F(RealCgroupTest, GroupsOfAnotherUsersDeadAgentsAreNotOurs) {
  if (::geteuid() != 0) GTEST_SKIP() << "only root can become another user";
  const pid_t dead = ::fork();
  if (dead == 0) ::_exit(0);
  ReapChild(dead);
  ASSERT_EQ(::mkdir(AgentCgroupDirectory(directory_, dead).c_str(), 0755), 0);
  ASSERT_EQ(GroupsOfDeadAgents(directory_).size(), 1U) << "the owner's own";
  const pid_t stranger = ::fork();
  if (stranger == 0) {
    if (::setgid(kOtherUser) != 0 || ::setuid(kOtherUser) != 0) ::_exit(2);
    ::_exit(GroupsOfDeadAgents(directory_).empty() ? 0 : 1);
  }
  int status = 0;
  ASSERT_EQ(::waitpid(stranger, &status, 0), stranger);
  EXPECT_EQ(status, 0);
}

TEST_F(RealCgroupTest, WorkersOfAKilledForMemoryAreClaimedOnce) {
  const auto read = [](const char* path) { return ReadFile(path).value(); };
  const auto memory =
      FindV1Directory("memory", read("/proc/self/mountinfo"), read("/proc/self/cgroup"));
  const std::string group = memory ? *memory + "/hvdray-test" : "";
  const std::string limit = group + "/memory.limit_in_bytes";
  if (!memory || ::mkdir(group.c_str(), 0755) != 0) GTEST_SKIP() << "no v1 memory group here";
  const UniqueFd file(::open(limit.c_str(), O_WRONLY | O_CLOEXEC));
  // Room for what a sanitized build of this test writes to between fork and exec.
  ASSERT_TRUE(WriteAll(file.get(), "536870912").ok());
  // The watcher must be in the group it watches: a child that starts the eater itself.
  const pid_t pid = ::fork();
  if (pid == 0) {
    const int procs = ::open((group + "/cgroup.procs").c_str(), O_WRONLY);
    if (::write(procs, "0", 1) != 1) ::_exit(2);
    OomWatch watch("");
    if (watch.ClaimKill()) ::_exit(3);
    const pid_t eater = StartIn("/dev/null", {"eat-memory"});
    int status = 0;
    ::waitpid(eater, &status, 0);
    if (!WIFSIGNALED(status) || WTERMSIG(status) != SIGKILL) ::_exit(4);
    if (!watch.ClaimKill()) ::_exit(5);
    ::_exit(watch.ClaimKill() ? 6 : 0);
  }
  int status = 0;
  ::waitpid(pid, &status, 0);
  EXPECT_TRUE(WIFEXITED(status));
  EXPECT_EQ(WEXITSTATUS(status), 0);
  EXPECT_TRUE(WaitFor([&] { return ::rmdir(group.c_str()) == 0; }));
}

}  // namespace
}  // namespace hvdray
