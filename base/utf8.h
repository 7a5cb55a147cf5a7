// What is well-formed UTF-8. Pure.
#ifndef HVDRAY_BASE_UTF8_H_
#define HVDRAY_BASE_UTF8_H_

#include <cstddef>
#include <string_view>

namespace hvdray {

/// Bytes of the well-formed sequence at the start of `text` (1 to 4); 0 if there is none.
/// Source: Unicode 15, table 3-7.
size_t Utf8Length(std::string_view text);

}  // namespace hvdray

#endif  // HVDRAY_BASE_UTF8_H_
