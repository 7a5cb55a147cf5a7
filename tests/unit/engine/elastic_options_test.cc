// SPDX-License-Identifier: Apache-2.0
// Each option of an elastic job sets its field of the driver's policy.
#include <gtest/gtest.h>

#include <chrono>
#include <sstream>

#include "launcher/engine/driver_policies.h"
#include "launcher/job/options_resolver.h"

namespace hvdray {
namespace {

using std::chrono::seconds;

JobSpec SpecOf(const std::string& line) {
  std::istringstream in(line);
  std::vector<std::string> words;
  for (std::string word; in >> word;) words.push_back(word);
  ResolverFiles files;
  files.read = [](const std::string&) -> Result<std::optional<std::string>> {
    return std::optional<std::string>();
  };
  const Result<RunRequest> request = ResolveRun(words, Environment(), files);
  EXPECT_TRUE(request.ok()) << request.status().ToString();
  return request.ok() ? request->spec : JobSpec();
}

TEST(ElasticOptionsTest, WithoutOptionsThePolicysDefaultsCount) {
  const ElasticPolicy policy = ToElasticPolicy(SpecOf("-np 3 --host-discovery-script ./d ./t"),
                                               std::chrono::system_clock::from_time_t(1700000000));
  const ElasticPolicy defaults;
  EXPECT_EQ(policy.mode, defaults.mode);
  EXPECT_EQ(policy.np, 3);
  EXPECT_EQ(policy.min_np, 3) << "as horovodrun has it";
  EXPECT_EQ(policy.max_np, std::nullopt);
  EXPECT_EQ(policy.reset_limit, std::nullopt);
  EXPECT_EQ(policy.max_restarts, 0U);
  EXPECT_EQ(policy.cooldown, std::nullopt);
  EXPECT_EQ(policy.success, defaults.success);
  EXPECT_EQ(policy.breaks_connections, defaults.breaks_connections);
  EXPECT_EQ(policy.join, defaults.join);
  EXPECT_EQ(policy.began_epoch_s, 1700000000);
  EXPECT_EQ(policy.elastic_timeout, defaults.elastic_timeout);
  EXPECT_EQ(policy.start_timeout, defaults.start_timeout);
  EXPECT_EQ(policy.straggler_timeout, defaults.straggler_timeout);
  EXPECT_EQ(policy.list_settle, seconds(2));
  EXPECT_EQ(policy.grace, defaults.grace);
  EXPECT_EQ(policy.timeout, defaults.timeout);
  EXPECT_EQ(policy.master_port, 0);
  EXPECT_TRUE(CheckElasticPolicy(policy).ok());
}

TEST(ElasticOptionsTest, EachOptionHasItsField) {
  const ElasticPolicy policy = ToElasticPolicy(
      SpecOf("-np 4 --min-np 2 --max-np 8 -H a:8 --reset-limit 5 --blacklist-cooldown-range 10 100 "
             "--success any --no-break-connections --join together --elastic-timeout 60 "
             "--start-timeout 7 --straggler-timeout 9 --settle 4 --grace 3 --timeout 2h ./t"),
      {});
  EXPECT_EQ(policy.np, 4);
  EXPECT_EQ(policy.min_np, 2);
  EXPECT_EQ(policy.max_np, 8);
  EXPECT_EQ(policy.reset_limit, 5U);
  EXPECT_EQ(policy.cooldown, (CooldownRange{seconds(10), seconds(100)}));
  EXPECT_EQ(policy.success, SuccessRule::kAny);
  EXPECT_FALSE(policy.breaks_connections);
  EXPECT_EQ(policy.join, JoinMode::kTogether);
  EXPECT_EQ(policy.elastic_timeout, seconds(60));
  EXPECT_EQ(policy.start_timeout, seconds(7));
  EXPECT_EQ(policy.straggler_timeout, seconds(9));
  EXPECT_EQ(policy.list_settle, seconds(4));
  EXPECT_EQ(policy.grace, seconds(3));
  EXPECT_EQ(policy.timeout, seconds(7200));
  EXPECT_TRUE(CheckElasticPolicy(policy).ok());
}

TEST(ElasticOptionsTest, AGangHasRestartsAndAPort) {
  const ElasticPolicy policy = ToElasticPolicy(
      SpecOf("-np 1 --min-np 1 --elastic-mode gang --max-restarts 3 --master-port 29500 ./t"),
      std::chrono::system_clock::time_point());
  EXPECT_EQ(policy.mode, ElasticMode::kGang);
  EXPECT_EQ(policy.max_restarts, 3U);
  EXPECT_EQ(policy.master_port, 29500);
}

}  // namespace
}  // namespace hvdray
