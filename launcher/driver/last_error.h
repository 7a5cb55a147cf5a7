// SPDX-License-Identifier: Apache-2.0
// Reads from a worker's last lines of stderr which error ended it, and whether that error blames a
// peer. Pure.
#ifndef HVDRAY_LAUNCHER_DRIVER_LAST_ERROR_H_
#define HVDRAY_LAUNCHER_DRIVER_LAST_ERROR_H_

#include <span>
#include <string>
#include <string_view>

namespace hvdray {

/// A worker's last error, as far as its output tells.
struct LastError {
  /// "ValueError: the batch is empty": the exception of its last traceback; in a chain, the one
  /// raised first. Empty: none printed.
  std::string text;
  /// The words that say that a peer is gone: "Horovod has been shut down". Such an error is the
  /// consequence of another worker's. Empty: no such words.
  std::string peer_words;
  /// It has an error that blames no peer.
  bool is_own() const { return !text.empty() && peer_words.empty(); }
  bool operator==(const LastError&) const = default;
};

/// `lines`: without line ends, oldest first. Recognises Python tracebacks, also behind a prefix
/// ("[rank1]: "), libstdc++'s message about an uncaught exception, and Python's own fatal errors.
/// Without any of these `text` stays empty, and only the last lines may blame a peer.
LastError ReadLastError(std::span<const std::string> lines);

/// What a rank's record begins with that let others wait (collective/async/stall_record.cc); a verb
/// phrase follows: "never submitted allreduce.w, for which others waited 60 s".
inline constexpr std::string_view kStallRecord = "stalled: ";

/// The same for a recorded error message (TORCHELASTIC_ERROR_FILE).
LastError ReadRecordedError(std::string_view message);

}  // namespace hvdray

#endif  // HVDRAY_LAUNCHER_DRIVER_LAST_ERROR_H_
