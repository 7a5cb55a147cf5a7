// SPDX-License-Identifier: Apache-2.0
// The stream file of a job on Ray: everything for stdout and stderr, as records of one file that
// the client reads by offset (docs/ray.md, "Following, stopping, leaving"), and its reader, which
// takes pieces of any size, as they arrive from the network.
#ifndef HVDRAY_LAUNCHER_REPORT_STREAM_FILE_H_
#define HVDRAY_LAUNCHER_REPORT_STREAM_FILE_H_

#include <array>
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "base/result.h"
#include "base/status.h"
#include "base/types.h"

namespace hvdray {

/// Kind of a record. The values are part of the file format.
enum class RecordKind : uint8_t {
  kStdout = 1,
  kStderr = 2,
  kEnd = 3,      ///< The last record: JSON {"exit_code": N, "error": {...} or null}.
  kPlaces = 4,   ///< The ranks of the next record's bytes; see PlacesOfRecord.
  kNext = 5,     ///< The last record of this file: decimal digits N; "<name>.N" continues it.
  kControl = 6,  ///< For the client of `hvdray serve --ray-address`; see FormatControl().
};

/// `u8 kind | u32 length, little-endian | bytes`. Bytes: below 4 GiB.
std::string FormatRecordHeader(RecordKind kind, size_t length);

/// Appends one record to a plain file that has no other writer; with `places`, a kPlaces record
/// before it. Blocks. Returns 0 or errno; on failure removes partial records, so that later ones
/// can still be read.
int AppendRecord(int fd, RecordKind kind, ByteView bytes, ByteView places = {});

// Ranks of the bytes in the stream file of a job on Ray: a kPlaces record before each record of
// output maps its bytes to ranks, so that a client can write the files of --output-filename. Pure.

struct RecordPlace {
  static constexpr int kNobody = -1;
  int rank = kNobody;       ///< kNobody: a line of hvdray itself.
  uint64_t length = 0;      ///< Number of its bytes.
  bool is_emptied = false;  ///< No bytes: its file is emptied here.

  friend bool operator==(const RecordPlace&, const RecordPlace&) = default;
};

/// Content of a kPlaces record: the next record of `stream`, in the order of its bytes.
struct PlacesOfRecord {
  RecordKind stream = RecordKind::kStdout;
  int np = 1;  ///< See JobOutputOptions.
  std::vector<RecordPlace> places;
};

/// The bytes of a kPlaces record: `u8 stream | u32 np`, then for each place `u32 rank | u32
/// length`, all little-endian; rank 2^32-1: kNobody; length 2^32-1: the file is emptied.
std::string FormatPlaces(const PlacesOfRecord& record);
/// The reverse of FormatPlaces(). Errors: kProtocolError for what no driver writes.
Result<PlacesOfRecord> ParsePlaces(ByteView bytes);

/// The bytes of a kControl record: `u64 offset, little-endian | message`: one whole message of
/// docs/serve.md, and how many bytes of messages came before it, so that a reader notices when some
/// are missing. `message`: of 1 to kMaxControlMessage bytes.
std::string FormatControl(uint64_t offset, ByteView message);
/// A line, and the blob of a `data` message.
inline constexpr size_t kMaxControlMessage = (size_t{1} << 20) + (size_t{64} << 10);

/// Collects the places of a record while it is assembled. Threads: one.
class RecordPlaces {
 public:
  RecordPlaces(RecordKind stream, int np) : record_{stream, np, {}} {}

  /// [begin, end) of the record's bytes are this rank's; not before those of the last call.
  void Add(int rank, size_t begin, size_t end);
  /// Its file is emptied, after everything added so far.
  void Empty(int rank);
  /// Formatted; empty if there are no places. Begins the next record.
  std::string Take();

 private:
  PlacesOfRecord record_;
  size_t end_ = 0;  // of the bytes with a place
};

/// Content of the kEnd record.
struct StreamEnd {
  int exit_code = 0;
  std::string error_code = {};     ///< "HVD-E0208"; empty: none.
  std::string error_message = {};  ///< One line.
};

/// Calls handlers as it reads. Holds at most one small record. Threads: one.
class RecordReader {
 public:
  struct Handlers {
    /// Bytes for stdout or stderr, in the order of the file; a record may come in parts.
    std::function<void(RecordKind kind, ByteView bytes)> on_output;
    /// The last record. Ignores what follows it.
    std::function<void(StreamEnd end)> on_end;
    /// Ranks of the next record's bytes. May be null.
    std::function<void(PlacesOfRecord record)> on_places = nullptr;
    /// The stream continues in another file. Ignores the rest of this piece; the next Feed() takes
    /// that file's bytes.
    std::function<void(uint32_t file)> on_next = nullptr;
    /// A message, and how many bytes of messages the driver had written before. May be null.
    /// Errors are faults of the stream.
    std::function<Status(ByteView message, uint64_t offset)> on_control = nullptr;
  };
  explicit RecordReader(Handlers handlers) : handlers_(std::move(handlers)) {}

  /// Skips records of unknown kinds. Errors: kProtocolError for what no driver writes, those of
  /// on_control; every later call returns the same.
  Status Feed(ByteView piece);

  bool is_at_end() const { return is_at_end_; }

 private:
  static constexpr size_t kHeaderBytes = 5;
  static constexpr size_t kMaxEndBytes = size_t{1} << 20;
  static constexpr size_t kMaxPlacesBytes = size_t{8} << 20;
  static constexpr size_t kMaxNextBytes = 10;
  Status BeginRecord();
  bool IsKept() const {
    return kind_ == RecordKind::kEnd || kind_ == RecordKind::kPlaces ||
           kind_ == RecordKind::kNext || kind_ == RecordKind::kControl;
  }
  size_t MostBytes() const;
  Status Finish();
  Status FinishEnd();
  Status FinishNext();
  Status FinishControl();

  Handlers handlers_;
  std::array<char, kHeaderBytes> header_{};
  size_t header_size_ = 0;  // bytes of it so far
  RecordKind kind_{};       // of the record that the next bytes belong to
  uint64_t rest_ = 0;       // of that record
  std::string kept_;        // of a record that is parsed only when complete
  bool is_at_end_ = false;
  bool is_file_done_ = false;
  Status fault_;
};

}  // namespace hvdray

#endif  // HVDRAY_LAUNCHER_REPORT_STREAM_FILE_H_
