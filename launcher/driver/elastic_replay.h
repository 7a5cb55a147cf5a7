// SPDX-License-Identifier: Apache-2.0
// Runs ElasticDriver over a recording in virtual time and checks its rules. Pure: lines in, a
// result out; launcher/report/replay_text.h prints it.
#ifndef HVDRAY_LAUNCHER_DRIVER_ELASTIC_REPLAY_H_
#define HVDRAY_LAUNCHER_DRIVER_ELASTIC_REPLAY_H_

#include <deque>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "launcher/driver/elastic_invariants.h"
#include "launcher/driver/elastic_record.h"

namespace hvdray {

/// One step to print: a state change, a new generation, or a line that the driver printed.
struct ReplayStep {
  enum class Kind : uint8_t { kState, kGeneration, kSaid };
  Kind kind = Kind::kState;
  uint64_t line = 0;  ///< Line number in the recording, from 1.
  Duration at{};      ///< Since the driver's construction.
  std::string text;   ///< One line.
  // Of kState.
  std::string_view from, to;
  // Of kGeneration.
  Generation generation = 0;
  int size = 0;
};

/// What a replay found, by value.
struct ReplayResult {
  RecordHeader header;
  std::vector<ReplayStep> steps;
  uint64_t events = 0;
  Generation generations = 0;  ///< Published ones.
  Duration lasted{};           ///< From construction to the last event.
  bool is_cut = false;         ///< The last line is incomplete: the launcher was killed.
  std::optional<RecordedEnd> recorded_end;
  std::optional<RecordedEnd> end;  ///< nullopt: the job has not ended.
  /// Rules broken by the first bad event, at line `broken_line`; empty: all held.
  std::vector<std::string> broken;
  uint64_t broken_line = 0;
  /// If a rule broke: `broken_line` and the lines just before it, each cut to a screen's width or
  /// two.
  std::vector<std::string> recent;
  /// Number of the first of them.
  uint64_t first_recent() const { return broken_line + 1 - recent.size(); }
  /// Differences between recorded and replayed end, one line each.
  std::vector<std::string> differences;
  /// The rules held and the end is as recorded.
  bool is_well() const { return broken.empty() && differences.empty(); }
};

/// Feed it a recording line by line, then call Finish(). Owns its driver. Threads: one.
class ElasticReplay {
 public:
  enum class Line : uint8_t { kWhole, kUnended };  ///< kUnended: end of file without '\n'.

  /// `file_name` appears only in messages.
  explicit ElasticReplay(std::string file_name);
  ~ElasticReplay();

  /// Takes one line. False: a rule is broken; further lines are ignored. Errors: kSpecInvalid with
  /// file:line; do not call Finish() then. A kUnended line may be damaged.
  Result<bool> Feed(ByteView text, Line line);
  /// Call once, after the last line. Errors: kSpecInvalid if there was no first line.
  Result<ReplayResult> Finish();

 private:
  void Begin(RecordHeader header);
  void Replay(const RecordedEvent& recorded);
  void Compare(const RecordedEnd& recorded);
  void Note(ReplayStep::Kind kind, std::string text);
  void Remember(ByteView text);

  const std::string file_name_;
  RecordDecoder decoder_;
  std::unique_ptr<ElasticDriver> driver_;
  std::unique_ptr<ElasticInvariants> invariants_;
  std::deque<std::string> recent_;
  ReplayResult result_;
  Duration now_{};
};

}  // namespace hvdray

#endif  // HVDRAY_LAUNCHER_DRIVER_ELASTIC_REPLAY_H_
