// SPDX-License-Identifier: Apache-2.0
#include "base/rsync_filter.h"

#include <algorithm>
#include <utility>

namespace hvdray {
namespace {

/// The last `count` parts of `path`; nullopt: it has fewer.
std::optional<std::string_view> LastParts(std::string_view path, size_t count) {
  size_t at = path.size();
  for (; count > 0; --count) {
    if (at == std::string_view::npos) return std::nullopt;
    at = at == 0 ? std::string_view::npos : path.rfind('/', at - 1);
  }
  return at == std::string_view::npos ? path : path.substr(at + 1);
}

}  // namespace

RsyncFilter::RsyncFilter(std::span<const std::string> excludes) {
  for (const std::string_view line : excludes) {
    if (line == "!") {
      patterns_.clear();
    } else if (line.starts_with("- ") || line.starts_with("+ ")) {
      Add(line.substr(2), line.starts_with('+'));
    } else {
      Add(line, /*is_kept=*/false);
    }
  }
}

RsyncFilter::RsyncFilter(ByteView text, size_t skipped) : skipped_(skipped) {
  while (!text.empty()) {
    const size_t end = std::min(text.find_first_of("\r\n"), text.size());
    const std::string_view line = text.substr(0, end);
    if (!line.starts_with('#') && !line.starts_with(';')) Add(line, /*is_kept=*/false);
    text.remove_prefix(std::min(end + 1, text.size()));
  }
}

void RsyncFilter::Add(std::string_view text, bool is_kept) {
  Pattern pattern;
  pattern.is_kept = is_kept;
  if (text.size() > 1 && text.ends_with('/')) {
    pattern.is_for_directories = true;
    text.remove_suffix(1);
  }
  pattern.is_anchored = text.starts_with('/');
  if (pattern.is_anchored) text.remove_prefix(1);
  if (text.empty()) return;
  pattern.slashes = static_cast<size_t>(std::count(text.begin(), text.end(), '/'));
  pattern.text = text;
  if (text.find_first_of("*[?") != std::string_view::npos) {
    pattern.has_deep_stars = text.find("**") != std::string_view::npos;
    pattern.ends_in_contents = text.ends_with("/***");
    pattern.glob = Glob::Compile(text, GlobStars::kRsync);
    if (!pattern.glob) return;
  }
  patterns_.push_back(std::move(pattern));
}

bool RsyncFilter::IsMatch(const Pattern& pattern, std::string_view path, bool is_directory) const {
  if (pattern.is_for_directories && !is_directory) return false;
  if (pattern.is_anchored) path.remove_prefix(std::min(skipped_, path.size()));
  const bool is_name = pattern.slashes == 0 && !pattern.has_deep_stars && !pattern.is_anchored;
  if (is_name) path = path.substr(path.rfind('/') + 1);  // npos + 1 is 0
  if (!pattern.glob) {
    if (path == pattern.text) return true;
    return !pattern.is_anchored && path.size() > pattern.text.size() &&
           path.ends_with(pattern.text) && path[path.size() - pattern.text.size() - 1] == '/';
  }
  std::string text(path);
  if (pattern.ends_in_contents && is_directory) text += '/';
  const bool has_prefix = pattern.text.starts_with("**");
  if (has_prefix && !pattern.is_anchored) text.insert(0, "/");
  if (pattern.is_anchored || has_prefix || is_name) return pattern.glob->IsMatch(text);
  if (!pattern.has_deep_stars) {
    const std::optional<std::string_view> last = LastParts(text, pattern.slashes + 1);
    return last && pattern.glob->IsMatch(*last);
  }
  for (std::string_view rest = text;;) {
    if (pattern.glob->IsMatch(rest)) return true;
    const size_t slash = rest.find('/');
    if (slash == std::string_view::npos) return false;
    rest.remove_prefix(slash + 1);
  }
}

IgnoreVerdict RsyncFilter::Match(std::string_view path, bool is_directory) const {
  for (const Pattern& pattern : patterns_) {
    if (!IsMatch(pattern, path, is_directory)) continue;
    return pattern.is_kept ? IgnoreVerdict::kKept : IgnoreVerdict::kIgnored;
  }
  return IgnoreVerdict::kNone;
}

}  // namespace hvdray
