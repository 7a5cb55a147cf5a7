// The word behind --sync, cut into its parts. Pure.
#ifndef HVDRAY_LAUNCHER_JOB_SYNC_WORD_H_
#define HVDRAY_LAUNCHER_JOB_SYNC_WORD_H_

#include <string>
#include <string_view>

#include "base/result.h"

namespace hvdray {

struct SyncWord {
  std::string folder;  ///< As it was written.
  std::string target;  ///< "" when none was named; else as it was written, but for "~/".
  bool has_target = false;
  bool operator==(const SyncWord&) const = default;
};

/// "DIR" or "DIR:TARGET"; the last colon counts, so a folder with a colon in its name is written
/// "DIR:". Errors: kUsage, half a sentence for the caller to put the origin in front of.
Result<SyncWord> ParseSyncWord(std::string_view word);

/// The word again.
std::string SyncText(const SyncWord& word);

}  // namespace hvdray

#endif  // HVDRAY_LAUNCHER_JOB_SYNC_WORD_H_
