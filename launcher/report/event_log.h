// SPDX-License-Identifier: Apache-2.0
// --events FILE: one JSON object per line, written as things happen; schema in docs/report.md,
// "Events". Observes only; never blocks the loop.
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
#include "launcher/driver/events.h"
#include "wire/message.h"

namespace hvdray {

inline constexpr std::string_view kEventsSchema = "hvdray.events/1";

/// Settings of an event log; the first line is made from them.
struct EventLogOptions {
  std::string path;
  std::string option = "--events";  ///< Names the path in messages.
  std::string job_id;
  std::string build;
  std::vector<std::string> command;
  int np = 0;
  /// Host names, by the driver's index. Empty for an elastic job: it learns them later.
  std::vector<std::string> hosts;
  TimePoint began{};  ///< When hvdray was called: `time` counts from here.
  std::chrono::system_clock::time_point began_wall{};
  /// Called once, maybe from within a call: the file can't be written whole (kOutputLost). Must not
  /// destroy the log.
  std::function<void(Status)> on_damaged;
  /// Gets every line, too; may be empty.
  std::function<void(const Json&)> sink = {};
};

/// Owns the file. Threads: the loop's.
class EventLog {
 public:
  /// Without a path, there is only the sink. Opens (a named pipe: waits for its reader), truncates,
  /// and writes the first line. Call before anything is started. Errors: kFileUnwritable.
  static Result<std::unique_ptr<EventLog>> Open(Loop& loop, EventLogOptions options);
  ~EventLog();

  /// Call for every fact and effect, in order. Tick and Say give no line.
  void OnEvent(const Event& event, TimePoint now);
  void OnEffect(const Effect& effect, TimePoint now);
  /// The same for an elastic job.
  void OnEvent(const ElasticEvent& event, TimePoint now);
  void OnEffect(const ElasticEffect& effect, TimePoint now);
  /// An agent's answer to effect::BreakConnections; `host`: its number in the registry.
  void OnConnectionsBroken(int host, Generation generation, const wire::ConnectionsBroken& broken,
                           TimePoint now);
  /// Modules were imported on a host before the workers of `generation`, or could not be.
  void OnWarmed(std::string_view host, Generation generation, const wire::Warmed& warmed,
                TimePoint now);
  /// A worker's `number`-th report, from 1.
  void OnReport(Generation generation, int rank, uint32_t number, const Json& metrics,
                TimePoint now);
  /// The same for an elastic job.
  void OnReport(WorkerId worker, uint32_t number, const Json& metrics, TimePoint now);

 private:
  struct Impl;
  explicit EventLog(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

}  // namespace hvdray

#endif  // HVDRAY_LAUNCHER_REPORT_EVENT_LOG_H_
