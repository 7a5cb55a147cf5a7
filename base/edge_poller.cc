// SPDX-License-Identifier: Apache-2.0
#include "base/edge_poller.h"

#include <sys/epoll.h>

#include <cerrno>

namespace hvdray {
namespace {

constexpr int kBatch = 128;
// More is usually ready by the end of a batch: polling again is cheaper than a turn of the outer
// loop. Bounded, so that timers and signals get their turn.
constexpr int kMaxRounds = 8;

}  // namespace

Result<std::unique_ptr<EdgePoller>> EdgePoller::Create() {
  UniqueFd epoll(::epoll_create1(EPOLL_CLOEXEC));
  if (!epoll.is_valid()) return ErrnoStatus("epoll_create1", errno);
  return std::unique_ptr<EdgePoller>(new EdgePoller(std::move(epoll)));
}

Status EdgePoller::Add(int fd, uint32_t events, EdgeSink* sink) {
  epoll_event event{};
  event.events = events;
  event.data.ptr = sink;
  return ::epoll_ctl(epoll_.get(), EPOLL_CTL_ADD, fd, &event) == 0
             ? Status()
             : ErrnoStatus("epoll_ctl", errno);
}

Status EdgePoller::Modify(int fd, uint32_t events, EdgeSink* sink) {
  epoll_event event{};
  event.events = events;
  event.data.ptr = sink;
  return ::epoll_ctl(epoll_.get(), EPOLL_CTL_MOD, fd, &event) == 0
             ? Status()
             : ErrnoStatus("epoll_ctl", errno);
}

void EdgePoller::Remove(int fd) { (void)::epoll_ctl(epoll_.get(), EPOLL_CTL_DEL, fd, nullptr); }

void EdgePoller::Forget(const EdgeSink* sink) {
  for (epoll_event* event = next_; event != end_; ++event) {
    if (event->data.ptr == sink) event->data.ptr = nullptr;
  }
}

void EdgePoller::Dispatch() {
  epoll_event events[kBatch];
  for (int round = 0; round < kMaxRounds; ++round) {
    const int count = ::epoll_wait(epoll_.get(), events, kBatch, 0);
    if (count <= 0) return;
    next_ = events;
    end_ = events + count;
    while (next_ != end_) {
      const epoll_event event = *next_++;
      if (event.data.ptr != nullptr) static_cast<EdgeSink*>(event.data.ptr)->OnReady(event.events);
    }
    next_ = end_ = nullptr;
  }
}

}  // namespace hvdray
