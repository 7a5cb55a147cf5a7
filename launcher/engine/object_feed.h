// SPDX-License-Identifier: Apache-2.0
// The objects of a client on their way to its hosts. Where hosts come and go they are kept here
// too, since one that comes later needs all of them before its first worker. Decides nothing about
// workers.
#ifndef HVDRAY_LAUNCHER_ENGINE_OBJECT_FEED_H_
#define HVDRAY_LAUNCHER_ENGINE_OBJECT_FEED_H_

#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <vector>

#include "base/fd.h"
#include "launcher/engine/agent_set.h"
#include "wire/object.h"

namespace hvdray {

/// Agents by number. One that has caught up gets each piece as it comes, so that whatever names the
/// object may follow at once; one that has not yet is fed at the pace of its link. So each agent
/// gets the bytes of an object once, in order and without a gap, or maps its memory once. Pure but
/// for reading that memory. Threads: one.
class ObjectFeed {
 public:
  enum class Hosts : uint8_t {
    kFixed,  ///< All join before the first object.
    kElastic,
  };
  /// `links` outlives it.
  ObjectFeed(Hosts hosts, AgentLinks& links) : hosts_(hosts), links_(links) {}

  /// The next bytes of an object; objects come one after the other, with rising numbers. `client`:
  /// a number that the messages carry, and so the agents' answers.
  void Add(wire::ObjectPiece piece, uint32_t client);
  /// All of the next object. True: all agents that have caught up map it; else Add() gives it to
  /// the others, from its first piece to its last.
  bool AddMemory(int64_t object, std::shared_ptr<const UniqueFd> memory, uint32_t client);
  void Drop(int64_t object);
  /// The agent has answered wire::MapObject: only then may the memory go.
  void OnMapped(int agent, int64_t object);
  /// A new agent. True: it has all that there is.
  bool Join(int agent);
  void Leave(int agent);
  /// Its link takes more. True: now it has all that there is, and had not before.
  bool OnRoom(int agent);
  /// Agents that have caught up take the next piece now.
  bool HasRoom() const;

 private:
  /// The next piece for an agent: all before it were sent.
  struct Place {
    int64_t object = 0;
    size_t piece = 0;
  };
  struct Object {
    std::vector<wire::ObjectPiece> pieces;   // none if there is memory
    std::shared_ptr<const UniqueFd> memory;  // of sealed bytes
    uint64_t size = 0;                       // of the memory
    uint32_t client = 0;
    size_t added = 0;      // pieces that there are
    std::set<int> mapped;  // agents that need none of them
  };
  bool Map(int agent, int64_t number, Object& object);
  bool CatchUp(int agent, std::optional<Place>& place);
  bool Next(int agent, Place& place) const;
  void SendNext(int agent, Place& place);

  const Hosts hosts_;
  AgentLinks& links_;
  std::map<int64_t, Object> objects_;
  std::map<int, std::optional<Place>> agents_;  // nullopt: has caught up
  struct Opening {
    int64_t object;
    std::shared_ptr<const UniqueFd> memory;
  };
  std::map<int, std::deque<Opening>> opening_;  // by agent, which answers in order
};

}  // namespace hvdray

#endif  // HVDRAY_LAUNCHER_ENGINE_OBJECT_FEED_H_
