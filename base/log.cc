#include "base/log.h"

#include <sys/time.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <ctime>
#include <string>
#include <utility>

namespace hvdray {
namespace {

std::atomic<LogLevel> g_level{LogLevel::kWarning};
std::atomic<LogFormat> g_format{LogFormat::kText};
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

// JSON text of bytes that need not be UTF-8: what is not printable ASCII is escaped byte by byte.
std::string Quote(std::string_view text) {
  std::string out = "\"";
  for (const char c : text) {
    const auto byte = static_cast<unsigned char>(c);
    if (c == '"' || c == '\\') {
      out += '\\';
      out += c;
    } else if (byte < 0x20 || byte >= 0x7f) {
      out += fmt::format("\\u{:04x}", byte);
    } else {
      out += c;
    }
  }
  return out + '"';
}

}  // namespace

void SetLogLevel(LogLevel level) { g_level.store(level, std::memory_order_relaxed); }
void SetLogFormat(LogFormat format) { g_format.store(format, std::memory_order_relaxed); }
bool LogEnabled(LogLevel level) { return level <= g_level.load(std::memory_order_relaxed); }

LogSink::LogSink(std::function<void(std::string_view)> take) : take_(std::move(take)) {
  t_sink = &take_;
}
LogSink::~LogSink() { t_sink = nullptr; }

void LogMessage(LogLevel level, std::string_view where, std::string_view text) {
  const std::string_view name = kLevelNames[static_cast<size_t>(level)];
  std::string line;
  if (g_format.load(std::memory_order_relaxed) == LogFormat::kJson) {
    line = fmt::format(R"({{"time":"{}","level":"{}","where":{},"message":{}}})", Stamp(), name,
                       Quote(where), Quote(text));
  } else {
    line =
        fmt::format("{} {} {}: {}", Stamp(), static_cast<char>(name[0] - 'a' + 'A'), where, text);
  }
  if (t_sink != nullptr) {
    // What is logged while the sink works goes to stderr: it must not go round.
    const auto* const sink = std::exchange(t_sink, nullptr);
    (*sink)(line);
    t_sink = sink;
    return;
  }
  line += '\n';
  // A log that can't be written can't be reported either.
  (void)!::write(STDERR_FILENO, line.data(), line.size());
}

}  // namespace hvdray
