// SPDX-License-Identifier: Apache-2.0
// Invalid combinations of elastic options, and the table of states.
#include "launcher/job/elastic_policy.h"

#include <gtest/gtest.h>

#include <set>

#include "launcher/driver/states.h"
#include "launcher/job/placement.h"
#include "tests/fakes/fault_catalogue.h"

namespace hvdray {
namespace {

const auto* const kCatalogue = FaultCatalogue::Install("tests/golden/messages/elastic.txt");

using std::chrono::seconds;

ElasticPolicy Sizes(int np, int min_np, std::optional<int> max_np) {
  ElasticPolicy policy;
  policy.np = np;
  policy.min_np = min_np;
  policy.max_np = max_np;
  return policy;
}

void ExpectRefused(const ElasticPolicy& policy, Facts facts) {
  ExpectError(CheckElasticPolicy(policy), ErrorCode::kSpecInvalid, facts);
}

TEST(ElasticPolicyTest, TakesWhatFits) {
  EXPECT_TRUE(CheckElasticPolicy({}).ok());
  EXPECT_TRUE(CheckElasticPolicy(Sizes(4, 2, 8)).ok());
  EXPECT_TRUE(CheckElasticPolicy(Sizes(4, 4, 4)).ok());
  ElasticPolicy policy;
  policy.cooldown = CooldownRange{seconds(1), seconds(3600)};
  EXPECT_TRUE(CheckElasticPolicy(policy).ok());
}

TEST(ElasticPolicyTest, RefusesSizesThatContradictEachOther) {
  ExpectRefused(Sizes(4, 4, 3), {"--min-np 4", "--max-np 3"});
  ExpectRefused(Sizes(4, 2, 3), {"--max-np 3", "-np 4"});
  ExpectRefused(Sizes(4, 5, {}), {"--min-np 5", "1", "-np 4"});
  EXPECT_FALSE(CheckElasticPolicy(Sizes(0, 0, {})).ok());
  EXPECT_FALSE(CheckElasticPolicy(Sizes(kMaxRanks + 1, 1, {})).ok());
}

TEST(ElasticPolicyTest, RefusesACooldownRangeThatIsReversedOrTooWide) {
  ElasticPolicy policy;
  policy.cooldown = CooldownRange{seconds(20), seconds(10)};
  ExpectRefused(policy, {"--blacklist-cooldown-range 20 10", "reversed"});
  policy.cooldown = CooldownRange{seconds(0), seconds(10)};
  ExpectRefused(policy, {"--blacklist-cooldown-range 0 10", "range"});
  policy.cooldown = CooldownRange{seconds(1), seconds(3601)};
  ExpectRefused(policy, {"--blacklist-cooldown-range 1 3601", "range"});
}

TEST(ElasticStateTest, EachArrowIsThereOnceAndLeadsSomewhereElse) {
  std::set<std::pair<ElasticState, ElasticState>> seen;
  for (const ElasticTransition& arrow : ElasticTransitions()) {
    EXPECT_TRUE(seen.emplace(arrow.from, arrow.to).second)
        << Name(arrow.from) << " -> " << Name(arrow.to);
    EXPECT_NE(arrow.from, arrow.to);
    EXPECT_FALSE(IsTerminal(arrow.from));
    EXPECT_FALSE(arrow.why.empty());
    EXPECT_TRUE(CanFollow(arrow.from, arrow.to));
  }
  EXPECT_FALSE(CanFollow(ElasticState::kFinished, ElasticState::kRunning));
  EXPECT_FALSE(CanFollow(ElasticState::kGathering, ElasticState::kGate));
}

TEST(ElasticStateTest, EveryStateHasANameIsReachedAndCanEnd) {
  std::set<std::string_view> names;
  for (int i = 0; i <= static_cast<int>(ElasticState::kFinished); ++i) {
    const auto state = static_cast<ElasticState>(i);
    names.insert(Name(state));
    bool is_reached = state == ElasticState::kGathering;
    bool is_left = IsTerminal(state);
    for (const ElasticTransition& arrow : ElasticTransitions()) {
      is_reached |= arrow.to == state;
      is_left |= arrow.from == state;
    }
    EXPECT_TRUE(is_reached && is_left) << Name(state);
    if (!IsTerminal(state)) {
      EXPECT_TRUE(CanFollow(state, ElasticState::kStopping) ||
                  CanFollow(state, ElasticState::kFinished))
          << Name(state);
    }
  }
  EXPECT_EQ(names.size(), static_cast<size_t>(ElasticState::kFinished) + 1);
  EXPECT_FALSE(names.contains("unknown"));
}

}  // namespace
}  // namespace hvdray
