// SPDX-License-Identifier: Apache-2.0
// --record FILE: every fact that an elastic job's driver gets, written as it happens, so that
// `hvdray replay` can run it again (docs/replay.md). Observes only; never blocks the loop.
#ifndef HVDRAY_LAUNCHER_REPORT_RECORD_WRITER_H_
#define HVDRAY_LAUNCHER_REPORT_RECORD_WRITER_H_

#include <functional>
#include <memory>
#include <string>

#include "base/loop.h"
#include "base/result.h"
#include "launcher/driver/elastic_record.h"
#include "launcher/driver/events.h"
#include "launcher/report/line_file.h"

namespace hvdray {

/// Settings of a recording.
struct RecordOptions {
  std::string path;
  std::string option = "--record";  ///< Names the path in messages.
  RecordHeader header;              ///< Policy and seed exactly as the driver gets them.
  TimePoint began{};                ///< The `now` of the driver's construction.
  /// Called once, maybe from within a call: the file can't be written whole (kOutputLost). Must not
  /// destroy the log.
  std::function<void(Status)> on_damaged;
};

/// Owns the file. Destroying it writes the last lines, unless a pipe's reader takes nothing.
/// Threads: the loop's.
class RecordWriter {
 public:
  /// Opens (a named pipe: waits for its reader), truncates, and writes the first line. Call before
  /// anything is started. Errors: kFileUnwritable.
  static Result<std::unique_ptr<RecordWriter>> Open(Loop& loop, RecordOptions options);

  /// Call for every fact, also Tick, in the order and with the time of ElasticDriver::Handle().
  /// Call before Handle(), so that a fact that crashes the launcher is in the file.
  void OnEvent(const ElasticEvent& event, TimePoint now);
  /// Call after effect::Finish: writes the job's end as the last line.
  void OnEnd(const Verdict& verdict, const ElasticSnapshot& snapshot, TimePoint now);

 private:
  RecordWriter(TimePoint began, std::unique_ptr<LineFile> file);
  Duration Since(TimePoint now);

  const TimePoint began_;
  const std::unique_ptr<LineFile> file_;
  Duration last_{};
  bool has_ended_ = false;
};

}  // namespace hvdray

#endif  // HVDRAY_LAUNCHER_REPORT_RECORD_WRITER_H_
