#include "launcher/output/output_folder.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>

#include <algorithm>
#include <cerrno>

namespace hvdray {
namespace {

// 1,200 ranks have 2,400 files; opening one again costs some microseconds.
constexpr size_t kMaxOpenFiles = 256;
constexpr wire::StreamId kBoth[] = {wire::StreamId::kStdout, wire::StreamId::kStderr};

Status Lost(const std::string& path, Status cause) {
  return std::move(cause)
      .WithContext(path)
      .WithCode(ErrorCode::kOutputLost)
      .WithHint("free space there, or name another folder");
}

}  // namespace

int RankWidth(int np) {
  int width = 1;
  for (int last = (np - 1) / 10; last > 0; last /= 10) ++width;
  return width;
}

std::string RankFolderName(int rank, int np) {
  return fmt::format("rank.{:0{}d}", rank, RankWidth(np));
}

Result<std::unique_ptr<OutputFolder>> OutputFolder::Create(const std::string& path, int np) {
  HVDRAY_RETURN_IF_ERROR(MakeDirs(path));
  std::unique_ptr<OutputFolder> folder(new OutputFolder(path, np));
  for (int rank = 0; rank < np; ++rank) {
    for (const wire::StreamId stream : kBoth) {
      HVDRAY_RETURN_IF_ERROR(folder->Open({rank, stream}, O_TRUNC, folder->files_[{rank, stream}])
                                 .WithCode(ErrorCode::kFileUnwritable));
    }
  }
  return folder;
}

std::string OutputFolder::PathOf(Key key) const {
  return fmt::format("{}/{}/{}", path_, RankFolderName(key.first, np_),
                     key.second == wire::StreamId::kStderr ? "stderr" : "stdout");
}

Status OutputFolder::Open(Key key, int flags, File& file) {
  const std::string path = PathOf(key);
  const std::string parent = path.substr(0, path.rfind('/'));
  if (::mkdir(parent.c_str(), 0755) != 0 && errno != EEXIST) return ErrnoStatus(parent, errno);
  // O_NONBLOCK: a pipe in the place of a file must not stop us for ever. O_NOFOLLOW: nor may a link
  // lead what workers print into another file.
  const int all_flags = O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC | O_NONBLOCK | O_NOFOLLOW | flags;
  UniqueFd fd(::open(path.c_str(), all_flags, 0644));
  struct stat info {};
  if (!fd.is_valid() || ::fstat(fd.get(), &info) != 0) return ErrnoStatus(path, errno);
  if (S_ISFIFO(info.st_mode)) {
    return {ErrorCode::kFileUnwritable, fmt::format("{}: is a pipe, not a file", path)};
  }
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

Status OutputFolder::Truncate(int rank, wire::StreamId stream) {
  File& file = files_[{rank, stream}];
  if (file.is_empty && file.fd.is_valid() && !file.is_damaged) return {};
  Status status = Open({rank, stream}, O_TRUNC, file);
  file.is_damaged = !status.ok();
  file.is_empty = true;
  return status.ok() ? status : Lost("empty the file", std::move(status));
}

Status OutputFolder::Append(int rank, wire::StreamId stream, ByteView text) {
  File& file = files_[{rank, stream}];
  if (file.is_damaged || text.empty()) return {};
  Status status;
  if (!file.fd.is_valid()) status = Open({rank, stream}, 0, file);
  file.is_empty = false;
  if (status.ok()) status = WriteAll(file.fd.get(), text).WithContext(PathOf({rank, stream}));
  if (status.ok()) return {};
  file.is_damaged = true;
  file.fd.Reset();
  std::erase(open_, Key{rank, stream});
  return Lost("output of a worker", std::move(status));
}

std::vector<std::string> OutputFolder::damaged() const {
  std::vector<std::string> paths;
  for (const auto& [key, file] : files_) {
    if (file.is_damaged) paths.push_back(PathOf(key));
  }
  return paths;
}

}  // namespace hvdray
