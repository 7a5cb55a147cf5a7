// SPDX-License-Identifier: Apache-2.0
// The one door to libzip: makes zip archives in memory, the same bytes for the same entries.
#ifndef HVDRAY_BASE_ZIP_H_
#define HVDRAY_BASE_ZIP_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>

#include "base/result.h"

namespace hvdray {

/// How hard an entry is compressed: kFast packs 100 MB/s and more on one core.
enum class ZipEffort : uint8_t { kFast, kUsual };

/// Entries in the order of the calls. No times are kept; permission bits are, in the external
/// attributes as Unix has them. Threads: one caller at a time. Move-only.
class ZipWriter {
 public:
  /// No archive may be larger than this.
  explicit ZipWriter(size_t limit_bytes);
  ZipWriter(ZipWriter&&) noexcept;
  ZipWriter& operator=(ZipWriter&&) noexcept;
  ~ZipWriter();

  // `name`: UTF-8, with '/' between directories, not at the ends. `mode`: permission bits. Errors:
  // kUsage for a name that is there already or no UTF-8, kOutOfResources.
  Status AddDirectory(const std::string& name, uint16_t mode);
  Status AddBytes(const std::string& name, uint16_t mode, std::string bytes,
                  ZipEffort effort = ZipEffort::kUsual);
  /// The file is read by Finish().
  Status AddFile(const std::string& name, uint16_t mode, const std::string& path,
                 ZipEffort effort = ZipEffort::kUsual);

  /// The archive. Blocks: reads and compresses everything. Call once. Errors: kPackageTooLarge,
  /// kFileUnreadable, kOutOfResources.
  Result<std::string> Finish();

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace hvdray

#endif  // HVDRAY_BASE_ZIP_H_
