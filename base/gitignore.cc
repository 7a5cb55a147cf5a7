// SPDX-License-Identifier: Apache-2.0
#include "base/gitignore.h"

#include <algorithm>
#include <optional>
#include <utility>

namespace hvdray {
namespace {

// As git: drops trailing spaces, unless a backslash precedes them.
std::string_view WithoutTrailingSpaces(std::string_view line) {
  size_t end = 0;
  for (size_t i = 0; i < line.size(); ++i) {
    if (line[i] == '\\') {
      i = std::min(i + 1, line.size() - 1);
      end = i + 1;
    } else if (line[i] != ' ') {
      end = i + 1;
    }
  }
  return line.substr(0, end);
}

}  // namespace

GitignoreFile::GitignoreFile(ByteView text) {
  if (text.starts_with("\xef\xbb\xbf")) text.remove_prefix(3);
  while (!text.empty()) {
    const size_t end = std::min(text.find('\n'), text.size());
    std::string_view line = text.substr(0, end);
    if (end < text.size() && line.ends_with('\r')) line.remove_suffix(1);
    AddLine(line);
    text.remove_prefix(std::min(end + 1, text.size()));
  }
}

void GitignoreFile::AddLine(std::string_view line) {
  if (line.starts_with('#')) return;
  line = WithoutTrailingSpaces(line);
  Pattern pattern;
  if (line.starts_with('!')) {
    pattern.is_negated = true;
    line.remove_prefix(1);
  }
  if (line.ends_with('/')) {
    pattern.is_for_directories = true;
    line.remove_suffix(1);
  }
  pattern.is_anchored = line.find('/') != std::string_view::npos;
  if (line.starts_with('/')) line.remove_prefix(1);
  if (line.empty()) return;
  std::optional<Glob> glob = Glob::Compile(line, GlobStars::kGit);
  if (!glob) return;
  pattern.glob = std::move(*glob);
  patterns_.push_back(std::move(pattern));
}

IgnoreVerdict GitignoreFile::Match(std::string_view path, bool is_directory) const {
  const std::string_view name = path.substr(path.rfind('/') + 1);  // npos + 1 is 0
  for (auto pattern = patterns_.rbegin(); pattern != patterns_.rend(); ++pattern) {
    if (pattern->is_for_directories && !is_directory) continue;
    if (!pattern->glob.IsMatch(pattern->is_anchored ? path : name)) continue;
    return pattern->is_negated ? IgnoreVerdict::kKept : IgnoreVerdict::kIgnored;
  }
  return IgnoreVerdict::kNone;
}

}  // namespace hvdray
