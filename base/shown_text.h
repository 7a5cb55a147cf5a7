// Somebody else's text in a message of ours.
#ifndef HVDRAY_BASE_SHOWN_TEXT_H_
#define HVDRAY_BASE_SHOWN_TEXT_H_

#include <cstddef>
#include <string>
#include <string_view>

namespace hvdray {

/// `text` fit for a one-line message: control bytes as \x1b, cut after some `limit` bytes, never
/// within a UTF-8 sequence.
std::string ShownText(std::string_view text, size_t limit = 60);

}  // namespace hvdray

#endif  // HVDRAY_BASE_SHOWN_TEXT_H_
