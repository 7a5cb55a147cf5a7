// SPDX-License-Identifier: Apache-2.0
// Events of tens of thousands of sockets that live for one request each. A socket costs two
// epoll_ctl calls in its life and no allocation; a Watch costs two of each.
#ifndef HVDRAY_BASE_EDGE_POLLER_H_
#define HVDRAY_BASE_EDGE_POLLER_H_

#include <cstdint>
#include <memory>

#include "base/fd.h"
#include "base/result.h"

struct epoll_event;

namespace hvdray {

/// Receives the events of a descriptor.
class EdgeSink {
 public:
  /// `events`: any of EPOLLIN, EPOLLOUT, EPOLLRDHUP, EPOLLHUP, EPOLLERR. May destroy the sink.
  virtual void OnReady(uint32_t events) = 0;

 protected:
  ~EdgeSink() = default;
};

/// An epoll set nested in the loop's own. Get it from Loop::edge_poller(). Threads: the loop's.
class EdgePoller {
 public:
  /// Errors: kOutOfResources, kSystem.
  static Result<std::unique_ptr<EdgePoller>> Create();

  /// Reports `events` of `fd` to `sink`; with EPOLLET, once per change. The caller owns both, and
  /// calls Remove() and Forget() before closing the fd or destroying the sink: closing alone does
  /// not end reports while a forked child holds the file. Errors: kOutOfResources, kSystem.
  Status Add(int fd, uint32_t events, EdgeSink* sink);
  /// Replaces the events and sink of an `fd` that was added. Errors: as Add().
  Status Modify(int fd, uint32_t events, EdgeSink* sink);
  /// Ends reports on `fd`, except those of the round in progress: see Forget().
  void Remove(int fd);
  /// Drops the reports to `sink` that the round in progress still holds.
  void Forget(const EdgeSink* sink);

  /// The epoll descriptor, still owned by this: readable when Dispatch() has work.
  int fd() const { return epoll_.get(); }
  /// Reports what is ready now. Bounded, so that the rest of the loop gets its turn.
  void Dispatch();

 private:
  explicit EdgePoller(UniqueFd epoll) : epoll_(std::move(epoll)) {}

  UniqueFd epoll_;
  // What is left of the batch being reported; it is on Dispatch()'s stack.
  epoll_event* next_ = nullptr;
  epoll_event* end_ = nullptr;
};

}  // namespace hvdray

#endif  // HVDRAY_BASE_EDGE_POLLER_H_
