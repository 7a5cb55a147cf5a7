// The stream file of a job whose person is elsewhere (on Ray): all that would have gone to stdout
// and stderr, as records of one file that the client reads by offset (docs/ray.md).
#ifndef HVDRAY_LAUNCHER_REPORT_RECORD_FILE_H_
#define HVDRAY_LAUNCHER_REPORT_RECORD_FILE_H_

#include <cstdint>
#include <string>

#include "base/types.h"

namespace hvdray {

/// Values are file format.
enum class RecordKind : uint8_t {
  kStdout = 1,
  kStderr = 2,
  kEnd = 3,     ///< The last one: JSON {"exit_code": N, "error": {...} or null}.
  kPlaces = 4,  ///< Whose the bytes of the next one are (record_places.h).
  kNext = 5,    ///< The last one of this file: decimal digits N; it goes on in "<name>.N".
};

/// `u8 kind | u32 length, little-endian | bytes`. Bytes: below 4 GiB.
std::string FormatRecordHeader(RecordKind kind, size_t length);

/// Appends one record to a plain file that nobody else writes to; with `places`, one of kPlaces
/// before it. Returns 0, or errno; then nothing of them is left in the file, so that a later one
/// can still be read.
int AppendRecord(int fd, RecordKind kind, ByteView bytes, ByteView places = {});

}  // namespace hvdray

#endif  // HVDRAY_LAUNCHER_REPORT_RECORD_FILE_H_
