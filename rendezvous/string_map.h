// A hash map from text that can be searched by string_view without making a string.
#ifndef HVDRAY_RENDEZVOUS_STRING_MAP_H_
#define HVDRAY_RENDEZVOUS_STRING_MAP_H_

#include <functional>
#include <string>
#include <string_view>
#include <unordered_map>

namespace hvdray {

struct StringHash {
  using is_transparent = void;
  size_t operator()(std::string_view text) const { return std::hash<std::string_view>{}(text); }
};

template <typename T>
using StringMap = std::unordered_map<std::string, T, StringHash, std::equal_to<>>;

}  // namespace hvdray

#endif  // HVDRAY_RENDEZVOUS_STRING_MAP_H_
