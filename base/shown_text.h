// SPDX-License-Identifier: Apache-2.0
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

// A line that another machine or program wrote, in our own output. What a worker writes is not
// ours: it passes as it is.

/// `line`, fit to be printed as ours: what ShownText() shows as bytes is shown so, but control
/// bytes are left out, colors with them; tabs stay, line ends become blanks. Called where such a
/// line comes in, once.
std::string ShownLine(std::string_view line);

}  // namespace hvdray

#endif  // HVDRAY_BASE_SHOWN_TEXT_H_
