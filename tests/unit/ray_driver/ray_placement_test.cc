// SPDX-License-Identifier: Apache-2.0

#include <gtest/gtest.h>

#include "cluster/ray/group_wait.h"
#include "launcher/job/ray_request.h"
#include "tests/unit/ray_driver/ray_cluster.h"

namespace hvdray {
namespace {

std::vector<RayNode> ThreeNodes() {
  return {Node("aaaaaaaa11", "10.0.0.1", 4, 4), Node("bbbbbbbb22", "10.0.0.2", 4, 4),
          Node("cccccccc33", "10.0.0.2", 4, 4), Dead(Node("dddddddd44", "10.0.0.1", 4, 4))};
}

TEST(RayPlacementTest, BundlesOfANodeAreOneHostInTheOrderOfFirstBundles) {
  const RayRequest request = {.bundles = std::vector<RayAmounts>(5, {{"CPU", 1}}),
                              .slots = {1, 1, 1, 1, 1},
                              .selectors = {},
                              .strategy = "PACK"};
  const RayPlacement placement = PlaceGroup(
      request, Created("g", {"bbbbbbbb22", "aaaaaaaa11", "bbbbbbbb22", "aaaaaaaa11", "bbbbbbbb22"}),
      ThreeNodes());
  EXPECT_EQ(placement.hosts, (std::vector<HostSlots>{{"10.0.0.2-bbbbbbbb", 3}, {"10.0.0.1", 2}}));
  EXPECT_EQ(placement.node_ids, (std::vector<std::string>{"bbbbbbbb22", "aaaaaaaa11"}));
  EXPECT_EQ(placement.ips, (std::vector<std::string>{"10.0.0.2", "10.0.0.1"}));
  EXPECT_EQ(placement.places, (std::vector<RayEndpointPlace>{{"g", {0, 2, 4}, "bbbbbbbb22"},
                                                             {"g", {1, 3}, "aaaaaaaa11"}}));
}

TEST(RayPlacementTest, ABundleMayHoldSeveralSlots) {
  const RayRequest request = {.bundles = {{{"CPU", 2}}, {{"CPU", 2}}},
                              .slots = {2, 2},
                              .selectors = {},
                              .strategy = "STRICT_SPREAD"};
  const RayPlacement placement =
      PlaceGroup(request, Created("g", {"aaaaaaaa11", "cccccccc33"}), ThreeNodes());
  EXPECT_EQ(placement.hosts, (std::vector<HostSlots>{{"10.0.0.1", 2}, {"10.0.0.2-cccccccc", 2}}));
}

TEST(RayHostNamesTest, NoTwoAreAlikeAndNoneHasAColon) {
  const std::vector<RayNode> nodes = {Node("1111111100", "fd00::1", 1, 1),
                                      Node("2222222200", "10.0.0.9", 1, 1),
                                      Node("2222222211", "10.0.0.9", 1, 1)};
  const std::vector<std::string> ids = {"1111111100", "2222222200", "2222222211", "unknown0"};
  EXPECT_EQ(RayHostNames(ids, nodes),
            (std::vector<std::string>{"fd00..1", "10.0.0.9-22222222",
                                      "10.0.0.9-22222222-2222222211", "node"}));
}

}  // namespace
}  // namespace hvdray
