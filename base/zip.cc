// SPDX-License-Identifier: Apache-2.0
#include "base/zip.h"

#include <fmt/format.h>
#include <sys/stat.h>
#include <zip.h>

#include <cerrno>
#include <cstring>
#include <deque>
#include <string_view>
#include <utility>

#include "base/text.h"

namespace hvdray {
namespace {

constexpr int kFastLevel = 1;
constexpr int kUsualLevel = 6;
// The first day that a zip archive can express: 1980-01-01.
constexpr uint16_t kFixedDate = (0 << 9) | (1 << 5) | 1;

/// Where libzip writes: memory with a limit.
struct Sink {
  std::string bytes;
  size_t position = 0;
  size_t limit = 0;
  bool is_too_large = false;
  bool has_archive = false;
  zip_error_t error{};

  zip_int64_t Write(const void* data, size_t size) {
    if (size > limit || position > limit - size) {
      is_too_large = true;
      ::zip_error_set(&error, ZIP_ER_WRITE, EFBIG);
      return -1;
    }
    if (bytes.size() < position + size) bytes.resize(position + size);
    std::memcpy(bytes.data() + position, data, size);
    position += size;
    return static_cast<zip_int64_t>(size);
  }
};

/// A libzip source that is only written to.
zip_int64_t OnSink(void* state, void* data, zip_uint64_t size, zip_source_cmd_t command) {
  auto* sink = static_cast<Sink*>(state);
  switch (command) {
    case ZIP_SOURCE_SUPPORTS:
      return ::zip_source_make_command_bitmap(
          ZIP_SOURCE_BEGIN_WRITE, ZIP_SOURCE_COMMIT_WRITE, ZIP_SOURCE_ERROR, ZIP_SOURCE_FREE,
          ZIP_SOURCE_REMOVE, ZIP_SOURCE_ROLLBACK_WRITE, ZIP_SOURCE_SEEK_WRITE, ZIP_SOURCE_STAT,
          ZIP_SOURCE_SUPPORTS, ZIP_SOURCE_TELL_WRITE, ZIP_SOURCE_WRITE, ZIP_SOURCE_OPEN,
          ZIP_SOURCE_READ, ZIP_SOURCE_CLOSE, ZIP_SOURCE_SEEK, ZIP_SOURCE_TELL, -1);
    case ZIP_SOURCE_STAT: {
      auto* stat = static_cast<zip_stat_t*>(data);
      ::zip_stat_init(stat);
      // ENOENT and ZIP_CREATE together make a new archive.
      if (!sink->has_archive) {
        ::zip_error_set(&sink->error, ZIP_ER_READ, ENOENT);
        return -1;
      }
      stat->size = sink->bytes.size();
      stat->valid |= ZIP_STAT_SIZE;
      return static_cast<zip_int64_t>(sizeof *stat);
    }
    case ZIP_SOURCE_WRITE:
      return sink->Write(data, size);
    case ZIP_SOURCE_TELL_WRITE:
      return static_cast<zip_int64_t>(sink->position);
    case ZIP_SOURCE_SEEK_WRITE: {
      const zip_int64_t target = ::zip_source_seek_compute_offset(
          sink->position, sink->bytes.size(), data, size, &sink->error);
      if (target < 0) return -1;
      sink->position = static_cast<size_t>(target);
      return 0;
    }
    case ZIP_SOURCE_ERROR:
      return ::zip_error_to_data(&sink->error, data, size);
    case ZIP_SOURCE_BEGIN_WRITE:
    case ZIP_SOURCE_ROLLBACK_WRITE:
      sink->bytes.clear();
      sink->position = 0;
      return 0;
    case ZIP_SOURCE_COMMIT_WRITE:
      sink->has_archive = true;
      return 0;
    case ZIP_SOURCE_FREE:
    case ZIP_SOURCE_REMOVE:
      return 0;
    default:
      ::zip_error_set(&sink->error, ZIP_ER_OPNOTSUPP, 0);
      return -1;
  }
}

}  // namespace

struct ZipWriter::Impl {
  Sink sink;
  std::deque<std::string> kept;  // the entries' bytes, which libzip reads in Finish()
  zip_t* archive = nullptr;      // nullptr after Finish()

  ~Impl() {
    if (archive != nullptr) ::zip_discard(archive);
    ::zip_error_fini(&sink.error);
  }

  Status Failed(std::string_view what) const {
    return {ErrorCode::kOutOfResources, fmt::format("pack {}: {}", what, ::zip_strerror(archive))};
  }

  /// Takes over `source`.
  Status Add(const std::string& name, uint16_t mode, zip_source_t* source, ZipEffort effort) {
    if (source == nullptr) return Failed(name);
    const zip_int64_t index = ::zip_file_add(archive, name.c_str(), source, ZIP_FL_ENC_UTF_8);
    if (index < 0) {
      ::zip_source_free(source);
      return Failed(name);
    }
    const auto at = static_cast<zip_uint64_t>(index);
    const int level = effort == ZipEffort::kFast ? kFastLevel : kUsualLevel;
    ::zip_set_file_compression(archive, at, ZIP_CM_DEFLATE, static_cast<zip_uint32_t>(level));
    SetMode(at, S_IFREG | mode);
    return {};
  }

  void SetMode(zip_uint64_t index, uint32_t mode) const {
    constexpr int kModeShift = 16;
    ::zip_file_set_external_attributes(archive, index, 0, ZIP_OPSYS_UNIX, mode << kModeShift);
    ::zip_file_set_dostime(archive, index, 0, kFixedDate, 0);
  }

  Status CheckName(const std::string& name) const {
    if (!IsUtf8(name)) {
      return {ErrorCode::kUsage, fmt::format("pack {}: the name is not UTF-8", name),
              "rename it, or leave it out"};
    }
    if (::zip_name_locate(archive, name.c_str(), 0) < 0) return {};
    return {ErrorCode::kUsage, fmt::format("pack {}: already in the archive", name)};
  }
};

ZipWriter::ZipWriter(size_t limit_bytes) : impl_(std::make_unique<Impl>()) {
  impl_->sink.limit = limit_bytes;
  ::zip_error_init(&impl_->sink.error);
  zip_error_t error{};
  ::zip_error_init(&error);
  zip_source_t* source = ::zip_source_function_create(&OnSink, &impl_->sink, &error);
  HVDRAY_CHECK(source != nullptr);  // fails only for want of memory
  impl_->archive = ::zip_open_from_source(source, ZIP_CREATE | ZIP_TRUNCATE, &error);
  HVDRAY_CHECK(impl_->archive != nullptr);
  ::zip_error_fini(&error);
}

ZipWriter::ZipWriter(ZipWriter&&) noexcept = default;
ZipWriter& ZipWriter::operator=(ZipWriter&&) noexcept = default;
ZipWriter::~ZipWriter() = default;

Status ZipWriter::AddDirectory(const std::string& name, uint16_t mode) {
  HVDRAY_RETURN_IF_ERROR(impl_->CheckName(name));
  const zip_int64_t index = ::zip_dir_add(impl_->archive, name.c_str(), ZIP_FL_ENC_UTF_8);
  if (index < 0) return impl_->Failed(name);
  impl_->SetMode(static_cast<zip_uint64_t>(index), S_IFDIR | mode);
  return {};
}

Status ZipWriter::AddBytes(const std::string& name, uint16_t mode, std::string bytes,
                           ZipEffort effort) {
  HVDRAY_RETURN_IF_ERROR(impl_->CheckName(name));
  const std::string& kept = impl_->kept.emplace_back(std::move(bytes));
  return impl_->Add(name, mode,
                    ::zip_source_buffer(impl_->archive, kept.data(), kept.size(), /*freep=*/0),
                    effort);
}

Status ZipWriter::AddFile(const std::string& name, uint16_t mode, const std::string& path,
                          ZipEffort effort) {
  HVDRAY_RETURN_IF_ERROR(impl_->CheckName(name));
  return impl_->Add(name, mode, ::zip_source_file(impl_->archive, path.c_str(), 0, -1), effort);
}

Result<std::string> ZipWriter::Finish() {
  Impl& impl = *impl_;
  if (::zip_get_num_entries(impl.archive, 0) == 0) {
    return Status(ErrorCode::kUsage, "an archive without entries");
  }
  if (::zip_close(impl.archive) != 0) {
    if (impl.sink.is_too_large) {
      return Status(ErrorCode::kPackageTooLarge,
                    fmt::format("the archive is larger than {} bytes", impl.sink.limit));
    }
    const zip_error_t* error = ::zip_get_error(impl.archive);
    const int kind = ::zip_error_code_zip(error);
    const bool is_file = kind == ZIP_ER_OPEN || kind == ZIP_ER_READ || kind == ZIP_ER_CHANGED;
    return Status(is_file ? ErrorCode::kFileUnreadable : ErrorCode::kOutOfResources,
                  fmt::format("pack: {}", ::zip_strerror(impl.archive)));
  }
  impl.archive = nullptr;
  return std::move(impl.sink.bytes);
}

}  // namespace hvdray
