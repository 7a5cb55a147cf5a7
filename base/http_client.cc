// SPDX-License-Identifier: Apache-2.0
#include "base/http_client.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <httplib.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <strings.h>
#include <sys/eventfd.h>
#include <sys/socket.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cerrno>
#include <cstring>
#include <string_view>
#include <system_error>
#include <thread>

#include "base/base64.h"
#include "base/fd.h"
#include "base/local_peer.h"
#include "base/name_service.h"
#include "base/text.h"
#include "base/unix_socket.h"

namespace hvdray {
namespace {

using Clock = std::chrono::steady_clock;
using Take = std::function<bool(ByteView piece)>;

constexpr size_t kSendPiece = size_t{256} << 10;
constexpr size_t kMaxHeadBytes = size_t{1} << 20;
constexpr size_t kMaxLineBytes = size_t{8} << 10;
// The library matches such a line by recursion, 320 bytes of stack for each of its own.
constexpr size_t kMaxStatusLineBytes = size_t{1} << 10;
constexpr size_t kShortAnswer = size_t{16} << 20;

/// Blanks and control bytes in a path could smuggle in a second request or header.
bool IsSafePath(std::string_view path) {
  return path.starts_with('/') && std::ranges::none_of(path, [](char c) {
           return static_cast<unsigned char>(c) <= 0x20 || c == 0x7F;
         });
}

bool IsSafeHeader(const std::string& name, const std::string& value) {
  const auto is_control = [](char c) {
    return (static_cast<unsigned char>(c) < 0x20 && c != '\t') || c == 0x7F;
  };
  return !name.empty() && std::ranges::none_of(name, [](char c) {
    return static_cast<unsigned char>(c) <= 0x20 || c == ':' || c == 0x7F;
  }) && std::ranges::none_of(value, is_control);
}

void Replace(httplib::Headers& headers, const std::string& name, const std::string& value) {
  headers.erase(name);
  headers.emplace(name, value);
}

/// What ends a call from outside: its deadline, and Cancel().
class Limit {
 public:
  enum class End : uint8_t { kNone, kLate, kCancelled };

  void Set(std::optional<TimePoint> deadline) { deadline_ = deadline; }
  void Begin() {
    deadline_.reset();
    end_ = End::kNone;
  }
  End end() const { return end_; }
  bool has_deadline() const { return deadline_.has_value(); }
  TimePoint deadline() const { return *deadline_; }

  /// Any thread's.
  void Cancel() {
    is_cancelled_ = true;
    ::eventfd_write(cancel_.get(), 1);
  }

  bool IsOver() {
    if (is_cancelled_) end_ = End::kCancelled;
    if (end_ == End::kNone && deadline_ && Clock::now() >= *deadline_) end_ = End::kLate;
    return end_ != End::kNone;
  }

  /// Waits for `events` of `fd`, until `until` at most (false, and not over). False: over.
  bool Wait(int fd, short events, std::optional<TimePoint> until = std::nullopt) {
    if (deadline_ && (!until || *deadline_ < *until)) until = deadline_;
    while (!IsOver()) {
      timespec left{};
      if (until) {
        const auto ns = std::max<Duration>(*until - Clock::now(), Duration(0)).count();
        left = {ns / std::nano::den, ns % std::nano::den};
      }
      std::array<pollfd, 2> fds{{{fd, events, 0}, {cancel_.get(), POLLIN, 0}}};
      const int ready = ::ppoll(fds.data(), fds.size(), until ? &left : nullptr, nullptr);
      if (ready > 0 && fds[0].revents != 0) return true;
      if (until && Clock::now() >= *until) break;
    }
    IsOver();
    return false;
  }

 private:
  std::optional<TimePoint> deadline_;
  End end_ = End::kNone;
  std::atomic<bool> is_cancelled_ = false;
  const UniqueFd cancel_{::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)};
};

/// The addresses of a name. The name service can't be interrupted: a thread asks it, and shares
/// this with the caller, who may have gone by the time of the answer.
struct Lookup {
  Result<AddressList> found = AddressList();
  std::atomic<bool> is_done = false;
  const UniqueFd notice{::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)};  // readable: is_done

  /// Returns when the answer is there, or `limit` is over.
  static std::shared_ptr<const Lookup> Find(const std::string& host, uint16_t port, Limit& limit) {
    auto lookup = std::make_shared<Lookup>();
    lookup->found = ParseHost(host, port);
    if (lookup->found.ok()) return lookup;
    std::thread([lookup, host, port] {
      lookup->found = FindHost(host, port);
      lookup->is_done = true;
      ::eventfd_write(lookup->notice.get(), 1);
    }).detach();
    return limit.Wait(lookup->notice.get(), POLLIN) && lookup->is_done ? lookup : nullptr;
  }
};

/// Without keep-alive, a reader would wait forever for a peer that was switched off.
void SetOptions(int fd) {
  const int on = 1, idle_s = 15, interval_s = 5, count = 3;
  ::setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
  ::setsockopt(fd, SOL_SOCKET, SO_KEEPALIVE, &on, sizeof on);
  ::setsockopt(fd, IPPROTO_TCP, TCP_KEEPIDLE, &idle_s, sizeof idle_s);
  ::setsockopt(fd, IPPROTO_TCP, TCP_KEEPINTVL, &interval_s, sizeof interval_s);
  ::setsockopt(fd, IPPROTO_TCP, TCP_KEEPCNT, &count, sizeof count);
}

/// Returns 0 or an errno; ETIMEDOUT also when `until` has come.
int ConnectTo(const addrinfo& address, UniqueFd& fd, Limit& limit, std::optional<TimePoint> until) {
  fd.Reset(::socket(address.ai_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  if (!fd.is_valid()) return errno;
  SetOptions(fd.get());
  if (::connect(fd.get(), address.ai_addr, address.ai_addrlen) == 0) return 0;
  if (errno != EINPROGRESS && errno != EINTR) return errno;
  if (!limit.Wait(fd.get(), POLLOUT, until)) return ETIMEDOUT;
  int error = 0;
  socklen_t size = sizeof error;
  return ::getsockopt(fd.get(), SOL_SOCKET, SO_ERROR, &error, &size) == 0 ? error : errno;
}

/// "connection refused"
std::string Words(int error) {
  std::string words = std::generic_category().message(error);
  words.replace(0, 1, Lower(words.substr(0, 1)));
  return words;
}

class PlainChannel final : public HttpChannel {
 public:
  explicit PlainChannel(int fd) : fd_(fd) {}
  ssize_t Handshake() override { return 1; }
  Status HandshakeFault() const override { return {}; }
  bool is_verified() const override { return false; }
  ssize_t Read(char* to, size_t size) override {
    return Done(::recv(fd_, to, size, 0), kWantsRead);
  }
  // The disposition of SIGPIPE belongs to the program that links us.
  ssize_t Write(const char* from, size_t size) override {
    return Done(::send(fd_, from, size, MSG_NOSIGNAL), kWantsWrite);
  }

 private:
  static ssize_t Done(ssize_t count, ssize_t again) {
    if (count >= 0) return count;
    return errno == EAGAIN || errno == EINTR ? again : kBroken;
  }

  const int fd_;
};

/// A connection as cpp-httplib reads and writes it.
class Connection final : public httplib::Stream {
 public:
  Connection(UniqueFd fd, Limit& limit)
      : fd_(std::move(fd)), limit_(limit), channel_(std::make_unique<PlainChannel>(fd_.get())) {}

  int fd() const { return fd_.get(); }
  HttpChannel& channel() { return *channel_; }
  /// What has arrived so far belongs to the old channel.
  void Use(std::unique_ptr<HttpChannel> channel) {
    channel_ = std::move(channel);
    begin_ = end_ = 0;
  }

  /// Calls `operation` until it is done; -1: it failed, or the limit was over.
  ssize_t Until(const std::function<ssize_t()>& operation) {
    while (!limit_.IsOver()) {
      const ssize_t done = operation();
      if (done >= 0) return done;
      const bool wants_read = done == HttpChannel::kWantsRead;
      if (!wants_read && done != HttpChannel::kWantsWrite) break;
      if (!limit_.Wait(fd_.get(), wants_read ? POLLIN : POLLOUT)) break;
    }
    return -1;
  }

  /// Nothing has come since the last answer, not even an end.
  bool IsIdle() {
    char byte;
    return begin_ == end_ && channel_->Read(&byte, 1) == HttpChannel::kWantsRead;
  }

  /// Of one answer. Limits what must be kept whole.
  void BeginHead() {
    head_bytes_left_ = kMaxHeadBytes;
    line_bytes_ = 0;
  }
  void EndHead() { head_bytes_left_ = std::string::npos; }

  ssize_t read(char* to, size_t size) override {
    if (head_bytes_left_ == 0) return -1;
    const bool is_line = size == 1;  // lines are read byte by byte, bodies in pieces
    if (begin_ == end_) {
      const ssize_t count =
          Until([this] { return channel_->Read(buffer_.data(), buffer_.size()); });
      if (count <= 0) return is_line ? -1 : count;  // the library would take half a line for one
      begin_ = 0;
      end_ = static_cast<size_t>(count);
    }
    size = std::min({size, end_ - begin_, head_bytes_left_});
    std::memcpy(to, buffer_.data() + begin_, size);
    begin_ += size;
    if (head_bytes_left_ != std::string::npos) head_bytes_left_ -= size;
    if (!is_line) line_bytes_ = 0;
    if (is_line && !MayGoOn(*to)) return -1;
    return static_cast<ssize_t>(size);
  }
  ssize_t write(const char* from, size_t size) override {
    return Until([&] { return channel_->Write(from, size); });
  }
  // Nobody asks a client.
  bool is_readable() const override { return true; }
  bool is_writable() const override { return true; }
  void get_remote_ip_and_port(std::string&, int&) const override {}
  void get_local_ip_and_port(std::string&, int&) const override {}
  socket_t socket() const override { return fd_.get(); }

  bool are_secrets_sent = false;

 private:
  /// Counts the bytes of a line, of the head or before a chunk. False: too many.
  bool MayGoOn(char byte) {
    constexpr std::string_view kStatus = "HTTP/";
    if (line_bytes_ < kStatus.size()) {
      is_status_line_ = (is_status_line_ || line_bytes_ == 0) && byte == kStatus[line_bytes_];
    }
    line_bytes_ = byte == '\n' ? 0 : line_bytes_ + 1;
    return line_bytes_ <= (is_status_line_ ? kMaxStatusLineBytes : kMaxLineBytes);
  }

  const UniqueFd fd_;
  Limit& limit_;
  std::unique_ptr<HttpChannel> channel_;
  std::array<char, 16384> buffer_;
  size_t begin_ = 0, end_ = 0;  // of what is in it
  size_t head_bytes_left_ = std::string::npos;
  size_t line_bytes_ = 0;  // of the present line so far
  bool is_status_line_ = false;
};

/// The library's client, without its connections: writes a request, reads the answer.
class Exchanger final : public httplib::ClientImpl {
 public:
  explicit Exchanger(const HttpClientOptions& options) : ClientImpl(options.host, options.port) {
    set_url_encode(false);
    set_decompress(false);
  }
  using ClientImpl::process_request;
};

}  // namespace

struct HttpClient::Impl {
  explicit Impl(HttpClientOptions with) : options(std::move(with)), exchanger(options) {}

  std::string Place() const { return fmt::format("{}:{}", Bracketed(options.host), options.port); }
  std::string ProxyPlace() const {
    return fmt::format("{}:{}", Bracketed(options.proxy->host), options.proxy->port);
  }

  Status Check(const HttpCall& call) const {
    if (!IsSafePath(call.path)) {
      return {ErrorCode::kUsage, fmt::format("{}: not a valid request path", call.method)};
    }
    for (const HttpHeaders* headers : {&options.headers, &options.secrets, &call.headers}) {
      for (const auto& [name, value] : *headers) {
        if (!IsSafeHeader(name, value)) {
          return {ErrorCode::kUsage, "a header contains bytes that can't be sent"};
        }
      }
    }
    return {};
  }

  // Connecting.

  Status NoAnswer() const {
    if (limit.end() == Limit::End::kCancelled) return {ErrorCode::kCancelled, "cancelled"};
    const std::string whose = options.proxy ? fmt::format(" of the proxy {}", ProxyPlace()) : "";
    return {ErrorCode::kConnectTimeout,
            fmt::format("no answer{} within {}", whose, SecondsText(options.connect_timeout))};
  }

  Result<UniqueFd> OpenTcp() {
    const HttpProxy* proxy = options.proxy ? &*options.proxy : nullptr;
    const std::string& host = proxy != nullptr ? proxy->host : options.host;
    const auto lookup = Lookup::Find(host, proxy != nullptr ? proxy->port : options.port, limit);
    if (lookup == nullptr) return NoAnswer();
    if (!lookup->found.ok()) {
      // A hint: nobody could be asked.
      const Status& why = lookup->found.status();
      return Status(
          ErrorCode::kUnknownHost,
          fmt::format("no address for the name {}{}{}", host, proxy ? ", the proxy's" : "",
                      why.hint().empty() ? "" : ": " + why.message()),
          why.hint());
    }
    const addrinfo* const first = lookup->found->get();
    int left = 0;
    for (const addrinfo* each = first; each != nullptr; each = each->ai_next) ++left;
    UniqueFd fd;
    int fault = 0;  // of the first address: the last ones are those that this host has no route to
    for (const addrinfo* each = first; each != nullptr; each = each->ai_next, --left) {
      // An address that swallows everything leaves time for the others.
      const TimePoint now = Clock::now();
      const int error = ConnectTo(*each, fd, limit, now + (limit.deadline() - now) / left);
      if (error == 0) return fd;
      if (limit.IsOver()) return NoAnswer();
      if (fault == 0) fault = error;
    }
    if (fault == EMFILE || fault == ENFILE) return ErrnoStatus("open a socket", fault);
    if (proxy == nullptr) return Status(ErrorCode::kHostUnreachable, Words(fault));
    return Status(ErrorCode::kHostUnreachable,
                  fmt::format("connection to the proxy {}: {}", ProxyPlace(), Words(fault)));
  }

  Result<UniqueFd> OpenSocket() {
    if (options.socket_path.empty()) return OpenTcp();
    UniqueFd fd;
    if (ConnectUnix(options.socket_path, fd) != 0 || !SetNonBlocking(fd.get()).ok()) {
      return Status(ErrorCode::kHostUnreachable, "the tunnel has ended");
    }
    return fd;
  }

  /// Of a connection in clear text: whether it may have the call, and the secrets.
  Status JudgePeer(bool is_confidential) {
    using Kind = LocalPeer::Kind;
    const bool is_any = !options.socket_path.empty() || options.local_peer == HttpLocalPeer::kAny;
    const LocalPeer peer = is_any ? LocalPeer{Kind::kTrusted, 0} : FindLocalPeer(connection->fd());
    const bool is_elsewhere = peer.kind == Kind::kElsewhere;
    const bool is_trusted = peer.kind == Kind::kTrusted;
    connection->are_secrets_sent = is_trusted || (is_elsewhere && options.are_secrets_for_others);
    if (is_trusted || is_elsewhere) return {};
    if (!is_confidential && options.local_peer != HttpLocalPeer::kOwnerOnly) return {};
    return {
        ErrorCode::kAuthenticationFailed,
        fmt::format("port {} of this machine belongs to {}", options.port,
                    peer.kind == Kind::kOtherUser ? fmt::format("another user (uid {})", peer.uid)
                                                  : std::string("an unknown user"))};
  }

  void AddProxyLogin(httplib::Headers& headers) const {
    if (options.proxy->user.empty()) return;
    const std::string login = options.proxy->user + ":" + options.proxy->password;
    Replace(headers, "Proxy-Authorization", "Basic " + EncodeBase64(login));
  }

  /// Asks the proxy for a tunnel. Sets `reply` if it wants a login.
  Status OpenTunnel(HttpReply& reply) {
    httplib::Request request;
    request.method = "CONNECT";
    request.path = Place();
    request.headers = {{"Host", Place()}, {"User-Agent", "hvdray"}};
    AddProxyLogin(request.headers);
    httplib::Response response;
    httplib::Error error{};
    connection->BeginHead();
    const bool is_answered =
        exchanger.process_request(*connection, request, response, false, error);
    if (is_answered && response.status / 100 == 2) return {};
    if (limit.IsOver()) return NoAnswer();
    constexpr int kLoginWanted = 407;
    if (is_answered && response.status == kLoginWanted) {
      reply.status = kLoginWanted;
      return {};
    }
    // The library takes any line for an answer to CONNECT.
    const bool is_http = is_answered && response.status > 0;
    const std::string why = is_http ? fmt::format(": HTTP {}", response.status) : "";
    return {ErrorCode::kHandshakeFailed,
            fmt::format("the proxy {} refused the tunnel{}", ProxyPlace(), why)};
  }

  Status StartTls() {
    HVDRAY_ASSIGN_OR_RETURN(std::unique_ptr<HttpChannel> channel,
                            options.tls(connection->fd(), options.host));
    connection->Use(std::move(channel));
    HttpChannel& tls = connection->channel();
    connection->are_secrets_sent = tls.is_verified() || options.are_secrets_for_others;
    if (connection->Until([&tls] { return tls.Handshake(); }) > 0) return {};
    if (limit.end() == Limit::End::kNone) return tls.HandshakeFault();
    if (limit.end() == Limit::End::kCancelled) return NoAnswer();
    // A plain HTTP server waits for the end of a line, so it may say nothing at all.
    return {ErrorCode::kHandshakeFailed,
            fmt::format("it does not speak TLS: no handshake within {}",
                        SecondsText(options.connect_timeout))};
  }

  /// Sets `reply` if a proxy has answered instead.
  Status Connect(bool is_confidential, HttpReply& reply) {
    HVDRAY_ASSIGN_OR_RETURN(UniqueFd fd, OpenSocket());
    connection = std::make_unique<Connection>(std::move(fd), limit);
    if (!options.tls) return JudgePeer(is_confidential);
    if (options.proxy) HVDRAY_RETURN_IF_ERROR(OpenTunnel(reply));
    return reply.status == 0 ? StartTls() : Status();
  }

  // Asking.

  httplib::Request MakeRequest(const HttpCall& call) {
    httplib::Request request;
    request.method = call.method;
    request.path = call.path;
    request.headers = {{"Host", Place()}, {"Accept", "*/*"}, {"Accept-Encoding", "identity"}};
    for (const HttpHeaders* headers : {&options.headers, &call.headers}) {
      for (const auto& [name, value] : *headers) Replace(request.headers, name, value);
    }
    for (const auto& [name, value] : options.secrets) {
      request.headers.erase(name);
      if (connection->are_secrets_sent) request.headers.emplace(name, value);
    }
    if (options.proxy && !options.tls) {
      request.path = fmt::format("http://{}{}", Place(), call.path);
      AddProxyLogin(request.headers);
    }
    if (call.body.empty()) return request;
    request.content_length_ = call.body.size();
    request.content_provider_ = [this, body = call.body](size_t offset, size_t length,
                                                         httplib::DataSink& sink) {
      bytes_sent = offset;
      Extend();
      return sink.write(body.data() + offset, std::min(length, kSendPiece));
    };
    return request;
  }

  void Extend() {
    if (limit.has_deadline()) limit.Set(Clock::now() + options.timeout);
  }

  /// What `take` returns. Its own time does not count.
  bool Give(const Take& take, ByteView piece) {
    if (limit.IsOver()) return false;
    const bool had_deadline = limit.has_deadline();
    limit.Set(std::nullopt);
    is_enough = !take(piece);
    if (had_deadline) limit.Set(Clock::now() + options.timeout);
    return !is_enough;
  }

  /// Makes one attempt. `take`: nullptr to keep the whole answer. False: no whole answer.
  bool Attempt(const HttpCall& call, const Take* take, HttpReply& reply) {
    httplib::Request request = MakeRequest(call);
    const auto read_head = [&](const httplib::Response& response) {
      connection->EndHead();
      reply.status = response.status;
      reply.content_type = response.get_header_value("Content-Type");
      reply.location = response.get_header_value("Location");
      if (take != nullptr && reply.status != 200) limit.Set(Clock::now() + options.timeout);
      return true;
    };
    request.response_handler = read_head;
    request.content_receiver = [&](const char* data, size_t size, uint64_t, uint64_t) {
      if (size == 0) return true;
      if (take != nullptr && reply.status == 200) return Give(*take, {data, size});
      is_too_large = reply.body.size() + size > options.max_body_bytes;
      if (!is_too_large) reply.body.append(data, size);
      return !is_too_large;
    };
    httplib::Response response;
    httplib::Error error{};
    connection->BeginHead();
    const bool is_whole = exchanger.process_request(*connection, request, response, false, error);
    is_cut_while_writing = error == httplib::Error::Write;
    if (!is_whole) return false;
    read_head(response);  // again: an answer without a body reaches no handler
    reply.has_had_secrets = connection->are_secrets_sent;
    const bool is_last =
        response.version == "HTTP/1.0" ||
        ::strcasecmp(response.get_header_value("Connection").c_str(), "close") == 0;
    if (is_last) connection.reset();
    return true;
  }

  Result<HttpReply> Run(const HttpCall& call, const Take* take = nullptr, bool is_endless = false) {
    HVDRAY_RETURN_IF_ERROR(Check(call));
    const bool is_confidential = options.local_peer == HttpLocalPeer::kNotForSecrets &&
                                 (!options.secrets.empty() || !call.body.empty());
    // A POST that can't be repeated gets a connection that the server can't have closed yet. A
    // connection that was good enough for less is judged anew.
    const bool is_repeatable = call.is_repeatable.value_or(call.method != "POST");
    if (!is_repeatable || is_confidential != was_confidential) connection.reset();
    was_confidential = is_confidential;
    is_enough = is_too_large = false;
    bytes_sent = 0;
    limit.Begin();
    if (limit.IsOver()) return NoAnswer();
    const TimePoint start = Clock::now();
    try {
      while (true) {
        HttpReply reply;
        const bool is_kept = connection != nullptr && connection->IsIdle();
        if (!is_kept) {
          limit.Set(start + options.connect_timeout);
          connection.reset();
          if (Status status = Connect(is_confidential, reply); !status.ok()) {
            connection.reset();
            return status;
          }
          if (reply.status != 0) {
            connection.reset();
            return reply;
          }
        }
        limit.Set(is_endless ? std::nullopt : std::optional(start + options.timeout));
        if (Attempt(call, take, reply)) return reply;
        connection.reset();
        if (is_enough) return reply;
        if (is_kept && reply.status == 0 && !limit.IsOver()) continue;
        return Fault(reply, call.body.size());
      }
    } catch (const std::exception& thrown) {  // no memory, or no thread
      connection.reset();
      return Status(ErrorCode::kOutOfResources,
                    fmt::format("{} request: {}", call.method, thrown.what()));
    }
  }

  Status Fault(const HttpReply& reply, size_t body_bytes) {
    if (limit.IsOver()) {
      if (limit.end() == Limit::End::kCancelled) return {ErrorCode::kCancelled, "cancelled"};
      return {ErrorCode::kDeadlineExceeded,
              fmt::format("no complete answer within {}", SecondsText(options.timeout))};
    }
    if (is_too_large) {
      return {ErrorCode::kProtocolError,
              fmt::format("answer larger than {} bytes", options.max_body_bytes)};
    }
    if (is_cut_while_writing && body_bytes > 0) {
      return {
          ErrorCode::kProtocolError,
          fmt::format("connection closed after {} of {} bytes were sent", bytes_sent, body_bytes)};
    }
    return {ErrorCode::kProtocolError, reply.status == 0
                                           ? "connection closed without an HTTP answer"
                                           : "connection closed in the middle of the answer"};
  }

  Result<HttpReply> RunNamed(const HttpCall& call) {
    Result<HttpReply> reply = Run(call);
    if (reply.ok() || reply.status().code() == ErrorCode::kUsage) return reply;
    return std::move(reply).status().WithContext(
        fmt::format("{} {}: {}", call.method, call.path, Place()));
  }

  const HttpClientOptions options;
  Exchanger exchanger;
  Limit limit;
  std::unique_ptr<Connection> connection;
  bool was_confidential = false;  // the call before

  // Of the current call.
  bool is_enough = false;
  bool is_too_large = false;
  bool is_cut_while_writing = false;
  size_t bytes_sent = 0;
};

HttpClient::HttpClient(HttpClientOptions options)
    : impl_(std::make_unique<Impl>(std::move(options))) {}
HttpClient::HttpClient(const std::string& host, uint16_t port, Duration timeout)
    : HttpClient({.host = host,
                  .port = port,
                  .local_peer = HttpLocalPeer::kAny,
                  .timeout = timeout,
                  .max_body_bytes = kShortAnswer}) {}
HttpClient::HttpClient(HttpClient&&) noexcept = default;
HttpClient& HttpClient::operator=(HttpClient&&) noexcept = default;
HttpClient::~HttpClient() = default;

Result<HttpReply> HttpClient::Send(const HttpCall& call) { return impl_->Run(call); }

Result<HttpReply> HttpClient::Stream(const std::string& path, const Take& take) {
  return impl_->Run({.method = "GET", .path = path}, &take, /*is_endless=*/true);
}

Result<HttpReply> HttpClient::Fetch(const std::string& path, const Take& take) {
  return impl_->Run({.method = "GET", .path = path}, &take);
}

Result<HttpReply> HttpClient::Get(const std::string& path) {
  return impl_->RunNamed({.method = "GET", .path = path});
}

Result<HttpReply> HttpClient::Put(const std::string& path, const std::string& body) {
  return impl_->RunNamed({.method = "PUT", .path = path, .body = body});
}

Result<HttpReply> HttpClient::Delete(const std::string& path) {
  return impl_->RunNamed({.method = "DELETE", .path = path});
}

void HttpClient::Cancel() { impl_->limit.Cancel(); }

}  // namespace hvdray
