// SPDX-License-Identifier: Apache-2.0
#include "launcher/engine/object_feed.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <map>
#include <memory>
#include <set>
#include <string>

#include "base/sealed_memory.h"

namespace hvdray {
namespace {

class ObjectFeedTest : public ::testing::Test {
 protected:
  static wire::ObjectPiece Piece(int64_t object, std::string bytes, uint64_t offset = 0,
                                 uint64_t size = 0) {
    const uint64_t whole = size == 0 ? offset + bytes.size() : size;
    return {.object = object, .size = whole, .offset = offset, .bytes = std::move(bytes)};
  }

  static std::shared_ptr<const UniqueFd> Memory(const std::string& bytes) {
    return std::make_shared<const UniqueFd>(MakeSealedMemory("test", bytes).value());
  }
  // As the session gives those that don't map it.
  void AddPieces(int64_t object, const std::string& bytes) {
    for (size_t at = 0; at < bytes.size(); at += wire::kMaxObjectPiece) {
      feed_.Add(Piece(object, bytes.substr(at, wire::kMaxObjectPiece), at, bytes.size()));
    }
  }

  std::map<int, std::string> got_;  // by agent: pieces and drops, in order
  std::map<int, int> caught_up_;
  std::set<int> sharing_;    // agents that map memory
  std::map<int, int> room_;  // pieces that its link still takes; absent: any number
  ObjectFeed::Handlers MakeHandlers() {
    return {
        .send =
            [this](int agent, const wire::ObjectPiece& piece) {
              got_[agent] += fmt::format("{}@{}:{} ", piece.object, piece.offset, piece.bytes);
              if (room_.contains(agent)) --room_[agent];
            },
        .map =
            [this](int agent, int64_t object, int descriptor) {
              if (!sharing_.contains(agent)) return false;
              got_[agent] += fmt::format("{}={} ", object, ReadMemory(descriptor, 0, 2).value());
              return true;
            },
        .drop = [this](int agent, int64_t object) { got_[agent] += fmt::format("-{} ", object); },
        .has_room = [this](int agent) { return !room_.contains(agent) || room_[agent] > 0; },
        .on_caught_up = [this](int agent) { ++caught_up_[agent]; }};
  }
  ObjectFeed feed_{ObjectFeed::Hosts::kElastic, MakeHandlers()};
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

TEST_F(ObjectFeedTest, FixedHostsGetWhatComesAndNothingIsKept) {
  ObjectFeed feed(ObjectFeed::Hosts::kFixed, MakeHandlers());
  sharing_ = {0};
  feed.Join(0);
  feed.Join(1);
  EXPECT_FALSE(feed.AddMemory(1, Memory("ab")));
  feed.Add(Piece(1, "ab"));
  feed.Add(Piece(2, "cd"));
  feed.Drop(1);
  feed.Leave(1);
  feed.Add(Piece(3, "ef"));
  EXPECT_EQ(got_[0], "1=ab 2@0:cd -1 3@0:ef ");
  EXPECT_EQ(got_[1], "1@0:ab 2@0:cd -1 ");
  feed.Drop(3);
  feed.Drop(2);
  EXPECT_TRUE(feed.Join(2));
  EXPECT_EQ(got_[2], "");
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

TEST_F(ObjectFeedTest, MemoryIsMappedOnceByAgentsThatCan) {
  sharing_ = {0, 1, 3};
  feed_.Join(0);
  feed_.Join(1);
  EXPECT_TRUE(feed_.AddMemory(1, Memory("ab")));
  EXPECT_EQ(got_[0], "1=ab ");
  EXPECT_EQ(got_[1], "1=ab ");
  EXPECT_TRUE(feed_.Join(2)) << "it gets pieces, of which there is one";
  EXPECT_EQ(got_[2], "1@0:ab ");
  EXPECT_TRUE(feed_.Join(3));
  EXPECT_EQ(got_[3], "1=ab ");
}

TEST_F(ObjectFeedTest, DroppedMemoryIsThereUntilAllHaveOpenedIt) {
  sharing_ = {0, 1, 2};
  for (const int agent : sharing_) feed_.Join(agent);
  std::shared_ptr<const UniqueFd> memory = Memory("ab");
  const std::weak_ptr<const UniqueFd> there = memory;
  feed_.AddMemory(1, std::move(memory));
  feed_.Drop(1);
  feed_.OnMapped(0, 1);
  feed_.Add(Piece(1, "of the next client"));
  feed_.OnMapped(0, 1);
  feed_.Leave(1);
  EXPECT_FALSE(there.expired());
  feed_.OnMapped(2, 1);
  EXPECT_TRUE(there.expired());
}

TEST_F(ObjectFeedTest, OthersGetThePiecesOfMemoryFromFirstToLast) {
  const std::string large = std::string(wire::kMaxObjectPiece, 'x') + "yz";
  sharing_ = {0};
  feed_.Join(0);
  feed_.Join(1);
  EXPECT_FALSE(feed_.AddMemory(4, Memory(large)));
  EXPECT_EQ(got_[1], "");
  AddPieces(4, large);
  EXPECT_EQ(got_[0], "4=xx ");
  const std::string pieces = fmt::format("4@0:{} 4@65536:yz ", large.substr(0, large.size() - 2));
  EXPECT_EQ(got_[1], pieces);
  room_[2] = 1;
  EXPECT_FALSE(feed_.Join(2));
  sharing_.insert(2);  // it has found that it can: too late for this object
  room_[2] = 9;
  feed_.OnRoom(2);
  EXPECT_EQ(got_[2], pieces);
  EXPECT_EQ(caught_up_[2], 1);
}

TEST_F(ObjectFeedTest, WhoComesInTheMiddleOfMemoryGetsTheRestAsItComes) {
  const std::string large = std::string(2 * wire::kMaxObjectPiece, 'x');
  sharing_ = {2};
  feed_.Join(0);
  EXPECT_FALSE(feed_.AddMemory(1, Memory(large)));
  EXPECT_TRUE(feed_.Join(1)) << "there is no piece yet";
  feed_.Add(Piece(1, large.substr(wire::kMaxObjectPiece), 0, large.size()));
  EXPECT_TRUE(feed_.Join(2));
  feed_.Add(Piece(1, large.substr(wire::kMaxObjectPiece), wire::kMaxObjectPiece));
  EXPECT_EQ(got_[2], "1=xx ");
  EXPECT_EQ(got_[1], got_[0]);
}

}  // namespace
}  // namespace hvdray
