// "Did you mean …": the nearest of some known names.
#ifndef HVDRAY_BASE_NEAREST_H_
#define HVDRAY_BASE_NEAREST_H_

#include <span>
#include <string>
#include <string_view>

namespace hvdray {

/// The candidate with the smallest edit distance (insert, delete, replace, swap of neighbours) to
/// `word`, if that is at most a third of the longer word's length, rounded up; else empty.
std::string Nearest(std::string_view word, std::span<const std::string_view> candidates);

}  // namespace hvdray

#endif  // HVDRAY_BASE_NEAREST_H_
