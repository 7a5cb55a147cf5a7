// SPDX-License-Identifier: Apache-2.0
#include "tests/unit/agent/mesh_gang.h"

#include <fmt/format.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <cstdlib>
#include <cstring>
#include <sstream>
#include <utility>

#include "base/fd.h"

namespace hvdray {
namespace {

constexpr int kControl = 3;
constexpr int kLimitMs = 60'000;

struct Sockaddr {
  explicit Sockaddr(int family, uint16_t port = 0) {
    std::memset(&storage, 0, sizeof storage);
    if (family == AF_INET) {
      auto* end = reinterpret_cast<sockaddr_in*>(&storage);
      end->sin_family = AF_INET;
      end->sin_port = htons(port);
      end->sin_addr.s_addr = htonl(INADDR_LOOPBACK);
      size = sizeof *end;
    } else {
      auto* end = reinterpret_cast<sockaddr_in6*>(&storage);
      end->sin6_family = AF_INET6;
      end->sin6_port = htons(port);
      end->sin6_addr = in6addr_loopback;
      size = sizeof *end;
    }
  }
  sockaddr* get() { return reinterpret_cast<sockaddr*>(&storage); }
  sockaddr_storage storage{};
  socklen_t size = 0;
};

int Listen(int family, uint16_t* port) {
  const int fd = ::socket(family, SOCK_STREAM | SOCK_CLOEXEC, 0);
  Sockaddr own(family);
  if (::bind(fd, own.get(), own.size) != 0 || ::listen(fd, 64) != 0) std::abort();
  if (::getsockname(fd, own.get(), &own.size) != 0) std::abort();
  *port = ReadSockaddr(ByteView(reinterpret_cast<char*>(&own.storage), own.size))->port;
  return fd;
}

int Connect(int family, uint16_t port) {
  const int fd = ::socket(family, SOCK_STREAM | SOCK_CLOEXEC, 0);
  Sockaddr peer(family, port);
  return ::connect(fd, peer.get(), peer.size) == 0 ? fd : -1;
}

int Accept(int listener) { return ::accept4(listener, nullptr, nullptr, SOCK_CLOEXEC); }

bool ByteArrives(int fd) {
  pollfd ready{fd, POLLIN, 0};
  char byte = 0;
  return ::poll(&ready, 1, kLimitMs) > 0 && ::recv(fd, &byte, 1, 0) == 1 && byte == 'x';
}

bool GoesThereAndBack(int fd) { return ::send(fd, "x", 1, MSG_NOSIGNAL) == 1 && ByteArrives(fd); }

/// What a worker does. Its own process is told by what comes through descriptor 3.
class Member {
 public:
  explicit Member(int family) : family_(family) {
    mesh_listener_ = Listen(family_, &mesh_port_);
    echo_listener_ = Listen(AF_INET, &echo_port_);
  }

  [[noreturn]] void Run() {
    Say(fmt::format("ports {} {}", mesh_port_, echo_port_));
    for (;;) {
      std::vector<pollfd> ready = {{kControl, POLLIN, 0}, {echo_listener_, POLLIN, 0}};
      for (const int fd : served_) ready.push_back({fd, POLLIN, 0});
      if (awaited_ >= 0) ready.push_back({awaited_, POLLIN, 0});
      if (::poll(ready.data(), ready.size(), -1) < 0) ::_exit(90);
      for (const pollfd& one : ready) {
        if (one.revents != 0) Handle(one.fd);
      }
    }
  }

 private:
  static void Say(const std::string& text) {
    if (::send(kControl, text.data(), text.size(), MSG_NOSIGNAL) < 0) ::_exit(91);
  }

  void Handle(int fd) {
    if (fd == kControl) return Obey();
    if (fd == echo_listener_) return served_.push_back(Accept(fd));
    if (fd == awaited_) {
      awaited_ = -1;
      return ReportEnd(fd);
    }
    char byte = 0;
    if (::recv(fd, &byte, 1, 0) == 1) {
      (void)::send(fd, &byte, 1, MSG_NOSIGNAL);
    } else {
      std::erase(served_, fd);
    }
  }

  static void ReportEnd(int fd) {
    char byte = 0;
    const ssize_t n = ::recv(fd, &byte, 1, 0);
    Say(fmt::format("freed {}", n > 0 ? -1 : n < 0 ? errno : 0));
  }

  void Obey() {
    char text[4096] = "";
    const ssize_t n = ::read(kControl, text, sizeof text - 1);
    if (n <= 0) ::_exit(0);
    std::istringstream words(text);
    std::string verb;
    words >> verb;
    if (verb == "join") return Join(words);
    if (verb == "ping") return Say("pong");
    if (verb == "echo") return Say(GoesThereAndBack(echo_client_) ? "yes" : "no");
    int peer = 0;
    words >> peer;
    if (verb == "wait") {
      awaited_ = mesh_.at(peer);
      return Say("waiting");
    }
    if (verb == "recv") ReportEnd(mesh_.at(peer));
    if (verb == "connect-echo") {
      echo_client_ = Connect(AF_INET, static_cast<uint16_t>(peer));
      return Say("connected");
    }
  }

  // "join RANK RELAY PORT...": to those of lower rank this one connects.
  void Join(std::istringstream& words) {
    int rank = 0;
    uint16_t relay = 0;
    words >> rank >> relay;
    served_.push_back(Connect(AF_INET, relay));
    for (uint16_t port = 0; words >> port;) {
      const int peer = static_cast<int>(mesh_.size());
      mesh_.push_back(peer < rank ? Connect(family_, port) : -1);
      if (peer < rank && ::send(mesh_.back(), &rank, sizeof rank, 0) != sizeof rank) ::_exit(92);
    }
    for (int missing = static_cast<int>(mesh_.size()) - rank - 1; missing > 0; --missing) {
      const int fd = Accept(mesh_listener_);
      int peer = 0;
      if (::recv(fd, &peer, sizeof peer, MSG_WAITALL) != sizeof peer) ::_exit(93);
      mesh_.at(static_cast<size_t>(peer)) = fd;
    }
    Say("joined");
  }

  int family_;
  int mesh_listener_ = -1;
  int echo_listener_ = -1;
  uint16_t mesh_port_ = 0;
  uint16_t echo_port_ = 0;
  int echo_client_ = -1;
  int awaited_ = -1;
  std::vector<int> mesh_;    // by rank
  std::vector<int> served_;  // echo and relay
};

[[noreturn]] void RunWorker(int control, MemberKind kind, int family) {
  // A group of its own, and nothing of the test's.
  ::setpgid(0, 0);
  ::prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (::dup2(control, kControl) < 0) ::_exit(94);
  ::syscall(SYS_close_range, kControl + 1, ~0U, 0);
  if (kind == MemberKind::kBehindShell) {
    const pid_t child = ::fork();
    if (child > 0) {
      ::close(kControl);
      int status = 0;
      ::waitpid(child, &status, 0);
      ::_exit(WEXITSTATUS(status));
    }
  }
  ::prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (kind == MemberKind::kNotDumpable) ::prctl(PR_SET_DUMPABLE, 0);
  Member(family).Run();
}

}  // namespace

std::string MeshValue(int size, const TcpAddress& address) {
  std::string record(kMeshRecordBytes, '\xA5');  // memory that nobody has set
  if (address.is_ipv4()) {
    sockaddr_in end{};
    end.sin_family = AF_INET;
    end.sin_port = htons(address.port);
    end.sin_addr.s_addr = address.ipv4();
    std::memcpy(record.data(), &end, offsetof(sockaddr_in, sin_zero));
  } else {
    sockaddr_in6 end{};
    end.sin6_family = AF_INET6;
    end.sin6_port = htons(address.port);
    std::memcpy(&end.sin6_addr, address.ip.data(), address.ip.size());
    std::memcpy(record.data(), &end, sizeof end);
  }
  std::string value;
  for (int64_t number = 0; number + 1 < size; ++number) {
    std::memcpy(record.data() + sizeof(sockaddr_storage), &number, sizeof number);
    value += record;
  }
  return value;
}

MeshGang::MeshGang(int size, MemberKind kind, int family) {
  uint16_t relay_port = 0;
  const UniqueFd relay(Listen(AF_INET, &relay_port));
  std::string ports;
  for (int rank = 0; rank < size; ++rank) {
    int ends[2];
    if (::socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends) != 0) std::abort();
    Member& member = members_.emplace_back();
    member.control.Reset(ends[0]);
    const UniqueFd theirs(ends[1]);
    member.pid = ::fork();
    if (member.pid == 0) RunWorker(theirs.get(), kind, family);
    member.pidfd.Reset(static_cast<int>(::syscall(SYS_pidfd_open, member.pid, 0)));
    std::istringstream(Read(rank).substr(5)) >> member.mesh_port >> member.echo_port;
    ports += fmt::format(" {}", member.mesh_port);
    Sockaddr end(family, member.mesh_port);
    mesh_.Note(
        "global", fmt::to_string(rank),
        MeshValue(size, *ReadSockaddr(ByteView(reinterpret_cast<char*>(&end.storage), end.size))));
  }
  for (int rank = 0; rank < size; ++rank) {
    const std::string words = fmt::format("join {} {}{}", rank, relay_port, ports);
    if (::send(members_[rank].control.get(), words.data(), words.size(), 0) < 0) std::abort();
    members_[rank].relay.Reset(Accept(relay.get()));
  }
  for (int rank = 0; rank < size; ++rank) {
    if (Read(rank) != "joined") std::abort();
    const uint16_t neighbour = members_[(rank + 1) % size].echo_port;
    if (Ask(rank, fmt::format("connect-echo {}", neighbour)) != "connected") std::abort();
  }
}

MeshGang::~MeshGang() {
  for (size_t rank = 0; rank < members_.size(); ++rank) Kill(static_cast<int>(rank));
}

std::vector<LivingWorker> MeshGang::Living() const {
  std::vector<LivingWorker> living;
  for (const Member& member : members_) {
    if (member.pid > 0) living.push_back({member.pid, member.pidfd.get(), false});
  }
  return living;
}

void MeshGang::Kill(int rank) {
  Member& member = members_[rank];
  if (member.pid <= 1) return;
  ::kill(-member.pid, SIGKILL);
  ::kill(member.pid, SIGKILL);  // it may not have made its group yet
  const pid_t group = std::exchange(member.pid, -1);
  ::waitpid(group, nullptr, 0);
  // A member behind a shell is ours now, and its connections stay until it is dead too.
  while (::waitpid(-group, nullptr, 0) > 0) continue;
}

std::string MeshGang::Read(int rank) {
  pollfd ready{members_[rank].control.get(), POLLIN, 0};
  if (::poll(&ready, 1, kLimitMs) <= 0) return "";
  char text[256];
  const ssize_t n = ::recv(ready.fd, text, sizeof text, 0);
  return n > 0 ? std::string(text, static_cast<size_t>(n)) : "";
}

std::string MeshGang::Ask(int rank, const std::string& question) {
  if (::send(members_[rank].control.get(), question.data(), question.size(), MSG_NOSIGNAL) < 0) {
    return "";
  }
  return Read(rank);
}

void MeshGang::WaitFor(int rank, int peer) {
  if (Ask(rank, fmt::format("wait {}", peer)) != "waiting") std::abort();
}

void MeshGang::BlockInRecv(int rank, int peer) {
  const std::string words = fmt::format("recv {}", peer);
  (void)::send(members_[rank].control.get(), words.data(), words.size(), MSG_NOSIGNAL);
  const std::string path = fmt::format("/proc/{}/syscall", members_[rank].pid);
  const std::string call = fmt::format("{} ", SYS_recvfrom);
  for (;;) {
    const Result<std::string> now = ReadFile(path);
    if (!now.ok()) std::abort();
    if (now->starts_with(call)) return;
    ::sched_yield();
  }
}

bool MeshGang::IsWaiting(int rank) { return Ask(rank, "ping") == "pong"; }

std::string MeshGang::Freed(int rank) { return Read(rank); }

bool MeshGang::EchoWorks(int rank) { return Ask(rank, "echo") == "yes"; }

bool MeshGang::RelayWorks(int rank) { return GoesThereAndBack(members_[rank].relay.get()); }

bool MeshGang::ListenerWorks(int rank) {
  const UniqueFd fd(Connect(AF_INET, members_[rank].echo_port));
  return fd.is_valid() && GoesThereAndBack(fd.get());
}

}  // namespace hvdray
