// SPDX-License-Identifier: Apache-2.0
#include "base/http_connection.h"

#include <arpa/inet.h>
#include <fmt/format.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <utility>

#include "base/log.h"

namespace hvdray {
namespace {

constexpr uint32_t kInputEvents = EPOLLIN | EPOLLRDHUP | EPOLLET;
// Bytes per recv(). All connections use one buffer: each empties it before the next is served.
constexpr size_t kScratchBytes = size_t{64} * 1024;
// How much a peer may send ahead while its request is held; beyond that, TCP makes it wait.
constexpr size_t kMaxStashBytes = size_t{64} * 1024;
// Reads in a row for one connection; then the others get their turn.
constexpr int kMaxReads = 32;
constexpr size_t kMaxDiscardBytes = size_t{32} << 20;
constexpr Duration kLingerTimeout = std::chrono::seconds(2);

char* Scratch() {
  thread_local const std::unique_ptr<char[]> scratch(new char[kScratchBytes]);
  return scratch.get();
}

std::string_view ReasonOf(int status) {
  switch (status) {
    case 200:
      return "OK";
    case 400:
      return "Bad Request";
    case 403:
      return "Forbidden";
    case 404:
      return "Not Found";
    case 405:
      return "Method Not Allowed";
    case 408:
      return "Request Timeout";
    case 411:
      return "Length Required";
    case 413:
      return "Content Too Large";
    case 501:
      return "Not Implemented";
    case 503:
      return "Service Unavailable";
    case 505:
      return "HTTP Version Not Supported";
    default:
      return "Status";
  }
}

}  // namespace

void HttpConnection::Start(HttpShared& shared, UniqueFd fd) {
  auto owned = std::make_unique<HttpConnection>(shared, std::move(fd));
  HttpConnection* connection = owned.release();  // Close() hands it to the graveyard
  ++shared.connection_count;
  connection->Enter(HttpPhase::kSilent);
  // The request has usually arrived already (TCP_DEFER_ACCEPT).
  connection->ReadInput(/*until_empty=*/false);
  if (!connection->is_open()) return;
  uint32_t events = kInputEvents;
  if (connection->phase_ == HttpPhase::kWriting) events |= EPOLLOUT;
  const Status added = shared.poller.Add(connection->fd_.get(), events, connection);
  if (!added.ok()) return connection->Close();
  connection->is_watched_ = true;
}

HttpConnection::HttpConnection(HttpShared& shared, UniqueFd fd)
    : shared_(shared), fd_(std::move(fd)) {}

void HttpConnection::OnReady(uint32_t events) {
  shared_.graveyard.clear();  // no function of theirs runs while an event is reported
  if (phase_ == HttpPhase::kLingering) return Discard();
  if ((events & EPOLLOUT) != 0 && phase_ == HttpPhase::kWriting) Flush();
  if (!is_open()) return;
  if ((events & (EPOLLRDHUP | EPOLLHUP | EPOLLERR)) != 0) is_end_near_ = true;
  if ((events & EPOLLIN) != 0 || is_end_near_) ReadInput(/*until_empty=*/is_end_near_);
  // With input paused, recv() can't report the end of input. During kWriting, send() reports it.
  if (is_input_paused_ && is_end_near_ && phase_ == HttpPhase::kHeld) Close();
}

void HttpConnection::ReadInput(bool until_empty) {
  for (int reads = 0; is_open() && !is_input_paused_; ++reads) {
    if (reads == kMaxReads && can_process()) {
      is_input_paused_ = true;
      return shared_.ResumeSoon(this);
    }
    char* scratch = Scratch();
    const ssize_t n = ::recv(fd_.get(), scratch, kScratchBytes, MSG_DONTWAIT);
    if (n < 0 && errno == EINTR) continue;
    if (n < 0 && (errno == EAGAIN || errno == EWOULDBLOCK)) return;
    if (n < 0) return Close();
    if (n == 0) return OnEndOfInput();
    const ByteView in(scratch, static_cast<size_t>(n));
    if (phase_ == HttpPhase::kLingering) return Discard();
    can_process() ? Process(in) : Stash(in);
    // A short read has emptied the socket: later bytes cause a new event.
    if (static_cast<size_t>(n) < kScratchBytes && !until_empty) return;
  }
}

void HttpConnection::Process(ByteView in) {
  is_processing_ = true;
  for (;;) {
    if (!can_process()) {
      if (is_open() && phase_ != HttpPhase::kLingering) Stash(in);
      break;
    }
    const HttpEvent event = parser_.Feed(shared_.options.limits, &in);
    if (event == HttpEvent::kNeedMore) {
      if (!Account()) {
        Refuse(503);
      } else if (parser_.is_midway() != (phase_ == HttpPhase::kReading)) {
        Enter(parser_.is_midway() ? HttpPhase::kReading : HttpPhase::kIdle);
      }
      break;
    }
    if (event == HttpEvent::kError) {
      Refuse(parser_.error_status());
      break;
    }
    if (event == HttpEvent::kHeader) {
      has_sent_header_ = true;
      if (parser_.expects_continue() && in.empty()) {
        constexpr std::string_view kContinue = "HTTP/1.1 100 Continue\r\n\r\n";
        (void)!::send(fd_.get(), kContinue.data(), kContinue.size(), MSG_NOSIGNAL | MSG_DONTWAIT);
      }
      continue;
    }
    Dispatch();
  }
  is_processing_ = false;
}

bool HttpConnection::Account() {
  const size_t now = parser_.buffered_bytes();
  shared_.buffered_bytes += now - buffered_;
  buffered_ = now;
  return shared_.buffered_bytes <= shared_.options.max_buffered_bytes;
}

void HttpConnection::Stash(ByteView rest) {
  stash_.append(rest);
  is_input_paused_ = stash_.size() >= kMaxStashBytes;
}

void HttpConnection::OnEndOfInput() {
  saw_end_ = true;
  // Finishes an answer that is being written. Ends a held request: our clients never half-close, so
  // the end of input means that the client is gone, and nothing else would show it.
  if (phase_ != HttpPhase::kWriting) Close();
}

void HttpConnection::Dispatch() {
  keeps_alive_ = parser_.keeps_alive();
  is_http10_ = parser_.is_http10();
  is_head_ = parser_.is_head_method();
  auto impl = std::make_unique<HttpExchange::Impl>();
  impl->request = parser_.Take();
  Account();
  impl->connection = this;
  exchange_ = impl.get();
  Enter(HttpPhase::kHeld);
  const HttpShared::Running running(shared_);
  shared_.owner.OnRequest(HttpExchange(std::move(impl)));
}

void HttpConnection::Refuse(int status) {
  const LogLevel level = shared_.has_logged_refusal ? LogLevel::kDebug : LogLevel::kWarning;
  shared_.has_logged_refusal = true;
  Log(level, "http", "refused a request on port {} with {}", ntohs(shared_.bound.sin_port), status);
  keeps_alive_ = false;
  is_http10_ = false;
  is_head_ = false;
  Enter(HttpPhase::kHeld);
  Reply(status, nullptr);
}

void HttpConnection::Reply(int status, std::shared_ptr<const std::string> body) {
  exchange_ = nullptr;
  const size_t size = body == nullptr ? 0 : body->size();
  // Horovod's client matches header names case-sensitively (docs/rendezvous.md).
  fmt::memory_buffer head;
  fmt::format_to(std::back_inserter(head), "HTTP/1.1 {} {}\r\nContent-Length: {}\r\n", status,
                 ReasonOf(status), size);
  if (!keeps_alive_) {
    head.append(std::string_view("Connection: close\r\n"));
  } else if (is_http10_) {
    head.append(std::string_view("Connection: keep-alive\r\n"));
  }
  head.append(std::string_view("\r\n"));
  if (is_head_ || size == 0) body = nullptr;

  iovec parts[2] = {{head.data(), head.size()}, {nullptr, 0}};
  if (body != nullptr) parts[1] = {const_cast<char*>(body->data()), size};
  msghdr message{};
  message.msg_iov = parts;
  message.msg_iovlen = body == nullptr ? 1 : 2;
  ssize_t n = 0;
  do {
    n = ::sendmsg(fd_.get(), &message, MSG_NOSIGNAL | MSG_DONTWAIT);
  } while (n < 0 && errno == EINTR);
  if (n < 0 && errno != EAGAIN && errno != EWOULDBLOCK) return Close();
  const size_t sent = n < 0 ? 0 : static_cast<size_t>(n);
  if (sent == parts[0].iov_len + parts[1].iov_len) return AfterReply();
  unsent_ = std::make_unique<Unsent>(
      Unsent{std::string(head.data(), head.size()), std::move(body), sent});
  Enter(HttpPhase::kWriting);
  // If not watched yet, Start() adds EPOLLOUT.
  if (is_watched_ && !shared_.poller.Modify(fd_.get(), kInputEvents | EPOLLOUT, this).ok()) Close();
}

void HttpConnection::Flush() {
  while (unsent_ != nullptr) {
    const std::string& head = unsent_->head;
    const size_t body_size = unsent_->body == nullptr ? 0 : unsent_->body->size();
    iovec parts[2] = {};
    size_t count = 0;
    if (unsent_->sent < head.size()) {
      parts[count++] = {unsent_->head.data() + unsent_->sent, head.size() - unsent_->sent};
    }
    const size_t body_sent = unsent_->sent - std::min(unsent_->sent, head.size());
    if (body_sent < body_size) {
      parts[count++] = {const_cast<char*>(unsent_->body->data()) + body_sent,
                        body_size - body_sent};
    }
    if (count == 0) {
      unsent_.reset();
      AfterReply();
      if (can_process() && !is_processing_) Resume();
      return;
    }
    msghdr message{};
    message.msg_iov = parts;
    message.msg_iovlen = count;
    const ssize_t n = ::sendmsg(fd_.get(), &message, MSG_NOSIGNAL | MSG_DONTWAIT);
    if (n < 0 && errno == EINTR) continue;
    if (n < 0 && (errno == EAGAIN || errno == EWOULDBLOCK)) return;
    if (n < 0) return Close();
    unsent_->sent += static_cast<size_t>(n);
    Enter(HttpPhase::kWriting);  // the peer reads: restart its timeout
  }
}

void HttpConnection::AfterReply() {
  if (saw_end_) return Close();
  if (!keeps_alive_) return ShutDown();
  Enter(HttpPhase::kIdle);
  // Answered outside Process(): the next request must not call back into the code that answers.
  if (!is_processing_ && (!stash_.empty() || is_input_paused_)) shared_.ResumeSoon(this);
}

void HttpConnection::Resume() {
  if (!can_process()) return;
  const std::string waiting = std::exchange(stash_, {});
  const bool was_paused = std::exchange(is_input_paused_, false);
  if (!waiting.empty()) Process(waiting);
  if (was_paused) ReadInput(/*until_empty=*/true);
}

void HttpConnection::ShutDown() {
  // Closing a socket with unread bytes resets the connection, and the peer may lose the answer.
  if (::shutdown(fd_.get(), SHUT_WR) != 0) return Close();
  stash_.clear();
  Enter(HttpPhase::kLingering);
  Discard();
}

void HttpConnection::Discard() {
  for (size_t total = 0; total < kMaxDiscardBytes;) {
    // MSG_TRUNC on TCP discards in the kernel, without a copy.
    const ssize_t n = ::recv(fd_.get(), nullptr, size_t{1} << 20, MSG_DONTWAIT | MSG_TRUNC);
    if (n < 0 && errno == EINTR) continue;
    if (n < 0 && (errno == EAGAIN || errno == EWOULDBLOCK)) return;
    if (n <= 0) return Close();
    total += static_cast<size_t>(n);
  }
  Close();
}

void HttpConnection::OnTimeout() {
  // Only a request that arrives too slowly gets an answer.
  phase_ == HttpPhase::kReading ? Refuse(408) : Close();
}

void HttpConnection::Abandon() {
  exchange_ = nullptr;
  Close();
}

void HttpConnection::Close() {
  if (!is_open()) return;
  HttpExchange::Impl* exchange = std::exchange(exchange_, nullptr);
  CloseSilently();
  if (shared_.on_closed != nullptr) shared_.on_closed();
  if (exchange == nullptr) return;
  exchange->connection = nullptr;
  const std::function<void()> on_gone = std::exchange(exchange->on_gone, nullptr);
  if (on_gone == nullptr) return;
  const HttpShared::Running running(shared_);
  on_gone();
}

void HttpConnection::CloseSilently() {
  if (!is_open()) return;
  if (exchange_ != nullptr) exchange_->connection = nullptr;
  exchange_ = nullptr;
  Leave();
  phase_ = HttpPhase::kClosed;
  if (std::exchange(is_watched_, false)) shared_.poller.Remove(fd_.get());
  shared_.poller.Forget(this);
  fd_.Reset();
  std::string().swap(stash_);
  unsent_.reset();
  parser_ = HttpParser();
  Account();
  --shared_.connection_count;
  std::erase(shared_.resumable, this);
  shared_.graveyard.emplace_back(this);
}

void HttpConnection::Enter(HttpPhase phase) {
  if (phase_ != HttpPhase::kClosed) Leave();
  phase_ = phase;
  HttpPhaseList& list = shared_.ListOf(phase);
  previous_ = list.last;
  next_ = nullptr;
  (list.last == nullptr ? list.first : list.last->next_) = this;
  list.last = this;
  ++list.count;
  if (phase == HttpPhase::kHeld) return;
  entered_ = shared_.loop.Now();
  shared_.ArmTimer(entered_ + shared_.Timeout(phase));
}

void HttpConnection::Leave() {
  HttpPhaseList& list = shared_.ListOf(phase_);
  (previous_ == nullptr ? list.first : previous_->next_) = next_;
  (next_ == nullptr ? list.last : next_->previous_) = previous_;
  previous_ = next_ = nullptr;
  --list.count;
}

HttpExchange::HttpExchange(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
HttpExchange::HttpExchange(HttpExchange&&) noexcept = default;
HttpExchange& HttpExchange::operator=(HttpExchange&& other) noexcept {
  HttpExchange old(std::move(*this));
  impl_ = std::move(other.impl_);
  return *this;
}
HttpExchange::~HttpExchange() {
  if (impl_ != nullptr && impl_->connection != nullptr) impl_->connection->Abandon();
}

const HttpRequest& HttpExchange::request() const { return impl_->request; }
HttpRequest& HttpExchange::request() { return impl_->request; }

void HttpExchange::Reply(int status, std::shared_ptr<const std::string> body) {
  HttpConnection* connection = std::exchange(impl_->connection, nullptr);
  impl_->on_gone = nullptr;
  if (connection != nullptr) connection->Reply(status, std::move(body));
}

void HttpExchange::OnGone(std::function<void()> callback) { impl_->on_gone = std::move(callback); }

void HttpShared::CloseAll() {
  for (HttpPhaseList& list : lists) {
    while (list.first != nullptr) list.first->CloseSilently();
  }
  timer.Cancel();
  resume_watch.Cancel();
}

bool HttpShared::IsWelcome(int fd, const sockaddr_in& remote) {
  HttpPeer peer{fd, remote, bound};
  if (!is_bound_to_one_address) {
    socklen_t size = sizeof peer.local;
    (void)::getsockname(fd, reinterpret_cast<sockaddr*>(&peer.local), &size);
  }
  const Running running(*this);
  return owner.IsWelcome(peer);
}

HttpConnection* HttpShared::OldestWithoutHeader() const {
  const auto first_in = [this](HttpPhase phase) {
    HttpConnection* connection = lists[static_cast<size_t>(phase)].first;
    while (connection != nullptr && connection->has_sent_header_) connection = connection->next_;
    return connection;
  };
  HttpConnection* const silent = first_in(HttpPhase::kSilent);
  return silent != nullptr ? silent : first_in(HttpPhase::kReading);
}

void HttpShared::MakeRoom() {
  HttpConnection* const oldest = OldestWithoutHeader();
  if (oldest == nullptr) return;
  if (!std::exchange(has_logged_drop, true)) {
    Log(LogLevel::kWarning, "http", "port {} is full; closing connections without a request",
        ntohs(bound.sin_port));
  }
  oldest->Close();
}

Duration HttpShared::Timeout(HttpPhase phase) const {
  switch (phase) {
    case HttpPhase::kReading:
      return options.read_timeout;
    case HttpPhase::kSilent:
    case HttpPhase::kIdle:
    case HttpPhase::kWriting:
      return options.idle_timeout;
    case HttpPhase::kLingering:
      return kLingerTimeout;
    case HttpPhase::kHeld:
    case HttpPhase::kClosed:
      break;
  }
  return Duration::max();
}

void HttpShared::ArmTimer(TimePoint due) {
  if (due >= timer_due) return;
  timer_due = due;
  timer = loop.After(due - loop.Now(), [this] { Expire(); });
}

void HttpShared::Expire() {
  timer_due = TimePoint::max();
  const TimePoint now = loop.Now();
  for (const HttpPhase phase : {HttpPhase::kSilent, HttpPhase::kIdle, HttpPhase::kReading,
                                HttpPhase::kWriting, HttpPhase::kLingering}) {
    HttpPhaseList& list = ListOf(phase);
    while (list.first != nullptr && list.first->entered_ + Timeout(phase) <= now) {
      list.first->OnTimeout();
    }
    if (list.first != nullptr) ArmTimer(list.first->entered_ + Timeout(phase));
  }
}

void HttpShared::ResumeSoon(HttpConnection* connection) {
  resumable.push_back(connection);
  if (resume_watch.is_active()) return;
  resume_watch = loop.After(Duration::zero(), [this] {
    resume_watch.Cancel();
    // Resume() may close other connections, which then remove themselves from the list.
    for (size_t left = resumable.size(); left > 0 && !resumable.empty(); --left) {
      HttpConnection* next = resumable.front();
      resumable.erase(resumable.begin());
      next->Resume();
    }
  });
}

}  // namespace hvdray
