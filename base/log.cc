// SPDX-License-Identifier: Apache-2.0
#include "base/log.h"

#include <sys/time.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <ctime>
#include <string>
#include <utility>

#include "base/text.h"

namespace hvdray {
namespace {

std::atomic<LogLevel> g_level{LogLevel::kWarning};
std::atomic<bool> g_is_json{false};
thread_local const std::function<void(std::string_view)>* t_sink = nullptr;

constexpr std::array<std::string_view, 4> kLevelNames = {"error", "warn", "info", "debug"};

std::string Stamp() {
  timeval now{};
  ::gettimeofday(&now, nullptr);
  tm utc{};
  ::gmtime_r(&now.tv_sec, &utc);
  return fmt::format("{:04d}-{:02d}-{:02d}T{:02d}:{:02d}:{:02d}.{:03d}Z", utc.tm_year + 1900,
                     utc.tm_mon + 1, utc.tm_mday, utc.tm_hour, utc.tm_min, utc.tm_sec,
                     now.tv_usec / 1000);
}

// A JSON string of any bytes: escapes control bytes, and each byte that is not UTF-8. The core does
// not link the JSON library.
std::string Quote(std::string_view text) {
  std::string out = "\"";
  while (!text.empty()) {
    const auto byte = static_cast<unsigned char>(text.front());
    const size_t length = byte < 0x80 ? 1 : Utf8Length(text);
    if (byte == '"' || byte == '\\') out += '\\';
    if (byte < 0x20 || byte == 0x7f || length == 0) {
      out += fmt::format("\\u{:04x}", byte);
    } else {
      out += text.substr(0, length);
    }
    text.remove_prefix(std::max<size_t>(length, 1));
  }
  return out + '"';
}

std::string JsonLine(LogLevel level, std::string_view where, std::string_view text) {
  return fmt::format(R"({{"time":"{}","level":"{}","where":{},"message":{}}})", Stamp(),
                     kLevelNames[static_cast<size_t>(level)], Quote(where), Quote(text));
}

void WriteToStderr(std::string line) {
  line += '\n';
  // A failure to write here can't be reported either.
  (void)!::write(STDERR_FILENO, line.data(), line.size());
}

}  // namespace

void SetLogLevel(LogLevel level) { g_level.store(level, std::memory_order_relaxed); }
void SetLogJson(bool is_json) { g_is_json.store(is_json, std::memory_order_relaxed); }
bool LogEnabled(LogLevel level) { return level <= g_level.load(std::memory_order_relaxed); }
bool IsLogJson() { return g_is_json.load(std::memory_order_relaxed); }

std::string NoticeLine(LogLevel level, std::string_view who, std::string_view text) {
  if (IsLogJson()) return JsonLine(level, who, text);
  std::string shown = fmt::format("{}: {}", who, level == LogLevel::kWarning ? "warning: " : "");
  // Words and files that the user was given are somebody else's text, too.
  const char* separator = "";
  for (const std::string_view line : LinesOf(text)) {
    shown += std::exchange(separator, "\n") + ShownLine(line);
  }
  return shown;
}

void Tell(LogLevel level, std::string_view who, std::string_view text) {
  WriteToStderr(NoticeLine(level, who, text));
}

LogSink::LogSink(std::function<void(std::string_view)> take) : take_(std::move(take)) {
  t_sink = &take_;
}
LogSink::~LogSink() { t_sink = nullptr; }

void LogMessage(LogLevel level, std::string_view where, std::string_view text) {
  const std::string_view name = kLevelNames[static_cast<size_t>(level)];
  std::string line;
  if (IsLogJson()) {
    line = JsonLine(level, where, text);
  } else {
    line = fmt::format("{} {} {}: {}", Stamp(), static_cast<char>(name[0] - 'a' + 'A'), where,
                       ShownLine(text));
  }
  if (t_sink != nullptr) {
    // A sink that logs must not call itself.
    const auto* const sink = std::exchange(t_sink, nullptr);
    (*sink)(line);
    t_sink = sink;
    return;
  }
  WriteToStderr(std::move(line));
}

}  // namespace hvdray
