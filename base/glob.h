// SPDX-License-Identifier: Apache-2.0
// The patterns of .gitignore files and of rsync, compiled. Pure.
// Source: wildmatch.c, which git took from rsync.
#ifndef HVDRAY_BASE_GLOB_H_
#define HVDRAY_BASE_GLOB_H_

#include <bitset>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string_view>
#include <vector>

namespace hvdray {

/// What "**" matches.
enum class GlobStars : uint8_t {
  kGit,    ///< Directories, where it is a whole part of the path; else as "*".
  kRsync,  ///< Any bytes, '/' too, wherever it stands.
};

/// One pattern. Value type. Matching takes time in proportion to its length times the text's: no
/// pattern makes it exponential.
class Glob {
 public:
  /// nullopt: it can match nothing (an unclosed '[', an unknown class, a trailing backslash).
  static std::optional<Glob> Compile(std::string_view glob, GlobStars stars);

  /// Whether all of `text` matches.
  bool IsMatch(std::string_view text) const;

 private:
  enum class Step : uint8_t {
    kByte,          // this byte
    kAny,           // one byte, not '/'
    kSet,           // one byte of a set
    kRun,           // any bytes without '/'
    kDeepRun,       // any bytes
    kSkip,          // nothing: enters the next step and the one after it
    kDirectoryRun,  // any bytes up to and including a '/'; follows kSkip
  };
  struct Token {
    Step step = Step::kByte;
    char byte = 0;
    uint16_t set = 0;
  };
  class Compiler;
  bool RunTokens(std::string_view text) const;

  size_t literal_bytes_ = 0;  // number of kByte tokens at the start
  size_t literal_tail_ = 0;   // and at the end
  std::vector<Token> tokens_;
  std::vector<std::bitset<256>> sets_;
};

}  // namespace hvdray

#endif  // HVDRAY_BASE_GLOB_H_
