// SPDX-License-Identifier: Apache-2.0
// The simulator of elastic jobs keeps its promises, since it judges the driver; and whole jobs
// whose workers act by themselves.
#include "tests/unit/driver/elastic_job.h"

namespace hvdray {
namespace {

ElasticWorld Alive() {
  ElasticWorld world;
  world.is_alive = true;
  world.connect = milliseconds(50);
  world.link_delay = milliseconds(2);
  world.import_time = seconds(3);
  world.steps = 200;
  return world;
}

TEST(ElasticSimTest, RepeatsARunForTheSameSeedAndNotForAnother) {
  std::vector<Duration> ends;
  for (const uint64_t seed : {1, 1, 2}) {
    ElasticSim sim(Workers(2, 1), Alive(), seed);
    sim.Discover({{"a", 2}, {"b", 1}});
    sim.At(seconds(5), [&sim] { sim.CutOff("b"); });
    ASSERT_TRUE(sim.Run());
    EXPECT_TRUE(sim.violations().empty());
    ends.push_back(sim.elapsed());
  }
  EXPECT_EQ(ends[0], ends[1]);
  EXPECT_NE(ends[0], ends[2]);
}

TEST(ElasticSimTest, AGangOfItsOwnTrainsToTheEnd) {
  ElasticJob job(Workers(3, 1), {{"a", 2}, {"b", 1}}, Alive());
  ASSERT_TRUE(job.Run());
  EXPECT_EQ(job.verdict().exit_code, 0);
  EXPECT_EQ(job.generation(), 1u);
  EXPECT_GE(job.elapsed(), 200 * milliseconds(100));
}

TEST(ElasticSimTest, SurvivorsStandForGloosTimeoutUnlessTheirConnectionsAreBroken) {
  Duration longest[2];
  for (const bool breaks : {false, true}) {
    ElasticPolicy policy = Workers(8, 1);
    policy.breaks_connections = breaks;
    ElasticJob job(policy, {{"a", 2}, {"b", 2}, {"c", 2}, {"d", 2}}, Alive());
    job.At(seconds(10), [&job] { job.Exit("d", 1, {.signal = SIGKILL}); });
    ASSERT_TRUE(job.Run());
    EXPECT_EQ(job.verdict().exit_code, 0);
    EXPECT_EQ(job.size(), 6);
    longest[breaks] = job.All<effect::MembershipChanged>().back().stood_still;
  }
  EXPECT_GE(longest[0], seconds(29));
  EXPECT_LE(longest[1], milliseconds(200));
}

TEST(ElasticSimTest, AGangIsCalledThroughLostNotices) {
  ElasticWorld world = Alive();
  world.notices_lost_of_10 = 7;
  ElasticJob job(Workers(1, 1), {{"a", 1}}, world);
  job.At(seconds(5), [&job] { job.Discover({{"a", 1}, {"b", 1}}); });
  ASSERT_TRUE(job.Run());
  EXPECT_EQ(job.size(), 2);
  EXPECT_EQ(job.verdict().exit_code, 0);
}

TEST(ElasticSimTest, AJoinStopsTheOldGangForMillisecondsWhateverTheNewcomerImports) {
  ElasticWorld world = Alive();
  world.import_time = seconds(10);
  world.steps = 1000;
  ElasticJob job(Workers(1, 1), {{"a", 1}}, world);
  job.At(seconds(15), [&job] { job.Discover({{"a", 1}, {"b", 1}}); });
  ASSERT_TRUE(job.Run());
  EXPECT_EQ(job.size(), 2);
  EXPECT_LE(job.All<effect::MembershipChanged>().back().stood_still, milliseconds(100));
}

}  // namespace
}  // namespace hvdray
