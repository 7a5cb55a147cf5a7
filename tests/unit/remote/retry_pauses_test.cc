// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <random>
#include <set>

#include "cluster/transport/remote_transport.h"

namespace hvdray {
namespace {

using std::chrono::milliseconds;

TEST(RetryPausesTest, GrowFromShortestToLongestWhateverIsDrawn) {
  for (uint64_t seed = 1; seed <= 1000; ++seed) {
    std::mt19937_64 random(seed);
    Duration before = milliseconds(100);
    for (int retries = 0; retries < 3; ++retries) {
      const Duration pause = RetryPause({}, retries, random);
      EXPECT_GE(pause, before) << seed;
      before = pause;
    }
    EXPECT_LE(before, milliseconds(1000)) << seed;
    EXPECT_GE(before, milliseconds(464)) << "the last third of the range; seed " << seed;
  }
}

TEST(RetryPausesTest, DifferFromHostToHostAndAreTheSameForASeed) {
  std::mt19937_64 one(7), same(7), other(8);
  std::set<Duration> drawn;
  for (int host = 0; host < 100; ++host) {
    const Duration pause = RetryPause({}, 0, one);
    drawn.insert(pause);
    EXPECT_EQ(RetryPause({}, 0, same), pause);
    drawn.insert(RetryPause({}, 0, other));
  }
  EXPECT_EQ(drawn.size(), 200u);
}

}  // namespace
}  // namespace hvdray
