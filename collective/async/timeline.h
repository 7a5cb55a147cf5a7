// SPDX-License-Identifier: Apache-2.0
// Horovod's timeline: a file of Chrome's trace events, a row for each name. docs of the events:
// docs/timeline.rst of Horovod 0.28; chrome://tracing and Perfetto show it.
#ifndef HVDRAY_COLLECTIVE_ASYNC_TIMELINE_H_
#define HVDRAY_COLLECTIVE_ASYNC_TIMELINE_H_

#include <atomic>
#include <mutex>
#include <string>
#include <string_view>
#include <unordered_map>

#include "base/fd.h"
#include "base/status.h"
#include "base/types.h"
#include "collective/async/request.h"

namespace hvdray {

/// The file is whole at any moment, whatever ends the process: "]" is written with all that has
/// happened, and again behind what comes then.
/// Threads: any. Where it is off, calls cost a load.
class Timeline {
 public:
  ~Timeline() { (void)Stop(); }

  /// Errors: kUsage when it is on, kFileUnwritable.
  Status Start(const std::string& path, bool marks_cycles);
  /// Ends the file. Off: nothing. Errors: kFileUnwritable when not all could be written.
  Status Stop();
  bool is_on() const { return is_on_.load(std::memory_order_relaxed); }

  /// A round begins.
  void Cycle();
  /// A rank has submitted it.
  void Arrived(int rank, const Request& request);
  /// It is there on all ranks: its operation begins.
  void Begin(const Request& request);
  /// A part of the operation, "MEMCPY_IN_FUSION_BUFFER", until EndPart().
  void BeginPart(const Request& request, std::string_view part);
  void EndPart(const Request& request);
  void End(const Request& request);
  /// Writes what has happened.
  void Flush();

 private:
  struct Row {
    int number = 0;
    bool is_negotiating = false;
  };
  Row& RowOf(const Request& request);
  void WriteOut();
  void Write(std::string_view phase, int row, std::string_view name, std::string_view rest = "");

  std::atomic<bool> is_on_{false};
  std::mutex mutex_;
  UniqueFd file_;
  off_t written_ = 0;  ///< Without the "]".
  std::string unwritten_;
  bool is_damaged_ = false;
  bool marks_cycles_ = false;
  TimePoint start_;
  std::unordered_map<std::string, Row> rows_;
};

}  // namespace hvdray

#endif  // HVDRAY_COLLECTIVE_ASYNC_TIMELINE_H_
