// SPDX-License-Identifier: Apache-2.0
#include "launcher/engine/control_link.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <cstring>
#include <utility>

#include "base/unix_socket.h"

namespace hvdray {
namespace {

// Besides data, what the socket does not take at once.
constexpr size_t kFullQueueBytes = size_t{4} << 20;
constexpr size_t kMostDescriptors = 64;  // of requests that have not been read
constexpr Duration kAcceptPause = std::chrono::milliseconds(100);

Result<ucred> PeerOf(int socket) {
  ucred peer{};
  socklen_t size = sizeof peer;
  int type = 0;
  socklen_t type_size = sizeof type;
  const bool is_stream = ::getsockopt(socket, SOL_SOCKET, SO_TYPE, &type, &type_size) == 0 &&
                         type == SOCK_STREAM &&
                         ::getsockopt(socket, SOL_SOCKET, SO_PEERCRED, &peer, &size) == 0;
  if (!is_stream || peer.pid == 0) {
    return Status(ErrorCode::kUsage, "not a connected Unix stream socket");
  }
  if (peer.uid != ::geteuid() && peer.uid != 0) {
    return Status(ErrorCode::kUsage, fmt::format("its peer is of user {}", peer.uid));
  }
  return peer;
}

}  // namespace

ControlLink::ControlLink(Loop& loop, Duration grace, Owner& owner)
    : loop_(loop),
      grace_(grace),
      owner_(owner),
      reader_({[this](std::string_view type, const Json& head, uint64_t blob) {
                 return OnMessage(type, head, blob);
               },
               [this](ByteView piece, uint64_t left) { return OnBlob(piece, left); }}) {}

Result<std::unique_ptr<ControlLink>> ControlLink::Open(Loop& loop, UniqueFd socket, Duration grace,
                                                       Owner& owner) {
  HVDRAY_ASSIGN_OR_RETURN(const ucred peer, PeerOf(socket.get()));
  // Workers must not inherit it.
  if (::fcntl(socket.get(), F_SETFD, FD_CLOEXEC) != 0) return ErrnoStatus("fcntl", errno);
  std::unique_ptr<ControlLink> link(new ControlLink(loop, grace, owner));
  link->Begin(std::move(socket),
              peer.pid == ::getpid() ? std::nullopt : std::optional<int>(peer.pid));
  return link;
}

void ControlLink::Begin(UniqueFd socket, std::optional<int> peer) {
  if (peer) {
    // Not only the end of file counts: a fork of the client's may hold the socket open.
    peer_ = OpenPidFd(*peer);
    if (peer_.is_valid()) {
      peer_watch_ = loop_.OnFd(peer_.get(), FdEvent::kRead, [this] { End({}); });
    } else {
      peer_watch_ = loop_.After(Duration::zero(), [this] { End({}); });
    }
  }
  hang_up_.Reset(::fcntl(socket.get(), F_DUPFD_CLOEXEC, 0));
  UniqueFd writer(::fcntl(socket.get(), F_DUPFD_CLOEXEC, 0));
  stream_ = MakeDescriptorStream(loop_, std::move(socket), std::move(writer),
                                 [this](UniqueFd fd) { descriptors_.push_back(std::move(fd)); });
  stream_->Start(*this);
}

void ControlLink::OnData(ByteView bytes) {
  if (is_closed_) return;
  Status status = reader_.Feed(bytes);
  if (status.ok() && descriptors_.size() > kMostDescriptors) {
    status = {ErrorCode::kProtocolError, "unexpected descriptors"};
  }
  if (!status.ok()) End(status);
}

void ControlLink::OnClosed(Status /*why*/) { End({}); }

Status ControlLink::OnMessage(std::string_view type, const Json& head, uint64_t blob) {
  HVDRAY_ASSIGN_OR_RETURN(ControlRequest request, ReadControlRequest(type, head, blob, grace_));
  if (auto* put = std::get_if<control::Put>(&request); put != nullptr && put->is_memory) {
    if (descriptors_.empty()) {
      return {ErrorCode::kProtocolError, "\"put\": memory without a descriptor"};
    }
    put->memory = std::make_shared<const UniqueFd>(std::move(descriptors_.front()));
    descriptors_.pop_front();
  }
  if (blob == 0 || std::holds_alternative<control::Put>(request)) return Take(std::move(request));
  pending_ = std::move(request);
  return {};
}

Status ControlLink::OnBlob(ByteView piece, uint64_t left) {
  if (is_closed_ || is_gone_) return {};
  if (!pending_) {
    owner_.OnPiece(piece, left);
    return {};
  }
  *BlobOf(*pending_) += piece;
  return left > 0 ? Status() : Take(*std::exchange(pending_, std::nullopt));
}

Status ControlLink::Take(ControlRequest request) {
  if (is_closed_ || is_gone_) return {};  // what follows a bye
  if (const auto* hello = std::get_if<control::Hello>(&request)) {
    if (is_greeted_) return {ErrorCode::kProtocolError, "a second \"hello\""};
    if (hello->protocol != kControlProtocol) {
      return {ErrorCode::kProtocolError,
              fmt::format("protocol {}, this build speaks {}", hello->protocol, kControlProtocol)};
    }
    is_greeted_ = true;
  } else if (!is_greeted_) {
    return {ErrorCode::kProtocolError, "the first message must be \"hello\""};
  }
  if (const auto* credit = std::get_if<control::Credit>(&request)) {
    if (credit->bytes > static_cast<uint64_t>(kControlWindowBytes - window_)) {
      return {ErrorCode::kProtocolError, "\"credit\" for more than was sent"};
    }
    window_ += static_cast<int64_t>(credit->bytes);
    TellRoom();
  } else if (std::holds_alternative<control::Bye>(request)) {
    End({});
  } else {
    owner_.OnRequest(std::move(request));
  }
  return {};
}

void ControlLink::Send(const Json& head) {
  if (is_closed_) return;
  stream_->Write(MessageLine(head));
  was_full_ = was_full_ || !HasRoom();
}

void ControlLink::SendData(Json head, ByteView blob) {
  // A client that has gone takes what there is room for.
  if (is_closed_ || (is_gone_ && !IsTaking())) return;
  if (!blob.empty()) head["blob"] = blob.size();
  std::string message = MessageLine(head);
  message += blob;
  window_ -= static_cast<int64_t>(message.size());
  stream_->Write(std::move(message));
  was_full_ = was_full_ || !HasRoom();
}

bool ControlLink::IsTaking() const {
  return window_ > 0 && stream_->QueuedBytes() < kFullQueueBytes;
}

bool ControlLink::HasRoom() const { return is_closed_ || is_gone_ || IsTaking(); }

void ControlLink::TellRoom() {
  if (HasRoom() && std::exchange(was_full_, false)) owner_.OnRoom();
}

void ControlLink::SetReading(bool is_reading) {
  stream_->SetReading(is_reading);
  hang_up_watch_.Cancel();
  if (is_reading || is_gone_) return;
  hang_up_watch_ = loop_.OnFd(hang_up_.get(), FdEvent::kHangUp, [this] { End({}); });
}

void ControlLink::Close(int exit_code) {
  Send(ByeMessage(exit_code));
  is_closed_ = true;
  peer_watch_.Cancel();
  hang_up_watch_.Cancel();
}

void ControlLink::End(const Status& why) {
  if (is_closed_) return;
  // The client is there, but what it says makes no sense.
  if (!why.ok()) Send(RefusedMessage(nullptr, why));
  peer_watch_.Cancel();
  hang_up_watch_.Cancel();
  if (!std::exchange(is_gone_, true)) owner_.OnGone(why);
}

ControlListener::ControlListener(Loop& loop, std::string path, UniqueFd fd,
                                 std::function<void(UniqueFd)> on_client)
    : loop_(loop), path_(std::move(path)), fd_(std::move(fd)), on_client_(std::move(on_client)) {
  Listen();
}

ControlListener::~ControlListener() { ::unlink(path_.c_str()); }

Result<std::unique_ptr<ControlListener>> ControlListener::Open(
    Loop& loop, std::string path, std::function<void(UniqueFd)> on_client) {
  HVDRAY_ASSIGN_OR_RETURN(const sockaddr_un address, UnixAddress(path));
  UniqueFd fd(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  if (!fd.is_valid()) return ErrnoStatus("socket", errno);
  if (IsDeadSocket(path)) ::unlink(path.c_str());
  const mode_t mask = ::umask(0177);
  const int rc = ::bind(fd.get(), reinterpret_cast<const sockaddr*>(&address), sizeof address);
  const int error = errno;
  ::umask(mask);
  if (rc != 0) {
    const char* hint = error != EADDRINUSE ? ""
                       : IsSocket(path)    ? "another hvdray serve listens there"
                                           : "it exists and is not a socket";
    return Status(ErrorCode::kFileUnwritable, fmt::format("{}: {}", path, ::strerror(error)), hint);
  }
  if (::listen(fd.get(), 4) != 0) return ErrnoStatus(path, errno);
  return std::unique_ptr<ControlListener>(
      new ControlListener(loop, std::move(path), std::move(fd), std::move(on_client)));
}

void ControlListener::Listen() {
  watch_ = loop_.OnFd(fd_.get(), FdEvent::kRead, [this] { Accept(); });
}

void ControlListener::Accept() {
  UniqueFd client(::accept4(fd_.get(), nullptr, nullptr, SOCK_CLOEXEC));
  if (client.is_valid()) return on_client_(std::move(client));
  // Out of descriptors: the listener would stay readable.
  if (errno != EAGAIN && errno != EINTR) watch_ = loop_.After(kAcceptPause, [this] { Listen(); });
}

}  // namespace hvdray
