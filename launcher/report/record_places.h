// Whose bytes are in the stream file of a job on Ray: with each record of output goes one that says
// which of its bytes are of which rank, so that a client can write the files of --output-filename
// from it. Pure.
#ifndef HVDRAY_LAUNCHER_REPORT_RECORD_PLACES_H_
#define HVDRAY_LAUNCHER_REPORT_RECORD_PLACES_H_

#include <cstdint>
#include <string>
#include <vector>

#include "base/result.h"
#include "base/types.h"
#include "launcher/report/record_file.h"

namespace hvdray {

struct RecordPlace {
  static constexpr int kNobody = -1;
  int rank = kNobody;       ///< kNobody: a line of hvdray's own.
  uint64_t length = 0;      ///< Of the bytes that are its.
  bool is_emptied = false;  ///< No bytes: its file begins anew here.

  friend bool operator==(const RecordPlace&, const RecordPlace&) = default;
};

/// What one record of kind kPlaces says of the next record of `stream`, in the order of its bytes.
struct PlacesOfRecord {
  RecordKind stream = RecordKind::kStdout;
  int np = 1;  ///< See JobOutputOptions.
  std::vector<RecordPlace> places;
};

/// The bytes of a kPlaces record: `u8 stream | u32 np`, then for each place `u32 rank | u32
/// length`, all little-endian; rank 2^32-1: nobody's; length 2^32-1: the file is emptied.
std::string FormatPlaces(const PlacesOfRecord& record);
/// Errors: kProtocolError for what no driver writes.
Result<PlacesOfRecord> ParsePlaces(ByteView bytes);

/// Collects the places of the record that is being put together.
class RecordPlaces {
 public:
  RecordPlaces(RecordKind stream, int np) : record_{stream, np, {}} {}

  /// [begin, end) of the record's bytes are of this rank; later than those of the last call.
  void Add(int rank, size_t begin, size_t end);
  /// Its file begins anew, behind all that was added.
  void Empty(int rank);
  /// Formatted; empty when there is nothing to say. Begins the next record.
  std::string Take();

 private:
  PlacesOfRecord record_;
  size_t end_ = 0;  // of the bytes that have a place
};

}  // namespace hvdray

#endif  // HVDRAY_LAUNCHER_REPORT_RECORD_PLACES_H_
