// SPDX-License-Identifier: Apache-2.0
// The adapter of libzip: makes zip archives in memory. The same entries give the same bytes.
#ifndef HVDRAY_BASE_ZIP_H_
#define HVDRAY_BASE_ZIP_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>

#include "base/result.h"

namespace hvdray {

/// How hard to compress an entry. kFast packs 100 MB/s or more on one core.
enum class ZipEffort : uint8_t { kFast, kUsual };

/// Keeps entries in the order of the calls, without times, with permission bits (as Unix external
/// attributes). Threads: one caller at a time. Move-only.
class ZipWriter {
 public:
  /// `limit_bytes`: for the whole archive.
  explicit ZipWriter(size_t limit_bytes);
  ZipWriter(ZipWriter&&) noexcept;
  ZipWriter& operator=(ZipWriter&&) noexcept;
  ~ZipWriter();

  // `name`: UTF-8, '/' between directories but not at the ends. `mode`: permission bits.
  // Errors: kUsage for a duplicate name or one that is not UTF-8, kOutOfResources.

  Status AddDirectory(const std::string& name, uint16_t mode);
  Status AddBytes(const std::string& name, uint16_t mode, std::string bytes,
                  ZipEffort effort = ZipEffort::kUsual);
  /// Finish() reads the file at `path`.
  Status AddFile(const std::string& name, uint16_t mode, const std::string& path,
                 ZipEffort effort = ZipEffort::kUsual);

  /// The archive. Call once, last. Blocks: reads and compresses everything. Errors:
  /// kPackageTooLarge, kFileUnreadable, kOutOfResources, kUsage without entries.
  Result<std::string> Finish();

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace hvdray

#endif  // HVDRAY_BASE_ZIP_H_
