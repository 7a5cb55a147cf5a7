// SPDX-License-Identifier: Apache-2.0
#include "launcher/engine/object_feed.h"

#include <utility>

#include "base/sealed_memory.h"

namespace hvdray {

void ObjectFeed::Add(wire::ObjectPiece piece, uint32_t client) {
  Object& object = objects_[piece.object];
  object.client = client;
  for (const auto& [agent, place] : agents_) {
    if (!place && !object.mapped.contains(agent)) links_.Send(agent, {client, piece});
  }
  if (hosts_ == Hosts::kFixed) return;
  ++object.added;
  if (object.memory == nullptr) object.pieces.push_back(std::move(piece));
}

bool ObjectFeed::AddMemory(int64_t number, std::shared_ptr<const UniqueFd> memory,
                           uint32_t client) {
  Object& object = objects_[number];
  object.client = client;
  object.size = SealedSize(memory->get()).value();
  object.memory = std::move(memory);
  bool is_all = true;
  for (const auto& [agent, place] : agents_) {
    if (place) continue;
    if (!Map(agent, number, object)) is_all = false;
  }
  if (is_all) object.added = (object.size + wire::kMaxObjectPiece - 1) / wire::kMaxObjectPiece;
  return is_all;
}

bool ObjectFeed::Map(int agent, int64_t number, Object& object) {
  if (!links_.SharesMemory(agent)) return false;
  links_.Send(agent, {object.client, wire::MapObject{number, object.memory->get()}});
  object.mapped.insert(agent);
  opening_[agent].push_back({number, object.memory});
  return true;
}

void ObjectFeed::OnMapped(int agent, int64_t object) {
  std::deque<Opening>& opening = opening_[agent];
  if (!opening.empty() && opening.front().object == object) opening.pop_front();
}

void ObjectFeed::Leave(int agent) {
  agents_.erase(agent);
  opening_.erase(agent);
}

void ObjectFeed::Drop(int64_t object) {
  if (objects_.erase(object) == 0) return;
  // Agents that never got the object ignore this.
  for (const auto& [agent, place] : agents_) links_.Send(agent, {0, wire::DropObject{object}});
}

bool ObjectFeed::Join(int agent) {
  std::optional<Place>& place = agents_[agent];
  place = Place();
  return CatchUp(agent, place);
}

bool ObjectFeed::OnRoom(int agent) {
  const auto found = agents_.find(agent);
  return found != agents_.end() && found->second && CatchUp(agent, found->second);
}

bool ObjectFeed::CatchUp(int agent, std::optional<Place>& place) {
  while (Next(agent, *place)) {
    if (!links_.HasOutputRoom(agent)) return false;
    SendNext(agent, *place);
  }
  place.reset();
  return true;
}

void ObjectFeed::SendNext(int agent, Place& place) {
  Object& object = objects_.at(place.object);
  if (object.memory == nullptr) {
    return links_.Send(agent, {object.client, object.pieces[place.piece++]});
  }
  if (place.piece == 0 && Map(agent, place.object, object)) return;
  wire::ObjectPiece piece;
  piece.object = place.object;
  piece.size = object.size;
  piece.offset = place.piece++ * wire::kMaxObjectPiece;
  Result<std::string> bytes = ReadMemory(object.memory->get(), piece.offset, wire::kMaxObjectPiece);
  // Else the kernel could not read what it has swapped out: no agent takes an empty piece.
  if (bytes.ok()) piece.bytes = std::move(bytes).value();
  links_.Send(agent, {object.client, std::move(piece)});
}

// Moves on to the next object that is still there. False: there is no further piece.
bool ObjectFeed::Next(int agent, Place& place) const {
  for (auto at = objects_.lower_bound(place.object); at != objects_.end(); ++at) {
    if (at->first != place.object) place = {.object = at->first};
    const Object& object = at->second;
    if (place.piece < object.added && !object.mapped.contains(agent)) return true;
  }
  return false;
}

bool ObjectFeed::HasRoom() const {
  for (const auto& [agent, place] : agents_) {
    if (!place && !links_.HasOutputRoom(agent)) return false;
  }
  return true;
}

}  // namespace hvdray
