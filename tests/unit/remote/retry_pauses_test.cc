// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <set>

#include "cluster/remote_transport.h"

namespace hvdray {
namespace {

using std::chrono::milliseconds;

TEST(RetryPausesTest, GrowFromShortestToLongestWhateverIsDrawn) {
  for (uint64_t seed = 1; seed <= 1000; ++seed) {
    RetryPauses pauses({.seed = seed});
    Duration before = milliseconds(100);
    for (int retries = 0; retries < 3; ++retries) {
      const Duration pause = pauses.Next(retries);
      EXPECT_GE(pause, before) << seed;
      before = pause;
    }
    EXPECT_LE(before, milliseconds(1000)) << seed;
    EXPECT_GE(before, milliseconds(464)) << "the last third of the range; seed " << seed;
  }
}

TEST(RetryPausesTest, DifferFromHostToHostAndAreTheSameForASeed) {
  RetryPauses one({.seed = 7}), same({.seed = 7}), other({.seed = 8});
  std::set<Duration> drawn;
  for (int host = 0; host < 100; ++host) {
    const Duration pause = one.Next(0);
    drawn.insert(pause);
    EXPECT_EQ(same.Next(0), pause);
    drawn.insert(other.Next(0));
  }
  EXPECT_EQ(drawn.size(), 200u);
}

}  // namespace
}  // namespace hvdray
