#include "base/standard_streams.h"

#include <fcntl.h>
#include <sys/epoll.h>
#include <unistd.h>

#include <csignal>

#include "base/fd.h"

namespace hvdray {
void RestoreSignals() {
  struct sigaction standard {};
  standard.sa_handler = SIG_DFL;
  ::sigaction(SIGCHLD, &standard, nullptr);
  sigset_t none;
  ::sigemptyset(&none);
  ::sigprocmask(SIG_SETMASK, &none, nullptr);
}

void FillStandardStreams() {
  for (;;) {
    const int fd = ::open("/dev/null", O_RDWR | O_CLOEXEC);
    if (fd < 0) return;
    if (fd > STDERR_FILENO) {
      ::close(fd);
      return;
    }
    ::fcntl(fd, F_SETFD, 0);  // children get it as they would have got the missing one
  }
}

bool IsPollable(int fd) {
  const UniqueFd epoll(::epoll_create1(EPOLL_CLOEXEC));
  epoll_event event{};
  return epoll.is_valid() && ::epoll_ctl(epoll.get(), EPOLL_CTL_ADD, fd, &event) == 0;
}

}  // namespace hvdray
