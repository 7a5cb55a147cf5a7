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

constexpr uint32_t kClient = 3;

class ObjectFeedTest : public ::testing::Test, public AgentLinks {
 protected:
  static wire::ObjectPiece Piece(int64_t object, std::string bytes, uint64_t offset = 0,
                                 uint64_t size = 0) {
    const uint64_t whole = size == 0 ? offset + bytes.size() : size;
    return {.object = object, .size = whole, .offset = offset, .bytes = std::move(bytes)};
  }

  static std::shared_ptr<const UniqueFd> Memory(const std::string& bytes) {
    return std::make_shared<const UniqueFd>(MakeSealedMemory("test", bytes).value());
  }
  void Add(wire::ObjectPiece piece) { feed_.Add(std::move(piece), kClient); }
  bool AddMemory(int64_t object, std::shared_ptr<const UniqueFd> memory) {
    return feed_.AddMemory(object, std::move(memory), kClient);
  }
  /// Its link has room again; notes who has caught up.
  void OnRoom(int agent) {
    if (feed_.OnRoom(agent)) ++caught_up_[agent];
  }
  // As the session gives those that don't map it.
  void AddPieces(int64_t object, const std::string& bytes) {
    for (size_t at = 0; at < bytes.size(); at += wire::kMaxObjectPiece) {
      Add(Piece(object, bytes.substr(at, wire::kMaxObjectPiece), at, bytes.size()));
    }
  }

  std::map<int, std::string> got_;  // by agent: pieces and drops, in order
  std::map<int, int> caught_up_;
  std::set<int> sharing_;    // agents that map memory
  std::map<int, int> room_;  // pieces that its link still takes; absent: any number
  ObjectFeed feed_{ObjectFeed::Hosts::kElastic, *this};

 private:
  void Send(int agent, wire::Message message) override {
    std::string& got = got_[agent];
    const bool is_drop = std::holds_alternative<wire::DropObject>(message.body);
    EXPECT_EQ(message.generation, is_drop ? 0U : kClient);
    if (const auto* piece = std::get_if<wire::ObjectPiece>(&message.body)) {
      got += fmt::format("{}@{}:{} ", piece->object, piece->offset, piece->bytes);
      if (room_.contains(agent)) --room_[agent];
    } else if (const auto* map = std::get_if<wire::MapObject>(&message.body)) {
      got += fmt::format("{}={} ", map->object, ReadMemory(map->descriptor, 0, 2).value());
    } else {
      got += fmt::format("-{} ", std::get<wire::DropObject>(message.body).object);
    }
  }
  bool HasControlRoom(int /*agent*/) const override { return true; }
  bool HasOutputRoom(int agent) const override {
    return !room_.contains(agent) || room_.at(agent) > 0;
  }
  bool TakesDeflated(int /*agent*/) const override { return true; }
  bool SharesMemory(int agent) const override { return sharing_.contains(agent); }
};

TEST_F(ObjectFeedTest, AnAgentWithoutObjectsToGetHasCaughtUpAtOnce) {
  EXPECT_TRUE(feed_.Join(3));
  Add(Piece(1, "ab"));
  EXPECT_EQ(got_[3], "1@0:ab ");
}

TEST_F(ObjectFeedTest, ALaterAgentGetsAllInOrderAtThePaceOfItsLink) {
  Add(Piece(1, "ab", 0, 4));
  Add(Piece(1, "cd", 2));
  Add(Piece(2, ""));
  Add(Piece(5, "x", 0, 3));
  room_[0] = 2;
  EXPECT_FALSE(feed_.Join(0));
  EXPECT_EQ(got_[0], "1@0:ab 1@2:cd ");
  EXPECT_EQ(caught_up_[0], 0);
  EXPECT_TRUE(feed_.HasRoom()) << "others do not wait for it";
  Add(Piece(5, "yz", 1));
  room_[0] = 2;
  OnRoom(0);
  EXPECT_EQ(caught_up_[0], 0);
  room_[0] = 9;
  OnRoom(0);
  OnRoom(0);
  EXPECT_EQ(got_[0], "1@0:ab 1@2:cd 2@0: 5@0:x 5@1:yz ");
  EXPECT_EQ(caught_up_[0], 1);
  Add(Piece(6, "new"));
  EXPECT_TRUE(got_[0].ends_with("6@0:new "));
}

TEST_F(ObjectFeedTest, FixedHostsGetWhatComesAndNothingIsKept) {
  ObjectFeed feed(ObjectFeed::Hosts::kFixed, *this);
  sharing_ = {0};
  feed.Join(0);
  feed.Join(1);
  EXPECT_FALSE(feed.AddMemory(1, Memory("ab"), kClient));
  feed.Add(Piece(1, "ab"), kClient);
  feed.Add(Piece(2, "cd"), kClient);
  feed.Drop(1);
  feed.Leave(1);
  feed.Add(Piece(3, "ef"), kClient);
  EXPECT_EQ(got_[0], "1=ab 2@0:cd -1 3@0:ef ");
  EXPECT_EQ(got_[1], "1@0:ab 2@0:cd -1 ");
  feed.Drop(3);
  feed.Drop(2);
  EXPECT_TRUE(feed.Join(2));
  EXPECT_EQ(got_[2], "");
}

TEST_F(ObjectFeedTest, WhatIsDroppedIsNotSentAnyMore) {
  Add(Piece(1, "ab", 0, 4));
  Add(Piece(1, "cd", 2));
  Add(Piece(2, "x"));
  room_[0] = 1;
  EXPECT_FALSE(feed_.Join(0));
  feed_.Drop(1);
  feed_.Drop(7);
  room_[0] = 9;
  OnRoom(0);
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
  Add(Piece(1, "a"));
  EXPECT_FALSE(got_.contains(1));
}

TEST_F(ObjectFeedTest, MemoryIsMappedOnceByAgentsThatCan) {
  sharing_ = {0, 1, 3};
  feed_.Join(0);
  feed_.Join(1);
  EXPECT_TRUE(AddMemory(1, Memory("ab")));
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
  AddMemory(1, std::move(memory));
  feed_.Drop(1);
  feed_.OnMapped(0, 1);
  Add(Piece(1, "of the next client"));
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
  EXPECT_FALSE(AddMemory(4, Memory(large)));
  EXPECT_EQ(got_[1], "");
  AddPieces(4, large);
  EXPECT_EQ(got_[0], "4=xx ");
  const std::string pieces = fmt::format("4@0:{} 4@65536:yz ", large.substr(0, large.size() - 2));
  EXPECT_EQ(got_[1], pieces);
  room_[2] = 1;
  EXPECT_FALSE(feed_.Join(2));
  sharing_.insert(2);  // it has found that it can: too late for this object
  room_[2] = 9;
  OnRoom(2);
  EXPECT_EQ(got_[2], pieces);
  EXPECT_EQ(caught_up_[2], 1);
}

TEST_F(ObjectFeedTest, WhoComesInTheMiddleOfMemoryGetsTheRestAsItComes) {
  const std::string large = std::string(2 * wire::kMaxObjectPiece, 'x');
  sharing_ = {2};
  feed_.Join(0);
  EXPECT_FALSE(AddMemory(1, Memory(large)));
  EXPECT_TRUE(feed_.Join(1)) << "there is no piece yet";
  Add(Piece(1, large.substr(wire::kMaxObjectPiece), 0, large.size()));
  EXPECT_TRUE(feed_.Join(2));
  Add(Piece(1, large.substr(wire::kMaxObjectPiece), wire::kMaxObjectPiece));
  EXPECT_EQ(got_[2], "1=xx ");
  EXPECT_EQ(got_[1], got_[0]);
}

}  // namespace
}  // namespace hvdray
