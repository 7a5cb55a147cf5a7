// Descriptors by the ten thousand for one owner kind: sockets that live for one request. Costs two
// epoll_ctl a life and no allocation, where a Watch costs two of each.
#ifndef HVDRAY_BASE_EDGE_POLLER_H_
#define HVDRAY_BASE_EDGE_POLLER_H_

#include <cstdint>
#include <memory>

#include "base/fd.h"
#include "base/result.h"

struct epoll_event;

namespace hvdray {

class EdgeSink {
 public:
  /// `events`: EPOLLIN, EPOLLOUT, EPOLLRDHUP, EPOLLHUP, EPOLLERR.
  virtual void OnReady(uint32_t events) = 0;

 protected:
  ~EdgeSink() = default;
};

/// An epoll set within the loop's. Get it from Loop::edge_poller(). Threads: the loop's.
class EdgePoller {
 public:
  static Result<std::unique_ptr<EdgePoller>> Create();

  /// Reports `events` of `fd` to `sink`: once per change with EPOLLET among them. Both stay the
  /// caller's. Before the fd is closed or the sink destroyed: Remove() and Forget(); the set
  /// reports an open file for as long as a forked child holds it. Errors: kOutOfResources, kSystem.
  Status Add(int fd, uint32_t events, EdgeSink* sink);
  Status Modify(int fd, uint32_t events, EdgeSink* sink);
  void Remove(int fd);
  /// Drops what this round still has to report to `sink`.
  void Forget(const EdgeSink* sink);

  /// Readable when Dispatch() has something to do.
  int fd() const { return epoll_.get(); }
  /// Reports what is ready now. Bounded: comes back while the rest of the loop may be waiting.
  void Dispatch();

 private:
  explicit EdgePoller(UniqueFd epoll) : epoll_(std::move(epoll)) {}

  UniqueFd epoll_;
  // The batch being reported, on Dispatch()'s stack.
  epoll_event* next_ = nullptr;
  epoll_event* end_ = nullptr;
};

}  // namespace hvdray

#endif  // HVDRAY_BASE_EDGE_POLLER_H_
