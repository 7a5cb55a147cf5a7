// SPDX-License-Identifier: Apache-2.0
#include "agent/lifelines.h"

#include <unistd.h>

#include <array>
#include <cerrno>
#include <utility>

namespace hvdray {

void Lifelines::Add(UniqueFd fd, std::string why) {
  (void)SetNonBlocking(fd.get()).ok();
  Line& line = lines_.emplace_back(Line{std::move(fd), std::move(why), {}});
  line.watch = loop_.OnFd(line.fd.get(), FdEvent::kRead, [this, &line] { Look(line); });
}

Status Lifelines::AddProcess(pid_t pid, std::string why) {
  UniqueFd pidfd = OpenPidFd(pid);
  if (pidfd.is_valid()) {
    Add(std::move(pidfd), std::move(why));
    return {};
  }
  if (errno != ESRCH) return ErrnoStatus("pidfd_open", errno);
  Line& line = lines_.emplace_back(Line{UniqueFd(), std::move(why), {}});
  line.watch = loop_.After(Duration::zero(), [this, &line] {
    line.watch.Cancel();
    Lose(line);
  });
  return {};
}

void Lifelines::Look(Line& line) {
  std::array<char, 512> bytes;
  const ssize_t n = ::read(line.fd.get(), bytes.data(), bytes.size());
  // A pidfd can't be read: readability alone means its process has ended.
  if (n > 0 || (n < 0 && (errno == EAGAIN || errno == EINTR))) return;
  line.watch.Cancel();
  Lose(line);
}

void Lifelines::Lose(const Line& line) {
  const Status why(ErrorCode::kAgentLost, line.why);
  if (lost_.ok()) lost_ = why;
  on_lost_(why);
}

}  // namespace hvdray
