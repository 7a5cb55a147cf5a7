// --events FILE: one JSON object a line, written as things happen (docs/report.md has the schema).
// Observes only; never blocks the loop.
#ifndef HVDRAY_LAUNCHER_REPORT_EVENT_LOG_H_
#define HVDRAY_LAUNCHER_REPORT_EVENT_LOG_H_

#include <chrono>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "base/json.h"
#include "base/loop.h"
#include "base/result.h"
#include "launcher/driver/elastic_events.h"
#include "wire/message.h"

namespace hvdray {

inline constexpr std::string_view kEventsSchema = "hvdray.events/1";

struct EventLogOptions {
  std::string path;
  std::string option = "--events";  ///< Names the path in messages.
  std::string job_id;
  std::string build;
  std::vector<std::string> command;
  int np = 0;
  /// Names, by the driver's index. Empty for an elastic job: its hosts become known as they come.
  std::vector<std::string> hosts;
  TimePoint began{};  ///< When hvdray was called: `time` counts from here.
  std::chrono::system_clock::time_point began_wall{};
  /// Once, from the loop or from within a call: the file can't be written whole.
  std::function<void(Status)> on_damaged;
};

/// Threads: the loop's.
class EventLog {
 public:
  /// Opens (a named pipe: waits for its reader), truncates, and writes the first line. Call before
  /// anything is started. Errors: kFileUnwritable.
  static Result<std::unique_ptr<EventLog>> Open(Loop& loop, EventLogOptions options);
  ~EventLog();

  /// Feed every fact and every effect, in order. Tick and Say{} give no line.
  void OnEvent(const Event& event, TimePoint now);
  void OnEffect(const Effect& effect, TimePoint now);
  /// The same for an elastic job.
  void OnEvent(const ElasticEvent& event, TimePoint now);
  void OnEffect(const ElasticEffect& effect, TimePoint now);
  /// What an agent answered to effect::BreakConnections; `host`: its number in the registry.
  void OnConnectionsBroken(int host, Generation generation, const wire::ConnectionsBroken& broken,
                           TimePoint now);

 private:
  struct Impl;
  explicit EventLog(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

}  // namespace hvdray

#endif  // HVDRAY_LAUNCHER_REPORT_EVENT_LOG_H_
