// SPDX-License-Identifier: Apache-2.0
#include "launcher/report/output_sink.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <climits>

namespace hvdray {
namespace {

// What a writable terminal takes without blocking.
constexpr size_t kTerminalPiece = 256;

UniqueFd OpenAgain(int fd) {
  return UniqueFd(::open(fmt::format("/proc/self/fd/{}", fd).c_str(),
                         O_WRONLY | O_NONBLOCK | O_CLOEXEC | O_NOCTTY));
}

bool IsReaderGone(int error) { return error == EPIPE || error == ECONNRESET; }

}  // namespace

OutputSink::OutputSink(Loop& loop, int fd, Reopen reopen) : loop_(loop), fd_(fd) {
  struct stat info {};
  if (::fstat(fd, &info) != 0) return;
  device_ = info.st_dev;
  inode_ = info.st_ino;
  if (S_ISFIFO(info.st_mode)) {
    kind_ = Kind::kPipe;
  } else if (S_ISSOCK(info.st_mode)) {
    kind_ = Kind::kSocket;
  } else if (S_ISCHR(info.st_mode) && ::isatty(fd) == 1) {
    kind_ = Kind::kTerminal;
  } else {
    kind_ = Kind::kFile;
  }
  const bool can_block = kind_ == Kind::kPipe || kind_ == Kind::kTerminal;
  if (can_block && reopen == Reopen::kTry) own_ = OpenAgain(fd);
}

OutputSink::OutputSink(Loop& loop, int fd, RecordKind kind, RecordPlaces* places)
    : OutputSink(loop, fd, Reopen::kNever) {
  record_kind_ = kind;
  places_ = places;
}

bool OutputSink::IsSamePlace(const OutputSink& other) const {
  return kind_ == other.kind_ && kind_ != Kind::kFile && kind_ != Kind::kNowhere &&
         device_ == other.device_ && inode_ == other.inode_;
}

ssize_t OutputSink::WriteOnce(ByteView bytes) {
  if (own_.is_valid()) return ::write(own_.get(), bytes.data(), bytes.size());
  if (kind_ == Kind::kSocket) {
    return ::send(fd_, bytes.data(), bytes.size(), MSG_DONTWAIT | MSG_NOSIGNAL);
  }
  if (kind_ == Kind::kFile) return ::write(fd_, bytes.data(), bytes.size());
  pollfd ready{fd_, POLLOUT, 0};
  if (::poll(&ready, 1, 0) == 0) {
    errno = EAGAIN;
    return -1;
  }
  const size_t piece = kind_ == Kind::kTerminal ? kTerminalPiece : size_t{PIPE_BUF};
  return ::write(fd_, bytes.data(), std::min(bytes.size(), piece));
}

OutputSink::Progress OutputSink::WriteRecord(ByteView bytes) {
  const std::string places = places_ != nullptr ? places_->Take() : std::string();
  int error = 0;
  if (!bytes.empty()) {
    error = AppendRecord(fd_, *record_kind_, bytes, places);
  } else if (!places.empty()) {
    error = AppendRecord(fd_, RecordKind::kPlaces, places);  // emptied files
  }
  if (error != 0) return {Outcome::kFailed, 0, error};
  return {Outcome::kWritten, bytes.size(), 0};
}

OutputSink::Progress OutputSink::Write(ByteView bytes) {
  Progress progress;
  if (kind_ == Kind::kNowhere) return {Outcome::kWritten, bytes.size(), 0};
  if (record_kind_) return WriteRecord(bytes);
  while (progress.written < bytes.size()) {
    const ssize_t n = WriteOnce(bytes.substr(progress.written));
    if (n >= 0) {
      progress.written += static_cast<size_t>(n);
      continue;
    }
    const int error = errno;
    if (error == EINTR) continue;
    if (error == EAGAIN || error == EWOULDBLOCK) {
      progress.outcome = Outcome::kMustWait;
      return progress;
    }
    progress.error = error;
    // A terminal that hung up returns EIO.
    const bool is_hung_up = kind_ == Kind::kTerminal && error == EIO;
    progress.outcome = IsReaderGone(error) || is_hung_up ? Outcome::kReaderGone : Outcome::kFailed;
    return progress;
  }
  return progress;
}

void OutputSink::OnWritable(std::function<void()> callback) {
  const int fd = own_.is_valid() ? own_.get() : fd_;
  watch_ = loop_.OnFd(fd, FdEvent::kWrite, [this, callback = std::move(callback)] {
    watch_.Cancel();  // First: the callback may ask again.
    callback();
  });
}

}  // namespace hvdray
