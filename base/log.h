// SPDX-License-Identifier: Apache-2.0
// What hvdray itself writes to stderr: its log, and notices to its user. One line per message;
// never worker output, never secrets. Threads: any, unless stated; no call waits for a lock of
// ours.
#ifndef HVDRAY_BASE_LOG_H_
#define HVDRAY_BASE_LOG_H_

#include <fmt/format.h>

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>

namespace hvdray {

enum class LogLevel : uint8_t { kError, kWarning, kInfo, kDebug };

/// Drops messages less urgent than `level`. Initially kWarning.
void SetLogLevel(LogLevel level);
/// Whether a message is a JSON object with time, level, where and message (--log-json) instead of a
/// line of text. Initially false.
void SetLogJson(bool is_json);
bool LogEnabled(LogLevel level);
bool IsLogJson();

/// Writes "2024-05-01T12:00:00.123Z W gang[gen=3] host=b: text" in one write(2), so that lines
/// never mix. `where`: the component, and what it is about. Does not look at the level. Blocks
/// while stderr is full, unless a LogSink takes the line; a failed write is ignored.
void LogMessage(LogLevel level, std::string_view where, std::string_view text);

/// Logs a formatted message, if `level` is enabled.
template <typename... Args>
void Log(LogLevel level, std::string_view where, fmt::format_string<Args...> format,
         Args&&... args) {
  if (LogEnabled(level)) {
    LogMessage(level, where, fmt::format(format, std::forward<Args>(args)...));
  }
}

/// While it lives, passes this thread's log lines (without line end) to `take` instead of stderr,
/// so that they keep their place among other output. What `take` itself logs goes to stderr. At
/// most one per thread; destroy it on the thread that made it.
class LogSink {
 public:
  explicit LogSink(std::function<void(std::string_view line)> take);
  ~LogSink();
  LogSink(const LogSink&) = delete;
  LogSink& operator=(const LogSink&) = delete;

 private:
  std::function<void(std::string_view)> take_;
};

/// A notice: "hvdray run: text", with "warning: " before the text at kWarning; or an object as
/// LogMessage() writes it. `who`: the speaker. The log's level does not matter. No line end.
std::string NoticeLine(LogLevel level, std::string_view who, std::string_view text);

/// Writes a notice to stderr in one write(2).
void Tell(LogLevel level, std::string_view who, std::string_view text);

}  // namespace hvdray

#endif  // HVDRAY_BASE_LOG_H_
