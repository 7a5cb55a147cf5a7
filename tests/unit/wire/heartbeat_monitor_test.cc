// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include "wire/link.h"

namespace hvdray::wire {
namespace {

using std::chrono::seconds;

class HeartbeatMonitorTest : public testing::Test {
 protected:
  /// Ticks each second for `count` seconds; the number of the tick that says lost, 0: none.
  int TicksUntilLost(HeartbeatMonitor& monitor, int count) {
    for (int i = 1; i <= count; ++i) {
      now_ += seconds(1);
      if (monitor.IsLostAt(now_)) return i;
    }
    return 0;
  }
  TimePoint now_ = TimePoint(seconds(1000));
};

TEST_F(HeartbeatMonitorTest, SilentPeerIsLostAfterTheTimeout) {
  HeartbeatMonitor monitor(seconds(1), seconds(15), now_);
  EXPECT_EQ(TicksUntilLost(monitor, 100), 16);
  EXPECT_EQ(monitor.Silence(), seconds(16));
}

TEST_F(HeartbeatMonitorTest, AnyBytesKeepItAlive) {
  HeartbeatMonitor monitor(seconds(1), seconds(3), now_);
  for (int i = 0; i < 100; ++i) {
    if (i % 3 == 0) monitor.OnBytes();
    now_ += seconds(1);
    ASSERT_FALSE(monitor.IsLostAt(now_)) << i;
  }
}

TEST_F(HeartbeatMonitorTest, BytesCountFromTheTickAfterThem) {
  HeartbeatMonitor monitor(seconds(1), seconds(3), now_);
  EXPECT_EQ(TicksUntilLost(monitor, 2), 0);
  monitor.OnBytes();
  EXPECT_EQ(TicksUntilLost(monitor, 100), 5);
}

TEST_F(HeartbeatMonitorTest, PausedPeerIsWaitedForUntilItTakesThatBack) {
  HeartbeatMonitor monitor(seconds(1), seconds(3), now_);
  monitor.OnBytes();
  monitor.OnHeartbeat(true);
  EXPECT_EQ(TicksUntilLost(monitor, 10'000), 0);
  monitor.OnBytes();
  monitor.OnHeartbeat(false);
  EXPECT_EQ(TicksUntilLost(monitor, 100), 5);
}

TEST_F(HeartbeatMonitorTest, TimeoutOfZeroWaitsForEver) {
  HeartbeatMonitor monitor(seconds(1), Duration::zero(), now_);
  EXPECT_EQ(TicksUntilLost(monitor, 10'000), 0);
}

TEST_F(HeartbeatMonitorTest, OwnSleepIsNotHeldAgainstThePeer) {
  HeartbeatMonitor monitor(seconds(1), seconds(15), now_);
  EXPECT_EQ(TicksUntilLost(monitor, 5), 0);
  now_ += seconds(3600);
  EXPECT_FALSE(monitor.IsLostAt(now_)) << "we were stopped for an hour, not the peer";
  EXPECT_EQ(TicksUntilLost(monitor, 100), 10) << "6 s of silence were left of the 15";
}

TEST_F(HeartbeatMonitorTest, SleepAgainAndAgainStillFindsALostPeer) {
  HeartbeatMonitor monitor(seconds(1), seconds(15), now_);
  int ticks = 0;
  do {
    now_ += seconds(10);
    ASSERT_LT(++ticks, 100);
  } while (!monitor.IsLostAt(now_));
  EXPECT_EQ(ticks, 16) << "each late tick counts for one period";
}

}  // namespace
}  // namespace hvdray::wire
