// SPDX-License-Identifier: Apache-2.0
// Rounds over TCP: each rank has a connection to a hub in rank 0's process.
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <ifaddrs.h>
#include <net/if.h>
#include <netdb.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <climits>
#include <cstring>
#include <mutex>
#include <utility>

#include "base/fd.h"
#include "base/text.h"
#include "collective/async/round_hub.h"
#include "collective/async/rounds.h"

namespace hvdray {
namespace {

constexpr Duration kAnswerTravels = std::chrono::seconds(2);

struct Address {
  sockaddr_storage storage{};
  socklen_t size = 0;
};

// Gloo's choice: the interface's first address, or that of the host's name.
Result<Address> OwnAddress(const std::string& interface) {
  Address address;
  const auto take = [&](const sockaddr* from) {
    address.size = from->sa_family == AF_INET ? sizeof(sockaddr_in) : sizeof(sockaddr_in6);
    std::memcpy(&address.storage, from, address.size);
  };
  if (!interface.empty()) {
    ifaddrs* all = nullptr;
    if (::getifaddrs(&all) != 0) return ErrnoStatus("getifaddrs", errno);
    for (const ifaddrs* each = all; each != nullptr && address.size == 0; each = each->ifa_next) {
      if (each->ifa_addr != nullptr && interface == each->ifa_name &&
          (each->ifa_addr->sa_family == AF_INET || each->ifa_addr->sa_family == AF_INET6)) {
        take(each->ifa_addr);
      }
    }
    ::freeifaddrs(all);
  } else {
    std::array<char, HOST_NAME_MAX + 1> name{};
    (void)::gethostname(name.data(), name.size() - 1);
    addrinfo hints{};
    hints.ai_socktype = SOCK_STREAM;
    addrinfo* found = nullptr;
    if (::getaddrinfo(name.data(), nullptr, &hints, &found) == 0) {
      take(found->ai_addr);
      ::freeaddrinfo(found);
    }
  }
  if (address.size > 0) return address;
  return Status(ErrorCode::kSystem,
                interface.empty() ? "this host's name has no address"
                                  : fmt::format("interface {} has no address", interface),
                "--network-interface names the one to use");
}

// "address port token", for the others; and the hub that they find there.
Result<std::pair<std::string, std::unique_ptr<RoundHub>>> OpenHub(
    const CommunicatorOptions& options) {
  HVDRAY_ASSIGN_OR_RETURN(Address address, OwnAddress(options.interface));
  UniqueFd listener(
      ::socket(address.storage.ss_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  if (!listener.is_valid()) return ErrnoStatus("socket", errno);
  auto* generic = reinterpret_cast<sockaddr*>(&address.storage);
  if (::bind(listener.get(), generic, address.size) != 0 ||
      ::listen(listener.get(), SOMAXCONN) != 0 ||
      ::getsockname(listener.get(), generic, &address.size) != 0) {
    return ErrnoStatus("listen for the other ranks", errno);
  }
  std::array<char, NI_MAXHOST> host{};
  std::array<char, NI_MAXSERV> port{};
  if (::getnameinfo(generic, address.size, host.data(), host.size(), port.data(), port.size(),
                    NI_NUMERICHOST | NI_NUMERICSERV) != 0) {
    return Status(ErrorCode::kSystem, "getnameinfo failed");
  }
  std::array<unsigned char, RoundGreeting::kTokenBytes / 2> random{};
  if (::getrandom(random.data(), random.size(), 0) != static_cast<ssize_t>(random.size())) {
    return ErrnoStatus("getrandom", errno);
  }
  const std::string token = fmt::format("{:02x}", fmt::join(random, ""));
  auto hub = std::make_unique<RoundHub>(std::move(listener), token, options.size, options.timeout);
  return std::pair(fmt::format("{} {} {}", host.data(), port.data(), token), std::move(hub));
}

// Connects within the limit, to what OpenHub() has said; sends the greeting.
Result<UniqueFd> ConnectHub(const std::string& place, int rank, Duration timeout) {
  const std::vector<std::string_view> words = BlankSeparated(place);
  const Status invalid(ErrorCode::kAborted, "rank 0: invalid address of its rounds: " + place);
  if (words.size() != 3 || words[2].size() != RoundGreeting::kTokenBytes) return invalid;
  addrinfo hints{};
  hints.ai_socktype = SOCK_STREAM;
  hints.ai_flags = AI_NUMERICHOST | AI_NUMERICSERV;
  addrinfo* found = nullptr;
  const std::string host(words[0]);
  if (::getaddrinfo(host.c_str(), std::string(words[1]).c_str(), &hints, &found) != 0) {
    return invalid;
  }
  UniqueFd socket(::socket(found->ai_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  int error = socket.is_valid() ? 0 : errno;
  if (error == 0 && ::connect(socket.get(), found->ai_addr, found->ai_addrlen) != 0) error = errno;
  ::freeaddrinfo(found);
  if (error == EINPROGRESS) {
    pollfd polled{socket.get(), POLLOUT, 0};
    socklen_t size = sizeof error;
    error = ::poll(&polled, 1, static_cast<int>(Milliseconds(timeout))) == 1 ? 0 : ETIMEDOUT;
    if (error == 0) (void)::getsockopt(socket.get(), SOL_SOCKET, SO_ERROR, &error, &size);
  }
  RoundGreeting greeting;
  greeting.rank = static_cast<uint32_t>(rank);
  std::memcpy(greeting.token, words[2].data(), sizeof greeting.token);
  if (error == 0 && ::send(socket.get(), &greeting, sizeof greeting, MSG_NOSIGNAL) !=
                        static_cast<ssize_t>(sizeof greeting)) {
    error = errno;
  }
  if (error != 0) {
    return ErrnoStatus(fmt::format("connect to rank 0 at {}:{}", words[0], words[1]), error);
  }
  KeepAlive(socket.get());
  return socket;
}

class NetworkRounds : public Rounds {
 public:
  NetworkRounds(std::unique_ptr<RoundHub> hub, UniqueFd socket, int rank, int size)
      : hub_(std::move(hub)), socket_(std::move(socket)), rank_(rank), size_(size) {}

  ~NetworkRounds() override {
    socket_.Reset();
    hub_.reset();
  }

  void Ring(uint32_t round) override {
    const std::lock_guard lock(send_mutex_);
    if (static_cast<int32_t>(round - sent_ring_) <= 0) return;
    sent_ring_ = round;
    Send({RoundFrame::kRing, round}, {});
  }

  Result<bool> Await(uint32_t round, TimePoint deadline) override {
    while (static_cast<int32_t>(rung_ - round) < 0) {
      HVDRAY_ASSIGN_OR_RETURN(const bool is_in_time, Receive(deadline));
      if (!is_in_time) return false;
    }
    return true;
  }

  Result<std::vector<std::string>> Exchange(uint32_t round, std::string_view bytes) override {
    {
      const std::lock_guard lock(send_mutex_);
      Send({RoundFrame::kData, round}, bytes);
    }
    while (gathered_round_ != round) {
      HVDRAY_RETURN_IF_ERROR(Receive(TimePoint::max()).status());
    }
    std::vector<std::string> all;
    std::string_view rest = gathered_;
    while (all.size() < static_cast<size_t>(size_)) {
      uint64_t size = 0;
      if (rest.size() < sizeof size) return Ended("its rounds are broken");
      std::memcpy(&size, rest.data(), sizeof size);
      rest.remove_prefix(sizeof size);
      if (rest.size() < size) return Ended("its rounds are broken");
      all.emplace_back(rest.substr(0, size));
      rest.remove_prefix(size);
    }
    return all;
  }

  // All have come once this returns true.
  Result<bool> AwaitAll(TimePoint deadline) {
    while (!have_all_come_) {
      HVDRAY_ASSIGN_OR_RETURN(const bool is_in_time, Receive(deadline));
      if (!is_in_time) return false;
    }
    return true;
  }

  // The hub waits for it.
  void Leave() override { (void)::shutdown(socket_.get(), SHUT_WR); }

  void Abort() override {
    const std::lock_guard lock(send_mutex_);
    Send({RoundFrame::kEnd}, fmt::format("rank {} of {} gave up", rank_, size_));
  }

 private:
  static Status Ended(std::string why) { return {ErrorCode::kAborted, std::move(why)}; }

  // Blocks while the connection is full. One that is broken is found by the next read.
  void Send(const RoundFrame& frame, std::string_view bytes) {
    const std::string text = Encode(frame, bytes);
    for (size_t done = 0; done < text.size();) {
      const ssize_t sent =
          ::send(socket_.get(), text.data() + done, text.size() - done, MSG_NOSIGNAL);
      if (sent >= 0) {
        done += static_cast<size_t>(sent);
      } else if (errno == EAGAIN) {
        pollfd polled{socket_.get(), POLLOUT, 0};
        (void)::poll(&polled, 1, -1);
      } else if (errno != EINTR) {
        return;
      }
    }
  }

  // Takes what has come, at least a part of a frame. False: the deadline came first.
  Result<bool> Receive(TimePoint deadline) {
    if (!ended_.ok()) return ended_;
    pollfd polled{socket_.get(), POLLIN, 0};
    for (;;) {
      int wait = -1;
      if (deadline != TimePoint::max()) {
        const Duration left = deadline - std::chrono::steady_clock::now();
        if (left <= Duration::zero()) return false;
        wait = static_cast<int>(Milliseconds(std::min<Duration>(left, std::chrono::hours(1)))) + 1;
      }
      const int ready = ::poll(&polled, 1, wait);
      if (ready < 0 && errno != EINTR) return ErrnoStatus("poll", errno);
      if (ready > 0) break;
    }
    char buffer[16384];
    const ssize_t got = ::recv(socket_.get(), buffer, sizeof buffer, 0);
    if (got < 0 && (errno == EAGAIN || errno == EINTR)) return true;
    if (got <= 0) return ended_ = Ended(fmt::format("rank 0 of {} has died", size_));
    in_.append(buffer, static_cast<size_t>(got));
    RoundFrame frame;
    std::string body;
    for (;;) {
      HVDRAY_ASSIGN_OR_RETURN(const bool is_whole, TakeFrame(in_, frame, body));
      if (!is_whole) return true;
      if (frame.type == RoundFrame::kEnd) {
        ended_ = Ended(std::move(body));  // of what comes after the frames before it
      } else if (frame.type == RoundFrame::kData) {
        gathered_round_ = frame.round;
        gathered_ = std::move(body);
      } else if (frame.round == 0) {
        have_all_come_ = true;
      } else {
        rung_ = frame.round;
      }
    }
  }

  std::unique_ptr<RoundHub> hub_;  // of rank 0
  UniqueFd socket_;
  int rank_;
  int size_;
  std::mutex send_mutex_;
  uint32_t sent_ring_ = 0;  // guarded by it
  std::string in_;
  bool have_all_come_ = false;
  uint32_t rung_ = 0;
  uint32_t gathered_round_ = 0;
  std::string gathered_;
  Status ended_;
};

}  // namespace

Result<std::unique_ptr<Rounds>> MakeNetworkRounds(const CommunicatorOptions& options,
                                                  Communicator& all) {
  std::unique_ptr<RoundHub> hub;
  std::array<char, NI_MAXHOST + NI_MAXSERV + RoundGreeting::kTokenBytes> place{};
  Status opened;
  if (options.rank == 0) {
    Result<std::pair<std::string, std::unique_ptr<RoundHub>>> made = OpenHub(options);
    opened = made.status();
    if (made.ok()) {
      made->first.copy(place.data(), place.size() - 1);
      hub = std::move(made->second);
    }
  }
  HVDRAY_RETURN_IF_ERROR(all.Broadcast(place.data(), place.size(), DataType::kUint8, 0));
  HVDRAY_RETURN_IF_ERROR(opened);
  HVDRAY_ASSIGN_OR_RETURN(UniqueFd socket, ConnectHub(place.data(), options.rank, options.timeout));
  auto rounds = std::make_unique<NetworkRounds>(std::move(hub), std::move(socket), options.rank,
                                                options.size);
  HVDRAY_RETURN_IF_ERROR(all.Barrier());
  const TimePoint deadline = std::chrono::steady_clock::now() + options.timeout + kAnswerTravels;
  HVDRAY_ASSIGN_OR_RETURN(const bool have_come, rounds->AwaitAll(deadline));
  if (!have_come) return Status(ErrorCode::kDeadlineExceeded, "not all ranks came to the rounds");
  return std::unique_ptr<Rounds>(std::move(rounds));
}

}  // namespace hvdray
