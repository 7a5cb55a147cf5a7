// SPDX-License-Identifier: Apache-2.0
// The stream file of a job on Ray: everything for stdout and stderr, as records of one file that
// the client reads by offset (docs/ray.md, "Following, stopping, leaving").
#ifndef HVDRAY_LAUNCHER_REPORT_RECORD_FILE_H_
#define HVDRAY_LAUNCHER_REPORT_RECORD_FILE_H_

#include <cstdint>
#include <string>

#include "base/types.h"

namespace hvdray {

/// Kind of a record. The values are part of the file format.
enum class RecordKind : uint8_t {
  kStdout = 1,
  kStderr = 2,
  kEnd = 3,     ///< The last record: JSON {"exit_code": N, "error": {...} or null}.
  kPlaces = 4,  ///< The ranks of the next record's bytes; see PlacesOfRecord.
  kNext = 5,    ///< The last record of this file: decimal digits N; "<name>.N" continues it.
};

/// `u8 kind | u32 length, little-endian | bytes`. Bytes: below 4 GiB.
std::string FormatRecordHeader(RecordKind kind, size_t length);

/// Appends one record to a plain file that has no other writer; with `places`, a kPlaces record
/// before it. Blocks. Returns 0 or errno; on failure removes partial records, so that later ones
/// can still be read.
int AppendRecord(int fd, RecordKind kind, ByteView bytes, ByteView places = {});

}  // namespace hvdray

#endif  // HVDRAY_LAUNCHER_REPORT_RECORD_FILE_H_
