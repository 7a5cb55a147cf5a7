// Somebody else's text in a message of ours.
#ifndef HVDRAY_BASE_SHOWN_TEXT_H_
#define HVDRAY_BASE_SHOWN_TEXT_H_

#include <string>
#include <string_view>

namespace hvdray {

/// `text` fit for a one-line message: control bytes as \x1b, cut after some 60 bytes, never within
/// a UTF-8 sequence.
std::string ShownText(std::string_view text);

}  // namespace hvdray

#endif  // HVDRAY_BASE_SHOWN_TEXT_H_
