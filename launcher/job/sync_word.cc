#include "launcher/job/sync_word.h"

#include <fmt/format.h>

#include <algorithm>

#include "launcher/job/value_text.h"

namespace hvdray {
namespace {

constexpr size_t kMaxPath = 4000;  // below what a frame takes

bool HasPart(std::string_view path, std::string_view wanted) {
  while (!path.empty()) {
    const size_t end = std::min(path.find('/'), path.size());
    if (path.substr(0, end) == wanted) return true;
    path.remove_prefix(std::min(end + 1, path.size()));
  }
  return false;
}

}  // namespace

Result<SyncWord> ParseSyncWord(std::string_view word) {
  const auto refuse = [word](std::string_view what) {
    return Status(ErrorCode::kUsage, fmt::format("{}, not {}", what, Quoted(word)));
  };
  if (word.find('\0') != std::string_view::npos) return refuse("must be DIR or DIR:TARGET");
  const size_t colon = word.rfind(':');
  SyncWord parts;
  parts.folder = word.substr(0, colon);
  if (parts.folder.empty()) return refuse("must be DIR or DIR:TARGET");
  if (colon == std::string_view::npos || colon + 1 == word.size()) return parts;
  std::string_view target = word.substr(colon + 1);
  // A shell leaves a '~' alone that does not begin the word.
  if (target == "~") target = ".";
  if (target.starts_with("~/")) target.remove_prefix(2);
  if (target.starts_with('~'))
    return refuse("must name a folder in one's own home, or from '/' on");
  if (HasPart(target, "..")) return refuse("must have no '..' in TARGET");
  if (target.size() > kMaxPath) return refuse("must have a shorter TARGET");
  parts.has_target = true;
  parts.target = target.empty() ? "." : target;
  return parts;
}

std::string SyncText(const SyncWord& word) {
  const bool is_plain = !word.has_target && word.folder.find(':') == std::string::npos;
  return is_plain ? word.folder : fmt::format("{}:{}", word.folder, word.target);
}

}  // namespace hvdray
