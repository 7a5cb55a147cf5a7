// --record FILE: everything that an elastic job's driver is told, written as it happens, so that
// `hvdray replay` can run it again (docs/replay.md). Observes only; never blocks the loop.
#ifndef HVDRAY_LAUNCHER_REPORT_RECORD_WRITER_H_
#define HVDRAY_LAUNCHER_REPORT_RECORD_WRITER_H_

#include <functional>
#include <memory>
#include <string>

#include "base/loop.h"
#include "base/result.h"
#include "launcher/driver/elastic_record.h"

namespace hvdray {

class LineFile;

struct RecordOptions {
  std::string path;
  std::string option = "--record";  ///< Names the path in messages.
  RecordHeader header;              ///< Policy and seed exactly as the driver is given them.
  TimePoint began{};                ///< The `now` of the driver's construction.
  /// Once, from the loop or from within a call: the file can't be written whole (kOutputLost).
  std::function<void(Status)> on_damaged;
};

/// Threads: the loop's.
class RecordWriter {
 public:
  /// Opens (a named pipe: waits for its reader), truncates, and writes the first line. Call before
  /// anything is started. Errors: kFileUnwritable.
  static Result<std::unique_ptr<RecordWriter>> Open(Loop& loop, RecordOptions options);
  /// The last lines are in the file, unless a pipe's reader takes nothing.
  ~RecordWriter();

  /// Every fact, Tick too, in the order and with the time given to ElasticDriver::Handle. Call it
  /// before Handle, so that a fact that brings the launcher down is in the file.
  void OnEvent(const ElasticEvent& event, TimePoint now);
  /// After effect::Finish: how the job ended. Nothing is written behind it.
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
