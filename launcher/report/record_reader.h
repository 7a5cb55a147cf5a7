// Takes the stream file of a job on Ray apart again (record_file.h), from pieces of any size, as
// they come off the network. Pure.
#ifndef HVDRAY_LAUNCHER_REPORT_RECORD_READER_H_
#define HVDRAY_LAUNCHER_REPORT_RECORD_READER_H_

#include <array>
#include <cstdint>
#include <functional>
#include <string>

#include "base/result.h"
#include "base/status.h"
#include "base/types.h"
#include "launcher/report/record_file.h"
#include "launcher/report/record_places.h"

namespace hvdray {

/// What the driver said last.
struct StreamEnd {
  int exit_code = 0;
  std::string error_code = {};     ///< "HVD-E0208"; empty: none.
  std::string error_message = {};  ///< One line.
};

class RecordReader {
 public:
  struct Handlers {
    /// Bytes for stdout or stderr, in the order of the file; a record may come in parts.
    std::function<void(RecordKind kind, ByteView bytes)> on_output;
    /// The last record. What follows it is not looked at.
    std::function<void(StreamEnd end)> on_end;
    /// Whose the bytes of the next record of a stream are. May be null.
    std::function<void(PlacesOfRecord record)> on_places = nullptr;
    /// The stream goes on in another file. What follows here is not looked at; Feed() takes that
    /// file's bytes from the next call on.
    std::function<void(uint32_t file)> on_next = nullptr;
  };
  explicit RecordReader(Handlers handlers) : handlers_(std::move(handlers)) {}

  /// Records of kinds that this build does not know are passed over. Errors: kProtocolError for
  /// what no driver writes; every later call says the same.
  Status Feed(ByteView piece);

  bool is_at_end() const { return is_at_end_; }

 private:
  static constexpr size_t kHeaderBytes = 5;
  static constexpr size_t kMaxEndBytes = size_t{1} << 20;
  static constexpr size_t kMaxPlacesBytes = size_t{8} << 20;
  static constexpr size_t kMaxNextBytes = 10;
  Status BeginRecord();
  bool IsKept() const {
    return kind_ == RecordKind::kEnd || kind_ == RecordKind::kPlaces || kind_ == RecordKind::kNext;
  }
  size_t MostBytes() const;
  Status Finish();
  Status FinishEnd();
  Status FinishNext();

  Handlers handlers_;
  std::array<char, kHeaderBytes> header_{};
  size_t header_size_ = 0;  // how much of it is there
  RecordKind kind_{};       // of the record that the next bytes belong to
  uint64_t rest_ = 0;       // of that record
  std::string kept_;        // of a record that is understood only when it is whole
  bool is_at_end_ = false;
  bool is_file_done_ = false;
  Status fault_;
};

}  // namespace hvdray

#endif  // HVDRAY_LAUNCHER_REPORT_RECORD_READER_H_
