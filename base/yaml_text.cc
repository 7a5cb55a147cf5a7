// SPDX-License-Identifier: Apache-2.0
// What a YAML file's bytes must be before the library sees them.
#include <fmt/format.h>

#include "base/text.h"
#include "base/yaml_data.h"

namespace hvdray {
namespace {

Status Refused(const std::string& file, int line, int column, std::string_view what,
               std::string hint = {}) {
  return {ErrorCode::kSpecInvalid, fmt::format("{}: {}", YamlPlace(file, line, column), what),
          std::move(hint)};
}

}  // namespace

Result<std::string> CleanYamlText(std::string_view text, const std::string& file) {
  if (text.size() > kMaxYamlBytes) {
    return Refused(file, 1, 1,
                   fmt::format("{} bytes, at most {} are read", text.size(), kMaxYamlBytes));
  }
  if (text.starts_with("\xFF\xFE") || text.starts_with("\xFE\xFF")) {
    return Refused(file, 1, 1, "UTF-16 text", "save the file as UTF-8");
  }
  if (text.starts_with("\xEF\xBB\xBF")) text.remove_prefix(3);
  std::string clean;
  clean.reserve(text.size());
  int line = 1;
  int column = 1;
  while (!text.empty()) {
    const size_t length = Utf8Length(text);
    if (length == 0) return Refused(file, line, column, "not UTF-8 text", "save the file as UTF-8");
    const auto c = static_cast<unsigned char>(text[0]);
    if (c == '\r' && text.substr(1).starts_with('\n')) text.remove_prefix(1);
    if (c == '\n' || c == '\r') {
      clean += '\n';
      text.remove_prefix(1);
      ++line;
      column = 1;
      continue;
    }
    if ((c < 0x20 && c != '\t') || c == 0x7F) {
      return Refused(file, line, column, fmt::format("control character 0x{:02x}", c),
                     "is this a text file?");
    }
    clean.append(text.substr(0, length));
    text.remove_prefix(length);
    column += static_cast<int>(length);
  }
  return clean;
}

}  // namespace hvdray
