// SPDX-License-Identifier: Apache-2.0
#include "launcher/engine/object_feed.h"

#include <utility>

namespace hvdray {

void ObjectFeed::Add(wire::ObjectPiece piece) {
  std::vector<wire::ObjectPiece>& pieces = objects_[piece.object];
  pieces.push_back(std::move(piece));
  for (const auto& [agent, place] : agents_) {
    if (!place) handlers_.send(agent, pieces.back());
  }
}

void ObjectFeed::Drop(int64_t object) {
  if (objects_.erase(object) == 0) return;
  // Agents that never got it pass over it.
  for (const auto& [agent, place] : agents_) handlers_.drop(agent, object);
}

bool ObjectFeed::Join(int agent) {
  std::optional<Place>& place = agents_[agent];
  place = Place();
  return CatchUp(agent, place);
}

void ObjectFeed::OnRoom(int agent) {
  const auto found = agents_.find(agent);
  if (found == agents_.end() || !found->second) return;
  if (CatchUp(agent, found->second)) handlers_.on_caught_up(agent);
}

bool ObjectFeed::CatchUp(int agent, std::optional<Place>& place) {
  while (Next(*place)) {
    if (!handlers_.has_room(agent)) return false;
    handlers_.send(agent, objects_.at(place->object)[place->piece++]);
  }
  place.reset();
  return true;
}

// Moves on to the next object that is still there. False: there is no further piece.
bool ObjectFeed::Next(Place& place) const {
  const auto at = objects_.lower_bound(place.object);
  if (at == objects_.end()) return false;
  if (at->first != place.object) place = {.object = at->first};
  if (place.piece < at->second.size()) return true;
  const auto after = std::next(at);
  if (after == objects_.end()) return false;
  place = {.object = after->first};
  return true;
}

bool ObjectFeed::HasRoom() const {
  for (const auto& [agent, place] : agents_) {
    if (!place && !handlers_.has_room(agent)) return false;
  }
  return true;
}

}  // namespace hvdray
