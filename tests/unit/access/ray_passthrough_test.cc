// SPDX-License-Identifier: Apache-2.0
// Ray's words for what was said in ours.
#include "cluster/access/ray_passthrough.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <vector>

namespace hvdray {
namespace {

using Words = std::vector<std::string>;

Result<Words> Pass(std::string_view command, const Words& words) {
  const Result<CommandRequest> request = ResolveRequest(command, words, Environment());
  if (!request.ok()) return request.status();
  return RayWords(command, *request, "for_ray.yaml");
}

TEST(RayPassthroughTest, OnlyLocalHostsAndAwsAreOurs) {
  ClusterSpec file;
  for (const char* type : {"gcp", "azure", "external", "kuberay", "vsphere"}) {
    file.provider_type = type;
    EXPECT_TRUE(IsLeftToRay(file)) << type;
  }
  file.provider_type = "aws";
  EXPECT_FALSE(IsLeftToRay(file));
  file.provider_type = "local";
  EXPECT_TRUE(IsLeftToRay(file)) << "a coordinator";
  file.head_ip = "10.0.0.1";
  EXPECT_FALSE(IsLeftToRay(file));
}

TEST(RayPassthroughTest, OptionsAreSpelledAsRays) {
  const auto up = Pass("up", {"-y", "-n", "x", "c.yaml", "--use-normal-shells", "--min-workers=2",
                              "--disable-usage-stats"});
  ASSERT_TRUE(up.ok()) << up.status().ToString();
  EXPECT_EQ(Words(up->begin(), up->begin() + 2), (Words{"ray", "up"}));
  EXPECT_EQ(up->back(), "for_ray.yaml");
  for (const char* word : {"--yes", "--cluster-name", "x", "--use-normal-shells", "--min-workers",
                           "2", "--disable-usage-stats"}) {
    EXPECT_NE(std::find(up->begin(), up->end(), word), up->end()) << word;
  }
  EXPECT_EQ(*Pass("dashboard", {"c.yaml", "-p", "9000"}),
            (Words{"ray", "dashboard", "--port", "9000", "for_ray.yaml"}));
  EXPECT_EQ(
      *Pass("exec", {"-p", "1", "-p", "2", "c.yaml", "ls"}),
      (Words{"ray", "exec", "--port-forward", "1", "--port-forward", "2", "for_ray.yaml", "ls"}));
}

TEST(RayPassthroughTest, CommandsKeepTheirQuoting) {
  EXPECT_EQ(*Pass("exec", {"c.yaml", "echo $HOME | cat"}),
            (Words{"ray", "exec", "for_ray.yaml", "echo $HOME | cat"}));
  EXPECT_EQ(Pass("exec", {"c.yaml", "ls", "a b"})->back(), "'ls' 'a b'");
  EXPECT_EQ(*Pass("rsync-up", {"c.yaml", "a", "~/b"}),
            (Words{"ray", "rsync-up", "for_ray.yaml", "a", "~/b"}));
}

TEST(RayPassthroughTest, WhatRayLacksIsRefused) {
  const Status option = Pass("monitor", {"c.yaml", "--json"}).status();
  EXPECT_EQ(option.code(), ErrorCode::kUsage);
  EXPECT_NE(option.message().find("--json"), std::string::npos);
  EXPECT_EQ(Pass("up", {"c.yaml", "--force-setup"}).status().code(), ErrorCode::kUsage);
  EXPECT_EQ(Pass("logs", {"c.yaml", "head"}).status().code(), ErrorCode::kNotSupported);
}

TEST(RayPassthroughTest, ArgumentsOfAScriptAreQuotedForTheShellThatRayMakesOfThem) {
  const Result<SubmitRequest> submit = ResolveSubmit(Words{"c.yaml", "t.py", "a b", "$X"});
  ASSERT_TRUE(submit.ok());
  EXPECT_EQ(*RayWords("submit", submit->request, "for_ray.yaml"),
            (Words{"ray", "submit", "for_ray.yaml", "t.py", "--", "'a b'", "'$X'"}));
}

}  // namespace
}  // namespace hvdray
