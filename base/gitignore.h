// SPDX-License-Identifier: Apache-2.0
// Decides which paths a .gitignore file leaves out. Pure: gets text and paths, opens nothing.
// Source: gitignore(5); where the page is silent, git's behaviour.
#ifndef HVDRAY_BASE_GITIGNORE_H_
#define HVDRAY_BASE_GITIGNORE_H_

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/glob.h"
#include "base/types.h"

namespace hvdray {

/// What one file decides about a path.
enum class IgnoreVerdict : uint8_t {
  kNone,     ///< No pattern matches: a .gitignore file further up decides.
  kIgnored,  ///< The last pattern that matches leaves it out.
  kKept,     ///< The last pattern that matches begins with '!'.
};

/// The patterns of one .gitignore file. Value type.
class GitignoreFile {
 public:
  GitignoreFile() = default;
  /// Takes any text: an invalid pattern matches nothing.
  explicit GitignoreFile(ByteView text);

  /// `path`: relative to the directory of the .gitignore file, without '/' at either end. Looks at
  /// `path` alone: the caller must leave out all that is below an ignored directory.
  IgnoreVerdict Match(std::string_view path, bool is_directory) const;

  bool is_empty() const { return patterns_.empty(); }

 private:
  struct Pattern {
    bool is_negated = false;
    bool is_for_directories = false;  // "name/"
    bool is_anchored = false;         // contains a '/': matches whole paths, not names
    Glob glob;
  };
  void AddLine(std::string_view line);

  std::vector<Pattern> patterns_;
};

}  // namespace hvdray

#endif  // HVDRAY_BASE_GITIGNORE_H_
