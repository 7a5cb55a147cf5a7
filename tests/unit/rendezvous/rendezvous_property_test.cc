// SPDX-License-Identifier: Apache-2.0
// Random jobs over random links: whatever is killed, restarted or reset, every init ends and each
// member sees exactly the values of its own round. HVDRAY_TEST_SEED (with HVDRAY_TEST_SEED_COUNT)
// chooses others.
#include <gtest/gtest.h>

#include <chrono>
#include <random>
#include <string>
#include <vector>

#include "base/environ.h"
#include "tests/unit/rendezvous/rendezvous_job.h"

namespace hvdray {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

constexpr int kHosts = 3;

int Draw(std::mt19937_64& random, int from, int to) {
  return std::uniform_int_distribution<int>(from, to)(random);
}

std::vector<int> DrawSlots(std::mt19937_64& random) {
  std::vector<int> slots;
  for (int i = 0; i < kHosts; ++i) slots.push_back(Draw(random, i == 0 ? 1 : 0, 4));
  return slots;
}

void DrawLinks(std::mt19937_64& random, RendezvousJob& job) {
  for (int host = 0; host < kHosts; ++host) {
    FakeLinkShape shape;
    shape.delay = std::chrono::microseconds(Draw(random, 0, 60000));
    shape.jitter = std::chrono::microseconds(Draw(random, 0, 40000));
    if (Draw(random, 0, 3) == 0) shape.bytes_per_second = Draw(random, 5000, 200000);
    job.network().Shape(host, shape);
  }
}

/// Gangs that are restarted as a whole at any moment of an init.
void RunStaticJob(uint64_t seed) {
  std::mt19937_64 random(seed);
  RelayCoreOptions options;
  if (Draw(random, 0, 2) == 0) options.cache_bytes = 600;  // a cache that overflows
  if (Draw(random, 0, 2) == 0) options.kv_hold = milliseconds(Draw(random, 0, 50));
  RendezvousJob job(DrawSlots(random), seed, options);
  const bool has_barrier = Draw(random, 0, 2) != 0;
  if (!has_barrier) {
    job.UseBarrier(FakeHorovodMember::Barrier::kNone);
    job.UseScopes(RendezvousJob::Scopes::kThree);
  }
  for (int gang = 0; gang < 3; ++gang) {
    DrawLinks(random, job);
    job.StartGang();
    for (int round = Draw(random, 1, 4); round > 0; --round) {
      job.BeginInit(milliseconds(Draw(random, 0, 200)));
      ASSERT_TRUE(job.FinishInit()) << "gang " << gang;
    }
    if (has_barrier) {
      ASSERT_TRUE(job.WalkProcessSet("e" + std::to_string(Draw(random, 0, 1))));
    }
    job.BeginInit(milliseconds(Draw(random, 0, 50)));
    job.network().RunFor(milliseconds(Draw(random, 0, 800)));
  }
  ASSERT_EQ(job.Faults(), std::vector<std::string>{});
}

/// Members are lost between and during inits; the survivors meet anew with newcomers.
void RunElasticJob(uint64_t seed) {
  std::mt19937_64 random(seed);
  RendezvousJob job(DrawSlots(random), seed);
  job.network().HoldRankAndSize();
  DrawLinks(random, job);
  job.StartGang();
  for (int reset = 0; reset < 4; ++reset) {
    ASSERT_TRUE(job.Init()) << "reset " << reset;
    if (Draw(random, 0, 1) == 0) {
      const std::string lost = "h" + std::to_string(Draw(random, 0, kHosts - 1)) + ":0";
      job.Kill([&](const FakeHorovodMember& member) { return member.slot() == lost; });
    }
    const std::vector<int> wanted = DrawSlots(random);
    job.slots() = wanted;
    job.ElasticReset();
    if (testing::Test::HasFatalFailure()) return;
  }
  ASSERT_TRUE(job.Init());
  ASSERT_EQ(job.Faults(), std::vector<std::string>{});
}

class RendezvousPropertyTest : public testing::TestWithParam<void (*)(uint64_t)> {};

TEST_P(RendezvousPropertyTest, EveryInitEndsWithTheValuesOfItsOwnRound) {
  const Environment environment = Environment::FromProcess();
  const uint64_t first = std::stoull(environment.GetOr("HVDRAY_TEST_SEED", "1"));
  const uint64_t count = std::stoull(environment.GetOr("HVDRAY_TEST_SEED_COUNT", "30"));
  for (uint64_t seed = first; seed < first + count; ++seed) {
    GetParam()(seed);
    ASSERT_FALSE(HasFailure()) << "HVDRAY_TEST_SEED=" << seed;
  }
}

INSTANTIATE_TEST_SUITE_P(Static, RendezvousPropertyTest, testing::Values(&RunStaticJob));
INSTANTIATE_TEST_SUITE_P(Elastic, RendezvousPropertyTest, testing::Values(&RunElasticJob));

}  // namespace
}  // namespace hvdray
