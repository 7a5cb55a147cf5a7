// SPDX-License-Identifier: Apache-2.0
#include "launcher/report/host_differences.h"

#include <gtest/gtest.h>

#include "tests/fakes/golden.h"
#include "tests/unit/check/sample_check.h"

namespace hvdray {
namespace {

CheckFacts AlikeFacts(int hosts) {
  CheckFacts facts = GoodFacts(hosts);
  for (CheckedHost& host : facts.hosts) {
    host.inspection->packages = {{"Python", "3.11.2"}, {"torch", "2.1.0"}, {"NCCL", "2.18.5"}};
    host.inspection->variables = {{"NCCL_DEBUG", "INFO", "login"},
                                  {"PATH", "/usr/bin:/bin", "login"},
                                  {"NCCL_IB_HCA", "mlx5_0", "nccl.conf"}};
  }
  return facts;
}

TEST(HostDifferencesTest, LikeHostsHaveNone) {
  const CheckFacts facts = AlikeFacts(4);
  EXPECT_TRUE(Differences(facts).empty());
  EXPECT_EQ(DifferencesText(facts), "");
}

TEST(HostDifferencesTest, TheTextIsAsInTheGoldenFile) {
  CheckFacts facts = AlikeFacts(6);
  for (const size_t odd : {1, 2}) {
    facts.hosts[odd].inspection->libc = "glibc 2.31";
    facts.hosts[odd].inspection->packages = {{"Python", "3.11.2"}, {"torch", "1.13.0"}};
    facts.hosts[odd].inspection->variables[0].value = "WARN";
  }
  facts.hosts[5].inspection->variables.pop_back();
  facts.hosts[5].inspection->variables[1].value = std::string(300, 'x');
  ExpectGolden("tests/golden/check/differences.txt", DifferencesText(facts));
}

TEST(HostDifferencesTest, WhatMostHaveComesFirst) {
  CheckFacts facts = AlikeFacts(3);
  facts.hosts[0].inspection->kernel = "5.4.0";
  const std::vector<HostDifference> differences = Differences(facts);
  ASSERT_EQ(differences.size(), 1U);
  EXPECT_EQ(differences[0].name, "kernel");
  EXPECT_EQ(differences[0].values[0].hosts, (std::vector<std::string>{"node2", "node3"}));
  EXPECT_EQ(differences[0].values[1].value, "5.4.0");
}

TEST(HostDifferencesTest, WhatIsUnknownIsNoDifferenceAndWhatIsMissingIsOne) {
  CheckFacts facts = AlikeFacts(3);
  facts.hosts[0].inspection->packages.clear();  // no Python, or an older agent
  facts.hosts[0].inspection->variables.clear();
  EXPECT_TRUE(Differences(facts).empty());
  facts.hosts[1].inspection->packages.pop_back();
  ASSERT_EQ(Differences(facts).size(), 1U);
  EXPECT_EQ(Differences(facts)[0].values[0].value, "none");
}

TEST(HostDifferencesTest, VariablesOfALoginAreShownButAreNoFinding) {
  CheckFacts facts = AlikeFacts(3);
  facts.hosts[2].inspection->variables[0].value = "WARN";
  std::vector<Finding> findings;
  JudgeDifferences(facts, findings);
  EXPECT_TRUE(findings.empty());
  ExpectSays(DifferencesText(facts), {"NCCL_DEBUG (login)", "INFO", "node3", "WARN"});
  facts.hosts[2].inspection->variables[2].value = "mlx5_1";
  JudgeDifferences(facts, findings);
  ASSERT_EQ(findings.size(), 1U);
  ExpectFinding(findings[0], "differences", {"NCCL_IB_HCA (nccl.conf)"});
}

TEST(HostDifferencesTest, TheAgentOfThisMachineHasNoLogin) {
  CheckFacts facts = AlikeFacts(2);
  facts.hosts[0].is_remote = false;
  facts.hosts[0].inspection->variables[0].value = "WARN";
  EXPECT_TRUE(Differences(facts).empty());
}

TEST(HostDifferencesTest, TheUsersFileOfNcclCountsBeforeThatOfTheMachine) {
  CheckFacts facts = AlikeFacts(2);
  facts.hosts[0].inspection->variables.push_back({"NCCL_IB_HCA", "mlx5_7", "nccl.conf"});
  ASSERT_EQ(Differences(facts).size(), 1U);
  EXPECT_EQ(Differences(facts)[0].values[0].value, "mlx5_7");
}

}  // namespace
}  // namespace hvdray
