// SPDX-License-Identifier: Apache-2.0
// Any text as a .gitignore file. The first line of the input is the path, the rest the patterns.
#include <algorithm>
#include <cstdint>
#include <string>

#include "base/gitignore.h"
#include "base/status.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using hvdray::GitignoreFile;
  using hvdray::IgnoreVerdict;
  const std::string input(reinterpret_cast<const char*>(data), std::min<size_t>(size, 4096));
  const size_t end = std::min(input.find('\n'), input.size());
  const std::string path = input.substr(0, end);
  const std::string text = end < input.size() ? input.substr(end + 1) : "";
  const GitignoreFile file(text);
  for (const bool is_directory : {false, true}) {
    const IgnoreVerdict verdict = file.Match(path, is_directory);
    HVDRAY_CHECK(!file.is_empty() || verdict == IgnoreVerdict::kNone);
    if (path.empty() || path.ends_with('/')) continue;
    // The last word is the last line's; a '*' matches every name.
    HVDRAY_CHECK(GitignoreFile(text + "\n*\n").Match(path, is_directory) ==
                 IgnoreVerdict::kIgnored);
    HVDRAY_CHECK(GitignoreFile(text + "\n!*\n").Match(path, is_directory) == IgnoreVerdict::kKept);
    // And one before all others is the last resort.
    const IgnoreVerdict first = GitignoreFile("*\n" + text).Match(path, is_directory);
    if (!text.starts_with("\xef\xbb\xbf")) {
      HVDRAY_CHECK(first == (verdict == IgnoreVerdict::kNone ? IgnoreVerdict::kIgnored : verdict));
    }
  }
  return 0;
}
