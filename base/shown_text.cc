#include "base/shown_text.h"

#include <fmt/format.h>

namespace hvdray {

std::string ShownText(std::string_view text, size_t limit) {
  std::string shown;
  for (const char c : text) {
    // Never in the middle of a UTF-8 sequence.
    if (shown.size() >= limit && (static_cast<unsigned char>(c) & 0xC0) != 0x80) {
      return shown + "...";
    }
    const bool is_control = static_cast<unsigned char>(c) < 0x20 || c == 0x7F;
    if (is_control) {
      shown += fmt::format("\\x{:02x}", static_cast<unsigned char>(c));
    } else {
      shown += c;
    }
  }
  return shown;
}

}  // namespace hvdray
