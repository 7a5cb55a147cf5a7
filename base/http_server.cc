// SPDX-License-Identifier: Apache-2.0
#include "base/http_server.h"

#include <arpa/inet.h>
#include <fmt/format.h>
#include <netinet/tcp.h>
#include <sys/epoll.h>
#include <sys/socket.h>

#include <cerrno>
#include <utility>

#include "base/http_connection.h"
#include "base/log.h"

namespace hvdray {
namespace {

// Pause in accepting after descriptors or memory have run out.
constexpr Duration kAcceptPause = std::chrono::milliseconds(50);
// Connections accepted in a row. The listener is level-triggered, so the rest causes a new event.
constexpr int kMaxAccepts = 512;

/// The kernel hands over a connection together with its first request, so that one recv() is
/// enough. It hands over a silent client after this time; the idle timeout ends that one.
constexpr int kDeferSeconds = 1;

Result<UniqueFd> OpenListener(const HttpServerOptions& options) {
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_port = htons(options.port);
  if (::inet_pton(AF_INET, options.address.c_str(), &address.sin_addr) != 1) {
    return Status(ErrorCode::kUsage, fmt::format("'{}' is not an IPv4 address", options.address));
  }
  UniqueFd fd(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  if (!fd.is_valid()) return ErrnoStatus("socket", errno);
  const int one = 1;
  (void)::setsockopt(fd.get(), SOL_SOCKET, SO_REUSEADDR, &one, sizeof one);
  // Accepted connections inherit the options from here on.
  (void)::setsockopt(fd.get(), IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
  (void)::setsockopt(fd.get(), IPPROTO_TCP, TCP_DEFER_ACCEPT, &kDeferSeconds, sizeof(int));
  if ((ntohl(address.sin_addr.s_addr) >> 24) != 127) {
    // Keepalive detects within about two minutes that a host with a held request has vanished.
    const int idle_s = 60, interval_s = 15, probes = 4;
    (void)::setsockopt(fd.get(), SOL_SOCKET, SO_KEEPALIVE, &one, sizeof one);
    (void)::setsockopt(fd.get(), IPPROTO_TCP, TCP_KEEPIDLE, &idle_s, sizeof idle_s);
    (void)::setsockopt(fd.get(), IPPROTO_TCP, TCP_KEEPINTVL, &interval_s, sizeof interval_s);
    (void)::setsockopt(fd.get(), IPPROTO_TCP, TCP_KEEPCNT, &probes, sizeof probes);
  }
  const std::string where = fmt::format("listen on {}:{}", options.address, options.port);
  if (::bind(fd.get(), reinterpret_cast<const sockaddr*>(&address), sizeof address) != 0 ||
      ::listen(fd.get(), options.backlog) != 0) {
    return ErrnoStatus(where, errno);
  }
  return fd;
}

}  // namespace

HttpServer::HttpServer(std::unique_ptr<HttpShared> shared, UniqueFd listener)
    : shared_(std::move(shared)), listener_(std::move(listener)) {}

HttpServer::~HttpServer() {
  HVDRAY_CHECK(shared_->handlers_running == 0);
  CloseListener();
  shared_->on_closed = nullptr;
  shared_->CloseAll();
}

Status HttpServer::Start() {
  shared_->on_closed = [this] {
    if (is_full_ && !is_paused_) ResumeAccepting();
  };
  return shared_->poller.Add(listener_.get(), EPOLLIN, this);
}

uint16_t HttpServer::port() const { return ntohs(shared_->bound.sin_port); }
size_t HttpServer::ConnectionCount() const { return shared_->connection_count; }
bool HttpServer::IsIdle() const {
  return shared_->ListOf(HttpPhase::kHeld).count == 0 &&
         shared_->ListOf(HttpPhase::kWriting).count == 0;
}

void HttpServer::CloseListener() {
  if (!listener_.is_valid()) return;
  shared_->poller.Remove(listener_.get());
  shared_->poller.Forget(this);
  listener_.Reset();
  resume_watch_.Cancel();
}

void HttpServer::OnReady(uint32_t /*events*/) {
  HttpShared& shared = *shared_;
  shared.graveyard.clear();
  for (int accepted = 0; accepted < kMaxAccepts; ++accepted) {
    if (shared.IsFull() && shared.OldestWithoutHeader() == nullptr) {
      is_full_ = true;
      PauseAccepting("the limit of open connections is reached");
      return;
    }
    sockaddr_in remote{};
    socklen_t size = sizeof remote;
    UniqueFd fd(::accept4(listener_.get(), reinterpret_cast<sockaddr*>(&remote), &size,
                          SOCK_CLOEXEC | SOCK_NONBLOCK));
    if (!fd.is_valid()) {
      if (errno == EAGAIN || errno == EWOULDBLOCK) return;
      if (errno == EMFILE || errno == ENFILE || errno == ENOBUFS || errno == ENOMEM) {
        const Status why = ErrnoStatus("accept", errno);
        PauseAccepting(why.message());
        is_paused_ = true;
        resume_watch_ = shared.loop.After(kAcceptPause, [this] { ResumeAccepting(); });
        return;
      }
      continue;  // this connection alone failed: reset, or its network is down
    }
    const bool is_welcome = shared.IsWelcome(fd.get(), remote);
    if (!listener_.is_valid()) return;  // the handler has closed it
    if (!is_welcome) continue;
    if (shared.IsFull()) shared.MakeRoom();
    HttpConnection::Start(shared, std::move(fd));
    if (!listener_.is_valid()) return;
  }
}

void HttpServer::PauseAccepting(std::string_view why) {
  if (!std::exchange(has_logged_pause_, true)) {
    Log(LogLevel::kWarning, "http", "port {} pauses accepting: {}", port(), why);
  }
  shared_->poller.Remove(listener_.get());
}

void HttpServer::ResumeAccepting() {
  is_full_ = is_paused_ = false;
  if (!listener_.is_valid()) return;
  if (!shared_->poller.Add(listener_.get(), EPOLLIN, this).ok()) {
    is_paused_ = true;
    resume_watch_ = shared_->loop.After(kAcceptPause, [this] { ResumeAccepting(); });
  }
}

Result<std::unique_ptr<HttpServer>> HttpServer::Listen(Loop& loop, HttpServerOptions options,
                                                       HttpServerOwner& owner) {
  HVDRAY_ASSIGN_OR_RETURN(UniqueFd listener, OpenListener(options));
  HVDRAY_ASSIGN_OR_RETURN(EdgePoller * poller, loop.edge_poller());
  auto shared = std::make_unique<HttpShared>(loop, *poller, owner);
  socklen_t size = sizeof shared->bound;
  if (::getsockname(listener.get(), reinterpret_cast<sockaddr*>(&shared->bound), &size) != 0) {
    return ErrnoStatus("getsockname", errno);
  }
  shared->is_bound_to_one_address = shared->bound.sin_addr.s_addr != htonl(INADDR_ANY);
  shared->options = std::move(options);
  std::unique_ptr<HttpServer> server(new HttpServer(std::move(shared), std::move(listener)));
  HVDRAY_RETURN_IF_ERROR(server->Start());
  return server;
}

}  // namespace hvdray
