// SPDX-License-Identifier: Apache-2.0
#include "cluster/access/port_forwarder.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <fmt/format.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <utility>

#include "base/byte_stream.h"
#include "base/unix_socket.h"

namespace hvdray {
namespace {

constexpr int kWaiting = 64;
constexpr size_t kMaxQueued = size_t{256} << 10;  // then the other end waits

std::unique_ptr<ByteStream> StreamOf(Loop& loop, UniqueFd fd) {
  UniqueFd twin(::fcntl(fd.get(), F_DUPFD_CLOEXEC, 0));
  if (!twin.is_valid()) return nullptr;
  return MakeFdStream(loop, std::move(fd), std::move(twin));
}

}  // namespace

class PortForwarder::Connection {
 public:
  Connection(PortForwarder& forwarder, std::unique_ptr<ByteStream> client,
             std::unique_ptr<ByteStream> server)
      : forwarder_(forwarder), ends_{{{*this, std::move(client)}, {*this, std::move(server)}}} {
    ends_[0].other = &ends_[1];
    ends_[1].other = &ends_[0];
  }
  void Start() {
    for (End& end : ends_) end.stream->Start(end);
  }

 private:
  struct End final : ByteStream::Owner {
    End(Connection& of, std::unique_ptr<ByteStream> with)
        : connection(of), stream(std::move(with)) {}
    void OnData(ByteView bytes) override {
      other->stream->Write(std::string(bytes));
      if (other->stream->QueuedBytes() > kMaxQueued) stream->SetReading(false);
    }
    void OnDrained() override {
      if (other->is_closed) return connection.Drop();
      other->stream->SetReading(true);
    }
    void OnClosed(Status /*why*/) override {
      is_closed = true;
      if (other->is_closed || other->stream->QueuedBytes() == 0) connection.Drop();
    }

    Connection& connection;
    std::unique_ptr<ByteStream> stream;
    End* other = nullptr;
    bool is_closed = false;
  };

  void Drop() { forwarder_.Drop(this); }

  PortForwarder& forwarder_;
  std::array<End, 2> ends_;
};

PortForwarder::PortForwarder(Loop& loop, UniqueFd listener, uint16_t port, bool is_peer_checked)
    : loop_(loop),
      listener_(std::move(listener)),
      port_(port),
      is_peer_checked_(is_peer_checked),
      checker_(::geteuid()),
      watch_(loop.OnFd(listener_.get(), FdEvent::kRead, [this] { Accept(); })) {}

PortForwarder::~PortForwarder() = default;

Result<std::unique_ptr<PortForwarder>> PortForwarder::Open(Loop& loop, uint16_t port,
                                                           bool is_peer_checked) {
  UniqueFd fd(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  if (!fd.is_valid()) return ErrnoStatus("socket", errno);
  const int one = 1;
  (void)::setsockopt(fd.get(), SOL_SOCKET, SO_REUSEADDR, &one, sizeof one);
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_port = htons(port);
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t size = sizeof address;
  auto* generic = reinterpret_cast<sockaddr*>(&address);
  if (::bind(fd.get(), generic, size) != 0 || ::listen(fd.get(), kWaiting) != 0 ||
      ::getsockname(fd.get(), generic, &size) != 0) {
    if (errno != EADDRINUSE) return ErrnoStatus(fmt::format("listen on port {}", port), errno);
    return Status(ErrorCode::kAddressInUse, fmt::format("port {} of this machine is in use", port));
  }
  return std::unique_ptr<PortForwarder>(
      new PortForwarder(loop, std::move(fd), ntohs(address.sin_port), is_peer_checked));
}

void PortForwarder::Accept() {
  sockaddr_in peer{}, local{};
  socklen_t size = sizeof peer;
  UniqueFd client(::accept4(listener_.get(), reinterpret_cast<sockaddr*>(&peer), &size,
                            SOCK_CLOEXEC | SOCK_NONBLOCK));
  size = sizeof local;
  if (!client.is_valid() ||
      ::getsockname(client.get(), reinterpret_cast<sockaddr*>(&local), &size) != 0) {
    return;
  }
  if (is_peer_checked_ && checker_.Check(peer, local) != PeerVerdict::kAccepted) return;
  UniqueFd server;
  if (ConnectUnix(socket_path_, server, SOCK_NONBLOCK) != 0) return;
  auto near = StreamOf(loop_, std::move(client));
  auto far = StreamOf(loop_, std::move(server));
  if (near == nullptr || far == nullptr) return;
  connections_.push_back(std::make_unique<Connection>(*this, std::move(near), std::move(far)));
  connections_.back()->Start();
}

void PortForwarder::Drop(const Connection* connection) {
  connections_.remove_if([connection](const auto& one) { return one.get() == connection; });
}

}  // namespace hvdray
