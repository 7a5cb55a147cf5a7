// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <string>
#include <utility>

#include "tests/unit/spec/spec_test_support.h"

namespace hvdray {
namespace {

const Status kNoRay(ErrorCode::kRayUnreachable, "no Ray answers on 10.0.0.1");

SpecWorld WorldWith(Result<std::string> ray) {
  SpecWorld world;
  world.ray = std::move(ray);
  ClusterHosts cluster;
  cluster.hosts = {{"10.0.0.1", 2}, {"10.0.0.2", 2}};
  cluster.head = "10.0.0.1";
  cluster.ssh_user = "alice";
  world.clusters["c.yaml"] = cluster;
  ClusterHosts cloud;
  cloud.hosts_status = Status(ErrorCode::kNotSupported, "only aws knows the hosts");
  world.clusters["aws.yaml"] = cloud;
  return world;
}

TEST(SpecBackendTest, ARayThatAnswersTakesTheJob) {
  const SpecWorld world = WorldWith(std::string("http://10.0.0.1:8265"));
  const Result<RunRequest> request = world.Resolve("--cluster c.yaml ./t");
  ASSERT_TRUE(request.ok()) << request.status().ToString();
  EXPECT_TRUE(*request->spec.ray.is_wanted);
  EXPECT_EQ(*request->spec.ray.address, "http://10.0.0.1:8265");
  EXPECT_EQ(request->spec.ray.address.origin(), "c.yaml");
  EXPECT_EQ(*request->spec.np, 4) << "as by SSH: all slots of the file";
  EXPECT_TRUE(request->warnings.empty());
}

TEST(SpecBackendTest, WithoutOneTheHostsAreReachedBySshAndThatIsSaid) {
  const Result<RunRequest> request = WorldWith(kNoRay).Resolve("--cluster c.yaml ./t");
  ASSERT_TRUE(request.ok()) << request.status().ToString();
  EXPECT_FALSE(*request->spec.ray.is_wanted);
  EXPECT_EQ(request->spec.hosts->size(), 2u);
  EXPECT_EQ(*request->spec.ssh_user, "alice");
  ASSERT_EQ(request->warnings.size(), 1u);
  EXPECT_EQ(request->warnings[0].find("no Ray answers on 10.0.0.1; its hosts are reached by SSH"),
            0u);
}

TEST(SpecBackendTest, NobodyIsAskedWhereTheAnswerIsClear) {
  const SpecWorld world = WorldWith(Status(ErrorCode::kInternal, "asked"));
  for (const char* line : {"--cluster c.yaml --backend ssh ./t", "--cluster c.yaml -H a:1 ./t",
                           "--cluster c.yaml --print-config ./t"}) {
    const Result<RunRequest> request = world.Resolve(line);
    ASSERT_TRUE(request.ok()) << line << ": " << request.status().ToString();
    EXPECT_FALSE(*request->spec.ray.is_wanted) << line;
    EXPECT_TRUE(request->warnings.empty()) << line;
  }
  const Result<RunRequest> named =
      world.Resolve("--cluster aws.yaml --ray-address http://h:8265 -np 1 ./t");
  ASSERT_TRUE(named.ok()) << named.status().ToString();
  EXPECT_EQ(*named->spec.ray.address, "http://h:8265");
}

TEST(SpecBackendTest, WhoWantsRayAndGetsNoneIsTold) {
  for (const char* line : {"--cluster c.yaml --backend ray ./t", "--cluster c.yaml --ray ./t"}) {
    EXPECT_EQ(WorldWith(kNoRay).StatusOf(line).code(), ErrorCode::kRayUnreachable) << line;
  }
}

TEST(SpecBackendTest, AHeadThatOnlyAProviderKnowsNeedsAnAddress) {
  const Status status = WorldWith(std::string("http://x")).StatusOf("--cluster aws.yaml -np 1 ./t");
  EXPECT_EQ(status.code(), ErrorCode::kNotSupported);
  EXPECT_NE(status.hint().find("--ray-address"), std::string::npos);
}

TEST(SpecBackendTest, ACheckLooksAtHostsBySsh) {
  SpecWorld world = WorldWith(kNoRay);
  world.ray.reset();
  EXPECT_TRUE(world.Resolve("--cluster c.yaml ./t").ok());
  EXPECT_EQ(world.StatusOf("--cluster c.yaml --backend ray ./t").code(), ErrorCode::kNotSupported);
}

}  // namespace
}  // namespace hvdray
