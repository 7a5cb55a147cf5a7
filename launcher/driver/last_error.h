// What a worker's last lines on stderr say of its end: which error, and whether that error blames a
// peer. Pure.
#ifndef HVDRAY_LAUNCHER_DRIVER_LAST_ERROR_H_
#define HVDRAY_LAUNCHER_DRIVER_LAST_ERROR_H_

#include <span>
#include <string>
#include <string_view>

namespace hvdray {

struct LastError {
  /// "ValueError: the batch is empty": the exception that its last traceback is about, of several
  /// in a chain the one that came first. Empty: it has not written any.
  std::string text;
  /// What in it says that a peer is gone: "Horovod has been shut down". Such an error is the
  /// consequence of another worker's. Empty: nothing does.
  std::string peer_words;
  bool is_own() const { return !text.empty() && peer_words.empty(); }
  bool operator==(const LastError&) const = default;
};

/// `lines` without line ends, oldest first. Knows the tracebacks of Python, also behind a prefix
/// ("[rank1]: "), what libstdc++ says of an uncaught exception, and Python's own fatal errors.
/// Without any of these, `text` stays empty and the last lines alone may blame a peer.
LastError ReadLastError(std::span<const std::string> lines);

/// The same for an error that was recorded in words (TORCHELASTIC_ERROR_FILE).
LastError ReadRecordedError(std::string_view message);

}  // namespace hvdray

#endif  // HVDRAY_LAUNCHER_DRIVER_LAST_ERROR_H_
