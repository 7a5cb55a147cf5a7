// Runs ElasticDriver over a recording in virtual time and holds it to its rules. Pure: lines in,
// a result out; shown by launcher/report/replay_text.h.
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

/// Something that a reader wants to see.
struct ReplayStep {
  enum class Kind : uint8_t { kState, kGeneration, kSaid };
  Kind kind = Kind::kState;
  uint64_t line = 0;  ///< Of the recording, from 1.
  Duration at{};      ///< Since the driver's construction.
  std::string text;   ///< One line.
  // Of kState.
  std::string_view from, to;
  // Of kGeneration.
  Generation generation = 0;
  int size = 0;
};

/// A line of the recording, cut to a screen's width or two.
struct RecentLine {
  uint64_t line = 0;
  std::string text;
};

struct ReplayResult {
  RecordHeader header;
  std::vector<ReplayStep> steps;
  uint64_t events = 0;
  Generation generations = 0;  ///< That were published.
  Duration lasted{};           ///< Until the last event.
  bool is_cut = false;         ///< The last line is not whole: the launcher was killed.
  std::optional<RecordedEnd> recorded_end;
  std::optional<RecordedEnd> end;  ///< nullopt: the job has not ended.
  /// The first rules that were broken, by the event of line `broken_line`; empty: all held.
  std::vector<std::string> broken;
  uint64_t broken_line = 0;
  std::vector<RecentLine> recent;  ///< When one was broken: that line and those before it.
  /// What of the end is not as it was recorded, in words.
  std::vector<std::string> differences;
  bool is_well() const { return broken.empty() && differences.empty(); }
};

/// Feed it a recording line by line, then take the result. Threads: one.
class ElasticReplay {
 public:
  enum class Line : uint8_t { kWhole, kUnended };  ///< kUnended: the file ends within it.

  /// `file_name` is only for messages.
  explicit ElasticReplay(std::string file_name);
  ~ElasticReplay();

  /// false: a rule is broken, nothing more is taken. Errors: kSpecInvalid with file:line; then
  /// there is no result. A last line that the file ends within may be damaged.
  Result<bool> Feed(ByteView text, Line line);
  /// Behind the last line, once. Errors: kSpecInvalid when there was no first line.
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
  std::deque<RecentLine> recent_;
  ReplayResult result_;
  Duration now_{};
};

}  // namespace hvdray

#endif  // HVDRAY_LAUNCHER_DRIVER_ELASTIC_REPLAY_H_
