// SPDX-License-Identifier: Apache-2.0
// What always holds of a client's gang and of its objects, whatever is asked in whatever order. The
// requests by themselves: serve_session_test.
#include "launcher/engine/client_requests.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <random>
#include <set>
#include <string>
#include <vector>

#include "base/sealed_memory.h"

namespace hvdray {
namespace {

constexpr uint32_t kSeeds = 300;

class Dice {
 public:
  explicit Dice(uint32_t seed) : engine_(seed) {}
  int Roll(int sides) { return static_cast<int>(engine_() % static_cast<uint32_t>(sides)); }

 private:
  std::mt19937 engine_;
};

// One gang lives, numbers rise, and `ready` names members that all run and have said hello, once
// for each set of them.
TEST(ClientGangTest, ReadyIsSaidOnceOfMembersThatAllRunAndHaveSaidHello) {
  for (uint32_t seed = 1; seed <= kSeeds; ++seed) {
    Dice dice(seed);
    ClientGang gang;
    int64_t last = 0;
    std::set<int> known;
    std::set<int> running;
    std::set<int> greeted;
    std::vector<int> members;
    bool is_owed = false;
    const auto check = [&] {
      const std::optional<Json> ready = gang.TakeReady();
      const bool is_due = is_owed && std::all_of(members.begin(), members.end(), [&](int worker) {
                            return running.contains(worker) && greeted.contains(worker);
                          });
      ASSERT_EQ(ready.has_value(), is_due) << "seed " << seed;
      if (!ready) return;
      is_owed = false;
      ASSERT_EQ((*ready)["gang"], last);
      std::vector<int> told;
      for (const Json& row : (*ready)["workers"]) told.push_back(row["worker"].get<int>());
      ASSERT_EQ(told, members) << "seed " << seed;
    };
    for (int step = 0; step < 80; ++step) {
      const int worker = dice.Roll(6);
      switch (dice.Roll(6)) {
        case 0: {
          control::Start start;
          start.gang = dice.Roll(40);
          const bool may_begin = !gang.is_alive() && start.gang > last;
          ASSERT_EQ(gang.CheckStart(start).ok(), may_begin) << "seed " << seed;
          if (!may_begin) break;
          last = start.gang;
          gang.Begin(std::move(start));
          break;
        }
        case 1: {  // a generation, or a newcomer's
          if (!gang.is_alive()) break;
          std::vector<RankInfo> ranks;
          members.clear();
          for (int rank = 0; rank < 2; ++rank) {
            members.push_back((worker + rank) % 6);
            ranks.push_back({.host = "a", .rank = rank, .size = 2, .local_rank = rank});
          }
          gang.SetMembers(ranks, members);
          is_owed = true;
          break;
        }
        case 2:
          gang.AddWorker(worker, {.host = "a"});
          known.insert(worker);
          running.erase(worker);
          greeted.erase(worker);
          break;
        case 3:
          gang.SetPid(worker, 7);
          if (known.contains(worker)) running.insert(worker);
          break;
        case 4:
          gang.Greet(worker, Json::object());
          if (known.contains(worker)) greeted.insert(worker);
          break;
        default:
          if (!gang.is_alive() || dice.Roll(4) != 0) break;
          ASSERT_EQ(gang.End(), last);
          gang.ClearWorkers();
          members.clear();
          known.clear();
          running.clear();
          greeted.clear();
          is_owed = false;
      }
      ASSERT_EQ(gang.Find(last, {}).ok(), gang.is_alive() && !members.empty());
      check();
    }
  }
}

/// A host that gets objects; it takes pieces while it has room.
class Host final : public JobClient::ObjectSink {
 public:
  void PutObject(const wire::ObjectPiece& piece) override {
    ASSERT_GT(room, 0);
    --room;
    ASSERT_GE(piece.object, last);
    last = piece.object;
    ASSERT_EQ(piece.offset, got[piece.object].size()) << "no gap, and nothing twice";
    got[piece.object] += piece.bytes;
  }
  bool MapObject(int64_t object, const std::shared_ptr<const UniqueFd>& memory) override {
    if (!shares_memory) return false;
    last = object;
    got[object] = ReadMemory(memory->get(), 0, size_t{1} << 20).value();
    return true;
  }
  bool HasObjectRoom() override { return room > 0; }

  int room = 0;
  bool shares_memory = false;
  int64_t last = 0;
  std::map<int64_t, std::string> got;
};

TEST(ClientObjectsTest, HostsGetEachObjectWholeAndInOrderAtTheirPace) {
  for (uint32_t seed = 1; seed <= kSeeds / 3; ++seed) {
    Dice dice(seed);
    Host host;
    host.shares_memory = dice.Roll(2) == 0;
    ClientObjects objects(host);
    std::map<int64_t, std::string> put;
    const auto send = [&] {
      host.room = dice.Roll(3);
      while (objects.CanSend()) {
        ASSERT_TRUE(objects.SendNext().ok());
      }
    };
    for (int step = 0; step < 12; ++step) {
      const int64_t object = dice.Roll(30);
      const std::string bytes(static_cast<size_t>(dice.Roll(200'000)),
                              static_cast<char>('a' + step));
      const bool is_memory = !bytes.empty() && dice.Roll(2) == 0;
      control::Put request;
      request.object = object;
      request.size = bytes.size();
      if (is_memory) {
        request.memory = std::make_shared<const UniqueFd>(MakeSealedMemory("test", bytes).value());
      }
      const bool is_new = put.empty() ? object > 0 : object > put.rbegin()->first;
      ASSERT_EQ(objects.Put(request).ok(), is_new) << "seed " << seed;
      for (size_t at = 0; !is_memory && at < bytes.size();) {
        const size_t count = std::min<size_t>(bytes.size() - at, 1 + dice.Roll(99'999));
        objects.AddPiece(ByteView(bytes).substr(at, count), bytes.size() - at - count);
        at += count;
        send();
      }
      if (is_new) put[object] = bytes;
      ASSERT_EQ(objects.Check({object}).ok(), put.contains(object));
      send();
    }
    while (objects.is_waiting()) send();
    EXPECT_EQ(host.got, put) << "seed " << seed;
    EXPECT_EQ(objects.Clear().size(), put.size());
    for (const auto& [object, bytes] : put) {
      EXPECT_EQ(objects.Check({object}).code(), ErrorCode::kUsage);
    }
  }
}

}  // namespace
}  // namespace hvdray
