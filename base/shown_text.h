// SPDX-License-Identifier: Apache-2.0
// Makes text from other programs and machines safe to show in our own output, where it must not
// move a cursor, change colors or reorder the text around it. Workers' output passes unchanged,
// without this. Pure. Threads: any.
#ifndef HVDRAY_BASE_SHOWN_TEXT_H_
#define HVDRAY_BASE_SHOWN_TEXT_H_

#include <cstddef>
#include <string>
#include <string_view>

namespace hvdray {

/// `text` for use inside a one-line message: control bytes and bytes that are not UTF-8 become
/// "\x1b". Cuts it after about `limit` bytes, at the end of a character, and appends "...".
std::string ShownText(std::string_view text, size_t limit = 60);

/// A whole `line` as one of ours. As ShownText(), but drops control bytes, and color sequences with
/// them; keeps tabs; turns line ends into blanks; cuts nothing. Call it once, where the line comes
/// in.
std::string ShownLine(std::string_view line);

}  // namespace hvdray

#endif  // HVDRAY_BASE_SHOWN_TEXT_H_
