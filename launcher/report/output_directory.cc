// SPDX-License-Identifier: Apache-2.0
#include "launcher/report/output_directory.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <filesystem>
#include <optional>
#include <set>
#include <system_error>
#include <utility>

#include "base/fd.h"
#include "base/file.h"
#include "base/path_walk.h"
#include "base/text.h"

namespace hvdray {
namespace {

// 1,200 ranks have 2,400 files; reopening one costs some microseconds.
constexpr size_t kMaxOpenFiles = 256;
constexpr wire::StreamId kBoth[] = {wire::StreamId::kStdout, wire::StreamId::kStderr};

std::string_view FileName(wire::StreamId stream) {
  return stream == wire::StreamId::kStderr ? "stderr" : "stdout";
}

// Makes the directory if it is missing; follows no link of another user.
Result<PathEnd> PlaceIn(const std::string& directory) {
  PathFault fault;
  std::optional<PathEnd> place = WalkToDirectory(directory, WalkRule::kOwnLinks, 0755, fault);
  if (!place) return ToStatus(fault);
  return std::move(*place);
}

Status Lost(const std::string& path, Status cause) {
  return std::move(cause)
      .WithContext(path)
      .WithCode(ErrorCode::kOutputLost)
      .WithHint("free space there, or name another directory");
}

}  // namespace

int RankWidth(int np) {
  int width = 1;
  for (int last = (np - 1) / 10; last > 0; last /= 10) ++width;
  return width;
}

std::string RankDirectoryName(int rank, int np) {
  return fmt::format("rank.{:0{}d}", rank, RankWidth(np));
}

Result<std::unique_ptr<OutputDirectory>> OutputDirectory::Create(const std::string& path, int np) {
  HVDRAY_RETURN_IF_ERROR(MakeDirs(path));
  std::unique_ptr<OutputDirectory> directory(new OutputDirectory(path, np));
  for (int rank = 0; rank < np; ++rank) {
    for (const wire::StreamId stream : kBoth) {
      HVDRAY_RETURN_IF_ERROR(
          directory->Open({rank, stream}, Content::kEmptied, directory->files_[{rank, stream}])
              .WithCode(ErrorCode::kFileUnwritable));
    }
  }
  directory->FindStrangers();
  return directory;
}

void OutputDirectory::FindStrangers() {
  std::error_code error;
  std::set<std::string> ours;
  for (int rank = 0; rank < np_; ++rank) ours.insert(RankDirectoryName(rank, np_));
  for (std::filesystem::directory_iterator entry(path_, error), end; !error && entry != end;
       entry.increment(error)) {
    std::string name = entry->path().filename().string();
    const bool is_one = name.starts_with("rank.") || name.starts_with("attempt.");
    if (!is_one || ours.contains(name)) continue;
    const std::string_view number = std::string_view(name).substr(name.find('.') + 1);
    if (name.starts_with("attempt.")) {
      earlier_attempts_ = std::max(earlier_attempts_, ParseInteger<int>(number).value_or(0));
    }
    foreign_directories_.push_back(std::move(name));
  }
  std::sort(foreign_directories_.begin(), foreign_directories_.end());
}

std::string OutputDirectory::PathOf(Key key) const {
  return fmt::format("{}/{}/{}", path_, RankDirectoryName(key.first, np_), FileName(key.second));
}

Status OutputDirectory::Open(Key key, Content content, File& file) {
  const std::string path = PathOf(key);
  HVDRAY_ASSIGN_OR_RETURN(PathEnd place, PlaceIn(path.substr(0, path.rfind('/'))));
  place.path = path;
  // O_NONBLOCK: a pipe instead of a file must not block us. O_NOFOLLOW: a link must not
  // redirect the workers' output.
  constexpr int kFlags = O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC | O_NONBLOCK | O_NOFOLLOW;
  const std::string name(FileName(key.second));
  UniqueFd fd(::openat(place.directory.get(), name.c_str(), kFlags, 0644));
  struct stat info {};
  if (!fd.is_valid() || ::fstat(fd.get(), &info) != 0) return ErrnoStatus(path, errno);
  if (S_ISFIFO(info.st_mode)) {
    return {ErrorCode::kFileUnwritable, fmt::format("{}: is a pipe, not a file", path)};
  }
  HVDRAY_RETURN_IF_ERROR(CheckNotPlanted(place, info));
  const bool is_emptied = content == Content::kEmptied && S_ISREG(info.st_mode);
  if (is_emptied && ::ftruncate(fd.get(), 0) != 0) return ErrnoStatus(path, errno);
  const auto listed = std::find(open_.begin(), open_.end(), key);
  if (listed != open_.end()) open_.erase(listed);
  file.fd = std::move(fd);
  open_.push_back(key);
  if (open_.size() > kMaxOpenFiles) {
    files_[open_.front()].fd.Reset();
    open_.pop_front();
  }
  return {};
}

Status OutputDirectory::BeginAttempt(int rank, wire::StreamId stream) {
  const Key key{rank, stream};
  File& file = files_[key];
  if (++file.attempts == 1 && file.is_empty && file.fd.is_valid() && !file.is_damaged) return {};
  Status status = file.attempts > 1 ? MoveToAttempt(key, file) : Status();
  if (status.ok()) status = Open(key, Content::kEmptied, file);
  file.is_damaged = !status.ok();
  file.is_empty = true;
  return status.ok() ? status : Lost("begin the file anew", std::move(status));
}

Status OutputDirectory::MoveToAttempt(Key key, File& file) {
  const std::string from = PathOf(key);
  const std::string directory =
      fmt::format("{}/attempt.{}/{}", path_, earlier_attempts_ + file.attempts - 1,
                  RankDirectoryName(key.first, np_));
  const std::string to = fmt::format("{}/{}", directory, FileName(key.second));
  HVDRAY_ASSIGN_OR_RETURN(const PathEnd old_place, PlaceIn(from.substr(0, from.rfind('/'))));
  HVDRAY_ASSIGN_OR_RETURN(const PathEnd new_place, PlaceIn(directory));
  const std::string name(FileName(key.second));
  // Ignore a file that the user removed meanwhile.
  if (::renameat(old_place.directory.get(), name.c_str(), new_place.directory.get(),
                 name.c_str()) != 0 &&
      errno != ENOENT) {
    return ErrnoStatus(to, errno);
  }
  if (file.is_damaged) damaged_before_.push_back(to);
  return {};
}

Status OutputDirectory::Append(int rank, wire::StreamId stream, ByteView text) {
  File& file = files_[{rank, stream}];
  if (file.is_damaged || text.empty()) return {};
  Status status;
  if (!file.fd.is_valid()) status = Open({rank, stream}, Content::kKept, file);
  file.is_empty = false;
  if (status.ok()) status = WriteAll(file.fd.get(), text).WithContext(PathOf({rank, stream}));
  if (status.ok()) return {};
  file.is_damaged = true;
  file.fd.Reset();
  std::erase(open_, Key{rank, stream});
  return Lost("output of a worker", std::move(status));
}

std::vector<std::string> OutputDirectory::damaged() const {
  std::vector<std::string> paths = damaged_before_;
  for (const auto& [key, file] : files_) {
    if (file.is_damaged) paths.push_back(PathOf(key));
  }
  return paths;
}

}  // namespace hvdray
