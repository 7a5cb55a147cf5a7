// Which paths a .gitignore file leaves out. Pure: gets text and paths, opens nothing.
// Source of the rules: gitignore(5), and what git does where the page says less.
#ifndef HVDRAY_BASE_GITIGNORE_H_
#define HVDRAY_BASE_GITIGNORE_H_

#include <bitset>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/types.h"

namespace hvdray {

enum class IgnoreVerdict : uint8_t {
  kNone,     ///< No pattern speaks of the path: a file further up may.
  kIgnored,  ///< The last pattern that matches leaves it out.
  kKept,     ///< The last pattern that matches begins with '!'.
};

/// The patterns of one .gitignore file. Value type. Matching takes time in proportion to the
/// lengths of path and pattern, whatever the pattern is.
class GitignoreFile {
 public:
  GitignoreFile() = default;
  /// Any text is fine: what is no pattern matches nothing.
  explicit GitignoreFile(ByteView text);

  /// path: relative to the folder that has the file, without '/' at either end. Whether a folder
  /// above the path is left out is the caller's to know: what is in such a folder stays out.
  IgnoreVerdict Match(std::string_view path, bool is_folder) const;

  bool is_empty() const { return patterns_.empty(); }

 private:
  enum class Step : uint8_t {
    kByte,       // this byte
    kAny,        // one byte, not '/'
    kSet,        // one byte of a set
    kRun,        // any bytes without '/'
    kDeepRun,    // any bytes
    kSkip,       // nothing: goes to the next step, and past it
    kFolderRun,  // any bytes up to a '/' and that; behind kSkip
  };
  struct Token {
    Step step = Step::kByte;
    char byte = 0;
    uint16_t set = 0;
  };
  struct Pattern {
    bool is_negated = false;
    bool is_for_folders = false;  // "name/"
    bool is_anchored = false;     // has a '/' in it: matches whole paths, not names
    size_t literal_bytes = 0;     // how many tokens at the start are kByte
    size_t literal_tail = 0;      // and at the end
    std::vector<Token> tokens;
    std::vector<std::bitset<256>> sets;
  };
  class Compiler;
  static bool IsMatch(const Pattern& pattern, std::string_view text);
  static bool RunTokens(const Pattern& pattern, std::string_view text);
  void AddLine(std::string_view line);

  std::vector<Pattern> patterns_;
};

}  // namespace hvdray

#endif  // HVDRAY_BASE_GITIGNORE_H_
