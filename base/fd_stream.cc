// SPDX-License-Identifier: Apache-2.0
// Streams over descriptors: pipes and sockets.
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <utility>
#include <vector>

#include "base/io_channel.h"
#include "base/passed_descriptors.h"

namespace hvdray {
namespace {

bool IsSocket(int fd) {
  struct stat info {};
  return ::fstat(fd, &info) == 0 && S_ISSOCK(info.st_mode);
}

bool IsForLater(int error) { return error == EAGAIN || error == EINTR; }

class FdChannel : public IoChannel {
 public:
  FdChannel(UniqueFd read_fd, UniqueFd write_fd)
      : read_fd_(std::move(read_fd)),
        write_fd_(std::move(write_fd)),
        is_socket_(IsSocket(write_fd_.get())) {}

  Status Prepare() override {
    HVDRAY_RETURN_IF_ERROR(SetNonBlocking(read_fd_.get()));
    return SetNonBlocking(write_fd_.get());
  }

  int read_fd() const override { return read_fd_.get(); }
  int write_fd() const override { return write_fd_.get(); }

  IoStep Read(char* buffer, size_t size, size_t& count) override {
    const ssize_t n = Receive(buffer, size);
    if (n < 0 && IsForLater(errno)) return IoStep::kWantRead;
    if (n == 0 || (n < 0 && errno == ECONNRESET)) return IoStep::kClosed;
    if (n < 0) return Failed("read");
    count = static_cast<size_t>(n);
    return count < size ? IoStep::kWantRead : IoStep::kDone;
  }

  IoStep Write(ByteView bytes, size_t& count) override {
    while (count < bytes.size()) {
      const ByteView rest = bytes.substr(count);
      const ssize_t n = is_socket_ ? ::send(write_fd_.get(), rest.data(), rest.size(), MSG_NOSIGNAL)
                                   : ::write(write_fd_.get(), rest.data(), rest.size());
      if (n < 0) return IsForLater(errno) ? IoStep::kWantWrite : Failed("write");
      count += static_cast<size_t>(n);
    }
    return IoStep::kDone;
  }

  Status error() const override { return error_; }
  // A peer that crashed closes its descriptor just as well.
  bool is_explicit_close() const override { return false; }
  void Close(bool /*all_sent*/) override {}

 protected:
  virtual ssize_t Receive(char* buffer, size_t size) {
    return ::read(read_fd_.get(), buffer, size);
  }

 private:
  IoStep Failed(const char* what) {
    error_ = ErrnoStatus(what, errno);
    return IoStep::kFailed;
  }

  UniqueFd read_fd_;
  UniqueFd write_fd_;
  const bool is_socket_;
  Status error_;
};

class DescriptorChannel final : public FdChannel {
 public:
  DescriptorChannel(UniqueFd read_fd, UniqueFd write_fd,
                    std::function<void(UniqueFd)> on_descriptor)
      : FdChannel(std::move(read_fd), std::move(write_fd)),
        on_descriptor_(std::move(on_descriptor)) {}

 private:
  ssize_t Receive(char* buffer, size_t size) override {
    std::vector<UniqueFd> came;
    const ssize_t n = ReceiveWithDescriptors(read_fd(), buffer, size, came);
    if (n < 0) return n;
    for (UniqueFd& fd : came) on_descriptor_(std::move(fd));
    return n;
  }

  const std::function<void(UniqueFd)> on_descriptor_;
};

}  // namespace

std::unique_ptr<ByteStream> MakeFdStream(Loop& loop, UniqueFd read_fd, UniqueFd write_fd) {
  return MakeChannelStream(loop,
                           std::make_unique<FdChannel>(std::move(read_fd), std::move(write_fd)));
}

std::unique_ptr<ByteStream> MakeDescriptorStream(Loop& loop, UniqueFd read_fd, UniqueFd write_fd,
                                                 std::function<void(UniqueFd)> on_descriptor) {
  return MakeChannelStream(
      loop, std::make_unique<DescriptorChannel>(std::move(read_fd), std::move(write_fd),
                                                std::move(on_descriptor)));
}

}  // namespace hvdray
