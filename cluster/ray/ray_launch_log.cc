// SPDX-License-Identifier: Apache-2.0
#include "cluster/ray/ray_launch_log.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <utility>

#include "agent/agent_run.h"
#include "base/fd.h"
#include "base/json.h"
#include "base/log.h"
#include "launcher/report/facts_json.h"

namespace hvdray {
namespace {

constexpr uint64_t kFileBytes = uint64_t{16} << 20;

std::string Name(const std::string& path, uint32_t file) {
  return file == 0 ? path : fmt::format("{}.{}", path, file);
}

/// A new file. Everybody may write to Ray's directory of logs: what is there may be another user's.
UniqueFd OpenNew(const std::string& path) {
  ::unlink(path.c_str());
  return UniqueFd(::open(path.c_str(), O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0600));
}

/// Replaces the file by one with only `line` and the number of the next file. Readers that have the
/// old one open can finish it.
void ReplaceBy(const std::string& path, const std::string& line, uint32_t next) {
  const std::string aside = path + ".new";
  const UniqueFd file = OpenNew(aside);
  const bool is_whole = file.is_valid() &&
                        AppendRecord(file.get(), RecordKind::kStderr, line) == 0 &&
                        AppendRecord(file.get(), RecordKind::kNext, std::to_string(next)) == 0 &&
                        ::rename(aside.c_str(), path.c_str()) == 0;
  if (is_whole) return;
  // The disk may be full.
  ::unlink(aside.c_str());
  ::unlink(path.c_str());
}

Result<std::string> ReadWhole(const std::string& path) {
  const UniqueFd file(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
  if (!file.is_valid()) return ErrnoStatus("open", errno);
  std::string text;
  std::string piece(size_t{64} << 10, '\0');
  for (;;) {
    const ssize_t n = ::read(file.get(), piece.data(), piece.size());
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) return ErrnoStatus("read", errno);
    if (n == 0) return text;
    text.append(piece, 0, static_cast<size_t>(n));
    if (text.size() > kMaxRayJobFileBytes) {
      return Status(ErrorCode::kFileUnreadable, "the file is larger than any client writes");
    }
  }
}

}  // namespace

std::string AsciiLine(std::string_view text) {
  std::string line;
  for (const char c : text) {
    if (c == '\n') {
      line += " | ";
    } else {
      line += c >= 0x20 && c < 0x7f ? c : '?';
    }
  }
  return line;
}

Status RayLaunchLog::Open(const std::string& path) {
  stream_ = OpenNew(path);
  if (!stream_.is_valid()) {
    return ErrnoStatus("open " + path, errno).WithCode(ErrorCode::kFileUnwritable);
  }
  path_ = path;
  for (const std::string& line : std::exchange(early_, {})) Print(line);
  return {};
}

void RayLaunchLog::Pulse() {
  if (stream_.is_valid()) Append(RecordKind::kStderr, {});
}

void RayLaunchLog::Roll(uint64_t limit_bytes) {
  struct stat info {};
  if (!stream_.is_valid() || ::fstat(stream_.get(), &info) != 0) return;
  const auto size = static_cast<uint64_t>(info.st_size);
  if (size < kFileBytes) return;
  // If no new file can be created, the old one grows.
  const std::string path = Name(path_, file_ + 1);
  const UniqueFd next = OpenNew(path);
  if (!next.is_valid()) return;
  if (AppendRecord(stream_.get(), RecordKind::kNext, std::to_string(file_ + 1)) != 0 ||
      ::dup3(next.get(), stream_.get(), O_CLOEXEC) < 0) {
    ::unlink(path.c_str());
    return;
  }
  ++file_;
  kept_.push_back(size);
  kept_bytes_ += size;
  while (!kept_.empty() && kept_bytes_ + kFileBytes > limit_bytes) DropOldest();
}

void RayLaunchLog::DropOldest() {
  const uint32_t dropped = file_ - static_cast<uint32_t>(kept_.size());
  dropped_bytes_ += kept_.front();
  kept_bytes_ -= kept_.front();
  const std::string line = NoticeLine(
      LogLevel::kWarning, "hvdray",
      fmt::format("dropped {} MiB of output here: the cluster keeps no more (--ray-log-limit)",
                  kept_.front() >> 20));
  kept_.pop_front();
  ReplaceBy(Name(path_, dropped), line + "\n", dropped + 1);
  if (dropped == 0) {
    return Note("dropping output, oldest first (--ray-log-limit)");
  }
  // A reader that starts at the first file reaches the remaining ones in one step.
  ReplaceBy(path_,
            NoticeLine(LogLevel::kWarning, "hvdray",
                       fmt::format("dropped the first {} MiB of output: the cluster keeps no more "
                                   "(--ray-log-limit)",
                                   dropped_bytes_ >> 20)) +
                "\n",
            dropped + 1);
}

void RayLaunchLog::Say(std::string_view text, bool is_quiet) {
  Note(text);
  if (!is_quiet) Print(NoticeLine(LogLevel::kInfo, "hvdray", text));
}

void RayLaunchLog::Note(std::string_view text) {
  (void)WriteAll(log_fd_, fmt::format("hvdray: {}\n", AsciiLine(text))).ok();
}

void RayLaunchLog::Print(std::string_view line) {
  if (!stream_.is_valid()) {
    early_.emplace_back(line);
    return;
  }
  Append(RecordKind::kStderr, fmt::format("{}\n", line));
}

Status RayLaunchLog::Control(ByteView message) {
  Append(RecordKind::kControl, FormatControl(control_bytes_, message));
  control_bytes_ += message.size();
  if (lost_error_ == 0) return {};
  return ErrnoStatus("write the job's stream", lost_error_).WithCode(ErrorCode::kOutputLost);
}

void RayLaunchLog::Append(RecordKind kind, std::string_view bytes) {
  const int error = AppendRecord(stream_.get(), kind, bytes);
  if (lost_error_ == 0) lost_error_ = error;
}

Status RayLaunchLog::End(int exit_code, const Status& error) {
  if (!stream_.is_valid()) return {};
  const int lost_before = std::exchange(lost_error_, 0);
  Append(RecordKind::kEnd, DumpJson({{"exit_code", exit_code}, {"error", ErrorJson(error)}}));
  if (lost_error_ == 0) lost_error_ = lost_before;
  if (lost_error_ == 0) return {};
  return ErrnoStatus("write the job's stream", lost_error_).WithCode(ErrorCode::kOutputLost);
}

Result<UniqueFd> OpenControl(const std::string& directory) {
  const std::string path = fmt::format("{}/{}", directory, kRayControlFileName);
  UniqueFd file(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOFOLLOW));
  struct stat info {};
  if (!file.is_valid() && errno == ENOENT) return file;
  if (!file.is_valid() || ::fstat(file.get(), &info) != 0) {
    return ErrnoStatus(path, errno).WithCode(ErrorCode::kFileUnreadable);
  }
  if (S_ISREG(info.st_mode)) return file;
  return Status(ErrorCode::kFileUnreadable, path + " is not a file");
}

Result<RayJobFile> LoadJob(const std::string& directory) {
  const std::string path = fmt::format("{}/{}", directory, kRayJobFileName);
  Result<std::string> text = ReadWhole(path);
  if (!text.ok()) {
    return std::move(text).status().WithCode(ErrorCode::kFileUnreadable).WithContext(path);
  }
  Result<RayJobFile> job = ParseRayJobFile(*text);
  if (!job.ok()) {
    return std::move(job).status().WithContext(fmt::format("'{}' reads {}", kAgentBuild, path));
  }
  return job;
}

}  // namespace hvdray
