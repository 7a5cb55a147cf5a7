// SPDX-License-Identifier: Apache-2.0
#include "wire/send_lanes.h"

#include <gtest/gtest.h>

#include "wire/frame.h"

namespace hvdray::wire {
namespace {

TEST(SendLanesTest, ControlGoesFirstAndEachLaneKeepsItsOrder) {
  SendLanes lanes;
  lanes.PushOutput("o1");
  lanes.PushControl("c1");
  lanes.PushOutput("o2");
  lanes.PushControl("c2");
  EXPECT_EQ(lanes.Pop(), "c1c2");
  EXPECT_EQ(lanes.Pop(), "o1o2");
  EXPECT_EQ(lanes.Pop(), "");
  EXPECT_TRUE(lanes.is_empty());
}

TEST(SendLanesTest, ControlThatComesInBetweenOvertakes) {
  SendLanes lanes;
  const std::string big(60'000, 'o');
  lanes.PushOutput(big);
  lanes.PushOutput(big);
  EXPECT_EQ(lanes.Pop(), big);
  lanes.PushControl("c");
  EXPECT_EQ(lanes.Pop(), "c");
  EXPECT_EQ(lanes.Pop(), big);
}

TEST(SendLanesTest, SmallFramesShareAWriteUpToABound) {
  SendLanes lanes;
  for (int i = 0; i < 100; ++i) lanes.PushControl(std::string(1000, 'x'));
  size_t writes = 0;
  for (std::string batch = lanes.Pop(); !batch.empty(); batch = lanes.Pop(), ++writes) {
    EXPECT_LE(batch.size(), 65'536u);
  }
  EXPECT_EQ(writes, 2u);
}

TEST(SendLanesTest, LargeFrameGoesAloneHoweverLarge) {
  SendLanes lanes;
  lanes.PushControl("small");
  lanes.PushControl(std::string(20'000'000, 'x'));
  lanes.PushControl("small");
  EXPECT_EQ(lanes.Pop(), "small");
  EXPECT_EQ(lanes.Pop().size(), 20'000'000u);
  EXPECT_EQ(lanes.Pop(), "small");
}

TEST(SendLanesTest, BytesAreCountedByLane) {
  SendLanes lanes;
  lanes.PushControl("123");
  lanes.PushOutput("12345");
  EXPECT_EQ(lanes.bytes(), 8u);
  EXPECT_EQ(lanes.output_bytes(), 5u);
  EXPECT_TRUE(lanes.has_control());
  (void)lanes.Pop();
  EXPECT_FALSE(lanes.has_control());
  EXPECT_EQ(lanes.bytes(), 5u);
  lanes.Clear();
  EXPECT_EQ(lanes.bytes(), 0u);
  EXPECT_EQ(lanes.output_bytes(), 0u);
}

TEST(SendLanesTest, VersionIsStampedOnAllThatWaits) {
  SendLanes lanes;
  std::string frame;
  EncodeHeader(frame, {1, 19, 0, 0});
  lanes.PushControl(frame);
  lanes.PushOutput(frame);
  lanes.SetVersion(7);
  EXPECT_EQ(DecodeHeader(lanes.Pop())->version, 7);
  EXPECT_EQ(DecodeHeader(lanes.Pop())->version, 7);
}

}  // namespace
}  // namespace hvdray::wire
