// SPDX-License-Identifier: Apache-2.0
// Which source an elastic job gets, and that it reads what the options say.
#include "launcher/plan/host_sources.h"

#include <gtest/gtest.h>

#include <fstream>
#include <memory>
#include <string>
#include <vector>

#include "tests/fakes/loop_runner.h"
#include "tests/fakes/temp_directory.h"
#include "tests/unit/host_sources/source_log.h"

namespace hvdray {
namespace {

class HostSourcesTest : public testing::Test {
 protected:
  /// Runs the source until it has spoken.
  void Run(const JobSpec& spec) {
    Result<std::unique_ptr<HostSource>> made =
        MakeHostSource(*loop_, spec, [this](std::string_view line) { said_.emplace_back(line); });
    ASSERT_TRUE(made.ok()) << made.status().ToString();
    source_ = std::move(made).value();
    ASSERT_TRUE(source_->Start(log_.handlers()).ok());
    ASSERT_TRUE(RunUntil(*loop_, [&] { return !log_.lists.empty() || !log_.failures.empty(); }));
  }

  std::unique_ptr<Loop> loop_ = std::move(*Loop::Create());
  SourceLog log_;
  std::vector<std::string> said_;
  std::unique_ptr<HostSource> source_;
};

JobSpec ScriptSpec(const std::string& command) {
  JobSpec spec;
  spec.host_discovery_script.Set(command, "test");
  return spec;
}

TEST_F(HostSourcesTest, AScriptHasTheDefaultSlotsAndItsErrorsAreShown) {
  JobSpec spec = ScriptSpec("printf 'one\\ntwo\\033[31m\\n' >&2; echo b; echo a:1");
  spec.slots_per_host.Set(3, "test");
  Run(spec);
  EXPECT_EQ(log_.lists, std::vector<std::string>{"b:3 a:1"});
  EXPECT_FALSE(log_.is_final);
  EXPECT_EQ(said_, (std::vector<std::string>{"discovery: one", "discovery: two\\x1b[31m"}));
}

TEST_F(HostSourcesTest, AScriptKeepsToTheTimeoutOfTheJob) {
  JobSpec spec = ScriptSpec("sleep 60");
  spec.discovery_timeout.Set(std::chrono::milliseconds(50), "test");
  Run(spec);
  ASSERT_EQ(log_.failures.size(), 1U);
  EXPECT_EQ(log_.failures[0].code(), ErrorCode::kDeadlineExceeded);
}

TEST_F(HostSourcesTest, AScriptThatIsNotThereIsNoSource) {
  const auto made = MakeHostSource(*loop_, ScriptSpec("/nowhere/discover"), &SayDiscovery);
  EXPECT_EQ(made.status().code(), ErrorCode::kFileUnreadable);
}

TEST_F(HostSourcesTest, AHostFileIsReadAsForOtherJobsAndMayChange) {
  const TempDirectory directory;
  JobSpec spec;
  spec.hostfile.Set(directory / "hosts", "test");
  std::ofstream(directory / "hosts") << "a slots=2  # mine\nnode[1-2]:1\n";
  Run(spec);
  EXPECT_EQ(log_.lists, std::vector<std::string>{"a:2 node1:1 node2:1"});
  EXPECT_FALSE(log_.is_final);
}

TEST_F(HostSourcesTest, AHostFileThatCanBeReadOnceOnlyNeverChanges) {
  JobSpec spec;
  spec.hostfile.Set("/dev/null", "test");  // stands for the end of a pipe
  spec.hosts.Set({{"a", 2}}, "test");
  Run(spec);
  EXPECT_EQ(log_.lists, std::vector<std::string>{"a:2"});
  EXPECT_TRUE(log_.is_final);
}

TEST_F(HostSourcesTest, WhateverElseNamesHostsNamesThemOnce) {
  JobSpec spec;
  spec.hosts.Set({{"b", 1}, {"a", 2}}, "test");
  Run(spec);
  EXPECT_EQ(log_.lists, std::vector<std::string>{"b:1 a:2"});
  EXPECT_TRUE(log_.is_final);
}

TEST_F(HostSourcesTest, HostsOfTheMomentAreThoseOfOneRun) {
  JobSpec spec = ScriptSpec("echo b:2; echo a:1");
  ASSERT_TRUE(LearnHosts(spec, &SayDiscovery).ok());
  EXPECT_EQ(*spec.hosts, (std::vector<HostSlots>{{"b", 2}, {"a", 1}}));
  spec = ScriptSpec("exit 3");
  const Status status = LearnHosts(spec, &SayDiscovery);
  EXPECT_NE(status.message().find("code 3"), std::string::npos) << status.ToString();
  JobSpec fixed;
  fixed.hosts.Set({{"a", 1}}, "test");
  ASSERT_TRUE(LearnHosts(fixed, &SayDiscovery).ok());
  EXPECT_EQ(fixed.hosts.origin(), "test") << "they were known before";
}

}  // namespace
}  // namespace hvdray
