// SPDX-License-Identifier: Apache-2.0
// The scopes and answers that the rendezvous derives from an assignment.
#include <gtest/gtest.h>

#include <map>

#include "launcher/job/placement.h"

namespace hvdray {
namespace {

/// Ordered, whatever the store looks values up with.
template <typename Map>
auto Sorted(const Map& values) {
  return std::map<std::string, typename Map::mapped_type>(values.begin(), values.end());
}

TEST(KvAssignmentOfTest, KnowsEveryScopeAndSlotOfUnevenHosts) {
  const auto ranks = AssignRanks(std::vector<HostSlots>{{"a", 3}, {"b", 1}, {"c", 2}}, 6, {});
  ASSERT_TRUE(ranks.ok());
  const KvAssignment assignment = KvAssignmentOf(*ranks, 4);
  EXPECT_EQ(assignment.generation, 4u);
  EXPECT_EQ(Sorted(assignment.scope_sizes), (std::map<std::string, int>{{"global", 6},
                                                                        {"local_a", 3},
                                                                        {"local_b", 1},
                                                                        {"local_c", 2},
                                                                        {"cross_0", 3},
                                                                        {"cross_1", 2},
                                                                        {"cross_2", 1}}));
  EXPECT_EQ(Sorted(assignment.rank_and_size),
            (std::map<std::string, std::string>{{"a:0", "0,6,0,3,0,3"},
                                                {"a:1", "1,6,1,3,0,2"},
                                                {"a:2", "2,6,2,3,0,1"},
                                                {"b:0", "3,6,0,1,1,3"},
                                                {"c:0", "4,6,0,2,2,3"},
                                                {"c:1", "5,6,1,2,1,2"}}));
}

TEST(KvAssignmentOfTest, IsEmptyWithoutRanks) {
  const KvAssignment assignment = KvAssignmentOf({}, 1);
  EXPECT_TRUE(assignment.scope_sizes.empty());
  EXPECT_TRUE(assignment.rank_and_size.empty());
}

}  // namespace
}  // namespace hvdray
