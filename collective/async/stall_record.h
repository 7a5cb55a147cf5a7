// SPDX-License-Identifier: Apache-2.0
// What this rank lets the others wait for, where the launcher reads it when the job ends: so it
// can name the rank that hung, which has no error of its own to show.
#ifndef HVDRAY_COLLECTIVE_ASYNC_STALL_RECORD_H_
#define HVDRAY_COLLECTIVE_ASYNC_STALL_RECORD_H_

#include <span>
#include <string>

#include "base/types.h"

namespace hvdray {

/// Threads: one.
class StallRecord {
 public:
  /// `path`: TORCHELASTIC_ERROR_FILE. Used where hvdray has set it, which reads plain text there.
  explicit StallRecord(std::string path);

  /// `names`: of operations that waited `longest` for this rank; none: there is nothing to tell any
  /// more. What the program itself has recorded stays.
  void Keep(std::span<const std::string> names, Duration longest);
  bool is_written() const { return !written_.empty(); }

 private:
  const std::string path_;
  std::string written_;
};

}  // namespace hvdray

#endif  // HVDRAY_COLLECTIVE_ASYNC_STALL_RECORD_H_
