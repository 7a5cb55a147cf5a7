// SPDX-License-Identifier: Apache-2.0
// Decides which paths rsync's patterns leave out. Pure: gets text and paths, opens nothing.
// Source: rsync(1), "FILTER RULES"; where the page is silent, rsync's behaviour.
#ifndef HVDRAY_BASE_RSYNC_FILTER_H_
#define HVDRAY_BASE_RSYNC_FILTER_H_

#include <cstddef>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/gitignore.h"
#include "base/glob.h"
#include "base/types.h"

namespace hvdray {

/// A list of patterns, of which the first that matches decides. Value type.
class RsyncFilter {
 public:
  RsyncFilter() = default;
  /// The patterns of --exclude options: "+ " before one keeps, "- " leaves out, "!" alone drops
  /// those before it.
  explicit RsyncFilter(std::span<const std::string> excludes);
  /// A file named by --filter='dir-merge,- NAME': a pattern per line, all of which leave out.
  /// `skipped`: the bytes of its directory's path from the top of the copy, with a '/' at the end.
  RsyncFilter(ByteView text, size_t skipped);

  /// `path`: relative to the top of the copy, without '/' at either end. Looks at `path` alone: the
  /// caller must leave out all that is below a directory that is ignored.
  IgnoreVerdict Match(std::string_view path, bool is_directory) const;

 private:
  struct Pattern {
    bool is_kept = false;
    bool is_for_directories = false;  // "name/"
    bool is_anchored = false;         // "/name"
    bool has_deep_stars = false;      // "**" somewhere
    bool ends_in_contents = false;    // "/***": the directory, too
    size_t slashes = 0;               // without those at the ends
    std::string text;                 // without these
    std::optional<Glob> glob;         // nullopt: no wildcards, `text` is literal
  };
  void Add(std::string_view text, bool is_kept);
  bool IsMatch(const Pattern& pattern, std::string_view path, bool is_directory) const;

  size_t skipped_ = 0;  // of paths, for anchored patterns; the others may begin further up
  std::vector<Pattern> patterns_;
};

}  // namespace hvdray

#endif  // HVDRAY_BASE_RSYNC_FILTER_H_
