// SPDX-License-Identifier: Apache-2.0
#include "cluster/ssh/ssh_limit.h"

#include <poll.h>

#include <algorithm>
#include <array>
#include <cerrno>

namespace hvdray {

SshLimit SshLimit::In(Duration duration, int cancel_fd) {
  return {std::chrono::steady_clock::now() + duration, cancel_fd};
}

SshLimit SshLimit::NoLaterThan(Duration duration) const {
  return {std::min<TimePoint>(deadline, std::chrono::steady_clock::now() + duration), cancel_fd};
}

Duration SshLimit::Remaining() const {
  return std::max<Duration>(deadline - std::chrono::steady_clock::now(), Duration::zero());
}

Status WaitForFd(int fd, short events, const SshLimit& limit) {
  std::array<pollfd, 2> fds = {{{.fd = fd, .events = events}, {limit.cancel_fd, POLLIN, 0}}};
  for (;;) {
    const auto rest = std::chrono::ceil<std::chrono::milliseconds>(limit.Remaining());
    const int rest_ms = static_cast<int>(std::min<int64_t>(rest.count(), 1 << 30));
    const int ready = ::poll(fds.data(), fds.size(), rest_ms);
    if (ready < 0 && errno == EINTR) continue;
    if (ready < 0) return ErrnoStatus("poll", errno);
    if (fds[1].revents != 0) return {ErrorCode::kCancelled, "cancelled"};
    if (ready == 0) return {ErrorCode::kConnectTimeout, "no answer in time"};
    return {};
  }
}

}  // namespace hvdray
