#include "cmd/drive/hurry_pipe.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <chrono>
#include <thread>
#include <utility>

namespace hvdray {
namespace {

constexpr int kTries = 25;
constexpr auto kPause = std::chrono::milliseconds(200);

}  // namespace

Status HurryPipe::Open(Loop& loop, const std::string& path, std::function<void()> on_hurry) {
  const std::string attempt = fmt::format("make {}", path);
  if (::mkfifo(path.c_str(), 0600) != 0) return ErrnoStatus(attempt, errno);
  path_ = path;
  // For writing, too: else it would be at its end, again and again, while nobody has it open.
  fd_ = UniqueFd(::open(path.c_str(), O_RDWR | O_NONBLOCK | O_CLOEXEC | O_NOFOLLOW));
  if (!fd_.is_valid()) return ErrnoStatus(attempt, errno);
  on_hurry_ = std::move(on_hurry);
  watch_ = loop.OnFd(fd_.get(), FdEvent::kRead, [this] { Read(); });
  return {};
}

HurryPipe::~HurryPipe() {
  if (!path_.empty()) ::unlink(path_.c_str());
}

void HurryPipe::Read() {
  std::array<char, 64> bytes;
  // However many came together, it is one order.
  if (::read(fd_.get(), bytes.data(), bytes.size()) > 0) on_hurry_();
}

Status HurryDriver(const std::string& path) {
  int error = ENXIO;
  for (int i = 0; i < kTries; ++i) {
    const UniqueFd fd(::open(path.c_str(), O_WRONLY | O_NONBLOCK | O_CLOEXEC | O_NOFOLLOW));
    if (fd.is_valid()) return WriteAll(fd.get(), "!");
    error = errno;
    if (error != ENXIO && error != ENOENT) break;
    std::this_thread::sleep_for(kPause);
  }
  return ErrnoStatus(fmt::format("tell the driver at {}", path), error);
}

}  // namespace hvdray
