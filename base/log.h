// SPDX-License-Identifier: Apache-2.0
// The log of hvdray itself, on stderr: one line a message, never worker output, never secrets.
#ifndef HVDRAY_BASE_LOG_H_
#define HVDRAY_BASE_LOG_H_

#include <fmt/format.h>

#include <cstdint>
#include <functional>
#include <string_view>

namespace hvdray {

enum class LogLevel : uint8_t { kError, kWarning, kInfo, kDebug };
enum class LogFormat : uint8_t { kText, kJson };

/// Messages above `level` are dropped; the default is kWarning. Threads: any.
void SetLogLevel(LogLevel level);
void SetLogFormat(LogFormat format);
bool LogEnabled(LogLevel level);

/// Takes the lines of this thread (without line end) instead of stderr while it lives, so that they
/// keep their place among other output and never block on a reader. One a thread; ends on the
/// thread that made it.
class LogSink {
 public:
  explicit LogSink(std::function<void(std::string_view line)> take);
  ~LogSink();
  LogSink(const LogSink&) = delete;
  LogSink& operator=(const LogSink&) = delete;

 private:
  std::function<void(std::string_view)> take_;
};

/// "2024-05-01T12:00:00.123Z W gang[gen=3] host=b: text" in one write(2), so lines never mix.
/// `where`: component and what it speaks of. Threads: any. Never blocks on a lock of ours.
void LogMessage(LogLevel level, std::string_view where, std::string_view text);

template <typename... Args>
void Log(LogLevel level, std::string_view where, fmt::format_string<Args...> format,
         Args&&... args) {
  if (LogEnabled(level)) {
    LogMessage(level, where, fmt::format(format, std::forward<Args>(args)...));
  }
}

}  // namespace hvdray

#endif  // HVDRAY_BASE_LOG_H_
