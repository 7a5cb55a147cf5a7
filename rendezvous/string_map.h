// SPDX-License-Identifier: Apache-2.0
// A hash map with string keys that finds entries by string_view, without creating a string.
#ifndef HVDRAY_RENDEZVOUS_STRING_MAP_H_
#define HVDRAY_RENDEZVOUS_STRING_MAP_H_

#include <functional>
#include <string>
#include <string_view>
#include <unordered_map>

namespace hvdray {

/// Hashes all string types alike.
struct StringHash {
  using is_transparent = void;
  size_t operator()(std::string_view text) const { return std::hash<std::string_view>{}(text); }
};

/// find() and contains() accept a string_view; operator[] and emplace() need a string.
template <typename T>
using StringMap = std::unordered_map<std::string, T, StringHash, std::equal_to<>>;

}  // namespace hvdray

#endif  // HVDRAY_RENDEZVOUS_STRING_MAP_H_
