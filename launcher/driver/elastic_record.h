// SPDX-License-Identifier: Apache-2.0
// The recording of an elastic job, schema hvdray.record/1: one JSON object a line, enough to run
// ElasticDriver over the same facts again (docs/replay.md). Pure: text in, values out.
#ifndef HVDRAY_LAUNCHER_DRIVER_ELASTIC_RECORD_H_
#define HVDRAY_LAUNCHER_DRIVER_ELASTIC_RECORD_H_

#include <string>
#include <string_view>
#include <utility>
#include <variant>

#include "base/json.h"
#include "base/result.h"
#include "launcher/driver/elastic_driver.h"

namespace hvdray {

inline constexpr std::string_view kRecordSchema = "hvdray.record/1";
/// A list of 100,000 hosts fits; a longer line is damage.
inline constexpr size_t kMaxRecordLineBytes = size_t{16} << 20;
/// Largest time and duration in a recording, so that their sums stay in range.
inline constexpr Duration kLongestRecordedTime = std::chrono::hours(24 * 365 * 30);

/// The first line: what ElasticDriver is constructed with.
struct RecordHeader {
  std::string build;  ///< The recording build, "hvdray 0.1.0 (abc1234)".
  std::string job_id;
  ElasticPolicy policy;
  uint64_t jitter_seed = 0;
};

/// One fact that the driver got. `at` counts from the driver's construction.
struct RecordedEvent {
  Duration at{};
  ElasticEvent event;
};

/// The last line, when the job ended before the recording did: how it ended.
struct RecordedEnd {
  Duration at{};
  int exit_code = 0;
  ErrorCode error = ErrorCode::kOk;
  Generation generation = 0;
  int size = 0;
  uint32_t resets = 0;
  uint64_t stale_events = 0;
  bool operator==(const RecordedEnd&) const = default;
};

/// Builds the last line from the driver's verdict and final snapshot.
RecordedEnd EndOf(const Verdict& verdict, const ElasticSnapshot& snapshot, Duration at);

/// One line each, without the newline. Of a host's facts only its name and offered port are kept.
/// Times are clamped to [0, kLongestRecordedTime]. Bytes that are not UTF-8 become U+FFFD.
std::string EncodeHeader(const RecordHeader& header);
std::string EncodeEvent(const ElasticEvent& event, Duration at);
std::string EncodeEnd(const RecordedEnd& end);

/// Any line after the first.
using RecordLine = std::variant<RecordedEvent, RecordedEnd>;

/// Reads a recording line by line, in order. Unknown keys are ignored; settings missing in the
/// header take their defaults; everything else is required and checked. Threads: one.
class RecordDecoder {
 public:
  /// `file_name` appears only in messages.
  explicit RecordDecoder(std::string file_name) : file_name_(std::move(file_name)) {}
  /// The first line. Errors: kSpecInvalid with file:line.
  Result<RecordHeader> Header(ByteView line);
  /// Any other line. Errors: kSpecInvalid with file:line, also for a time before the last one and
  /// for anything after the end.
  Result<RecordLine> Next(ByteView line);
  /// Number of the line read last, from 1.
  uint64_t line() const { return line_; }

 private:
  Status Wrong(std::string_view what) const;
  Result<Json> Parse(ByteView text) const;

  const std::string file_name_;
  uint64_t line_ = 0;
  Duration last_{};
  bool has_ended_ = false;
};

/// The fact's name in recordings, such as "host_ready".
std::string_view Name(const ElasticEvent& event);

}  // namespace hvdray

#endif  // HVDRAY_LAUNCHER_DRIVER_ELASTIC_RECORD_H_
