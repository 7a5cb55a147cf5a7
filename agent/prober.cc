// SPDX-License-Identifier: Apache-2.0
#include "agent/prober.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>

#include <cerrno>
#include <optional>
#include <string>
#include <utility>

#include "base/log.h"

namespace hvdray {
namespace {

// A host has one neighbour; the rest of the queue absorbs port scans.
constexpr int kBacklog = 128;
// Per turn of the loop, so that a flood of connections can't block it.
constexpr int kAcceptsAtOnce = 32;

/// nullopt: not an IPv4 address in dots.
std::optional<sockaddr_in> ToSocketAddress(const std::string& text, uint16_t port) {
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_port = htons(port);
  if (::inet_pton(AF_INET, text.c_str(), &address.sin_addr) != 1) return std::nullopt;
  return address;
}

}  // namespace

wire::ProbeStage StageOf(int error) {
  switch (error) {
    case 0:
      return wire::ProbeStage::kOk;
    case ECONNREFUSED:
      return wire::ProbeStage::kRefused;
    case ETIMEDOUT:
      return wire::ProbeStage::kTimeout;
    case ENETUNREACH:
    case EHOSTUNREACH:
    case ENETDOWN:
    case EHOSTDOWN:
      return wire::ProbeStage::kUnreachable;
    default:
      return wire::ProbeStage::kOther;
  }
}

int StartConnecting(const wire::ProbeTarget& target, UniqueFd& socket) {
  const auto source = ToSocketAddress(target.source, 0);
  const auto peer = ToSocketAddress(target.address, target.port);
  if (!source || !peer) return EINVAL;
  socket.Reset(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  if (!socket.is_valid()) return errno;
  if (::bind(socket.get(), reinterpret_cast<const sockaddr*>(&*source), sizeof *source) != 0) {
    return errno;
  }
  return ::connect(socket.get(), reinterpret_cast<const sockaddr*>(&*peer), sizeof *peer) == 0
             ? 0
             : errno;
}

Result<std::unique_ptr<ProbeListener>> ProbeListener::Open(Loop& loop) {
  UniqueFd fd(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  if (!fd.is_valid()) return ErrnoStatus("socket", errno);
  sockaddr_in address{};
  address.sin_family = AF_INET;
  socklen_t size = sizeof address;
  auto* generic = reinterpret_cast<sockaddr*>(&address);
  if (::bind(fd.get(), generic, size) != 0) return ErrnoStatus("bind", errno);
  if (::listen(fd.get(), kBacklog) != 0) return ErrnoStatus("listen", errno);
  if (::getsockname(fd.get(), generic, &size) != 0) return ErrnoStatus("getsockname", errno);
  std::unique_ptr<ProbeListener> listener(
      new ProbeListener(std::move(fd), ntohs(address.sin_port)));
  listener->watch_ =
      loop.OnFd(listener->socket_.get(), FdEvent::kRead, [raw = listener.get()] { raw->Accept(); });
  return listener;
}

void ProbeListener::Accept() {
  for (int i = 0; i < kAcceptsAtOnce; ++i) {
    UniqueFd peer(::accept4(socket_.get(), nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK));
    if (peer.is_valid()) {
      if (take_) take_(std::move(peer));
      continue;
    }
    if (errno == EMFILE || errno == ENFILE || errno == ENOBUFS || errno == ENOMEM) {
      // The listener would stay readable. The kernel still completes connections that fit the
      // queue, and a neighbour needs no more.
      Log(LogLevel::kWarning, "agent", "probe listener: {}",
          ErrnoStatus("accept", errno).message());
      watch_.Cancel();
    }
    return;
  }
}

Prober::Prober(Loop& loop, const wire::Probe& probe, DoneFn on_done)
    : loop_(loop), on_done_(std::move(on_done)), connections_(probe.targets.size()) {
  open_count_ = connections_.size();
  if (connections_.empty()) {
    timer_ = loop_.After(Duration::zero(), [this] { Answer(); });
  } else {
    timer_ = loop_.After(std::chrono::milliseconds(probe.timeout_ms), [this] { OnTimeout(); });
  }
  for (size_t i = 0; i < connections_.size(); ++i) Begin(i, probe.targets[i]);
}

void Prober::Begin(size_t index, const wire::ProbeTarget& target) {
  UniqueFd& fd = connections_[index].socket;
  const int error = StartConnecting(target, fd);
  if (error != EINPROGRESS) return Finish(index, error);
  connections_[index].watch =
      loop_.OnFd(fd.get(), FdEvent::kWrite, [this, index] { OnWritable(index); });
}

void Prober::OnWritable(size_t index) {
  int error = 0;
  socklen_t size = sizeof error;
  if (::getsockopt(connections_[index].socket.get(), SOL_SOCKET, SO_ERROR, &error, &size) != 0) {
    error = errno;
  }
  Finish(index, error);
}

void Prober::Finish(size_t index, int error) {
  Connection& connection = connections_[index];
  connection.watch.Cancel();
  connection.socket.Reset();
  connection.outcome = {StageOf(error), error};
  if (--open_count_ == 0) timer_ = loop_.After(Duration::zero(), [this] { Answer(); });
}

// Where this process was late, connections that the network has long made have not been looked at.
void Prober::OnTimeout() {
  for (size_t i = 0; i < connections_.size(); ++i) {
    pollfd state{connections_[i].socket.get(), POLLOUT, 0};
    if (connections_[i].socket.is_valid() && ::poll(&state, 1, 0) > 0) OnWritable(i);
  }
  if (open_count_ > 0) Answer();  // Otherwise the last one has seen to it.
}

void Prober::Answer() {
  wire::ProbeResult result;
  for (Connection& connection : connections_) {
    connection.watch.Cancel();
    connection.socket.Reset();
    result.results.push_back(connection.outcome);
  }
  std::exchange(on_done_, nullptr)(std::move(result));
}

}  // namespace hvdray
