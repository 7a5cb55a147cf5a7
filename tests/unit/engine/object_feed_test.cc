// SPDX-License-Identifier: Apache-2.0
#include "launcher/engine/object_feed.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <map>
#include <set>
#include <string>

namespace hvdray {
namespace {

class ObjectFeedTest : public ::testing::Test {
 protected:
  static wire::ObjectPiece Piece(int64_t object, std::string bytes, uint64_t offset = 0,
                                 uint64_t size = 0) {
    const uint64_t whole = size == 0 ? offset + bytes.size() : size;
    return {.object = object, .size = whole, .offset = offset, .bytes = std::move(bytes)};
  }

  std::map<int, std::string> got_;  // by agent: pieces and drops, in order
  std::map<int, int> caught_up_;
  std::map<int, int> room_;  // pieces that its link still takes; absent: any number
  ObjectFeed feed_{
      {.send =
           [this](int agent, const wire::ObjectPiece& piece) {
             got_[agent] += fmt::format("{}@{}:{} ", piece.object, piece.offset, piece.bytes);
             if (room_.contains(agent)) --room_[agent];
           },
       .drop = [this](int agent, int64_t object) { got_[agent] += fmt::format("-{} ", object); },
       .has_room = [this](int agent) { return !room_.contains(agent) || room_[agent] > 0; },
       .on_caught_up = [this](int agent) { ++caught_up_[agent]; }}};
};

TEST_F(ObjectFeedTest, AnAgentWithoutObjectsToGetHasCaughtUpAtOnce) {
  EXPECT_TRUE(feed_.Join(3));
  feed_.Add(Piece(1, "ab"));
  EXPECT_EQ(got_[3], "1@0:ab ");
}

TEST_F(ObjectFeedTest, ALaterAgentGetsAllInOrderAtThePaceOfItsLink) {
  feed_.Add(Piece(1, "ab", 0, 4));
  feed_.Add(Piece(1, "cd", 2));
  feed_.Add(Piece(2, ""));
  feed_.Add(Piece(5, "x", 0, 3));
  room_[0] = 2;
  EXPECT_FALSE(feed_.Join(0));
  EXPECT_EQ(got_[0], "1@0:ab 1@2:cd ");
  EXPECT_EQ(caught_up_[0], 0);
  EXPECT_TRUE(feed_.HasRoom()) << "others do not wait for it";
  feed_.Add(Piece(5, "yz", 1));
  room_[0] = 2;
  feed_.OnRoom(0);
  EXPECT_EQ(caught_up_[0], 0);
  room_[0] = 9;
  feed_.OnRoom(0);
  feed_.OnRoom(0);
  EXPECT_EQ(got_[0], "1@0:ab 1@2:cd 2@0: 5@0:x 5@1:yz ");
  EXPECT_EQ(caught_up_[0], 1);
  feed_.Add(Piece(6, "new"));
  EXPECT_TRUE(got_[0].ends_with("6@0:new "));
}

TEST_F(ObjectFeedTest, WhatIsDroppedIsNotSentAnyMore) {
  feed_.Add(Piece(1, "ab", 0, 4));
  feed_.Add(Piece(1, "cd", 2));
  feed_.Add(Piece(2, "x"));
  room_[0] = 1;
  EXPECT_FALSE(feed_.Join(0));
  feed_.Drop(1);
  feed_.Drop(7);
  room_[0] = 9;
  feed_.OnRoom(0);
  EXPECT_EQ(got_[0], "1@0:ab -1 2@0:x ");
  feed_.Drop(2);
  EXPECT_TRUE(feed_.Join(1));
  EXPECT_EQ(got_[1], "");
}

TEST_F(ObjectFeedTest, AFullLinkOfAnAgentThatHasCaughtUpStopsTheClient) {
  feed_.Join(0);
  feed_.Join(1);
  room_[1] = 0;
  EXPECT_FALSE(feed_.HasRoom());
  feed_.Leave(1);
  EXPECT_TRUE(feed_.HasRoom());
  feed_.Add(Piece(1, "a"));
  EXPECT_FALSE(got_.contains(1));
}

}  // namespace
}  // namespace hvdray
