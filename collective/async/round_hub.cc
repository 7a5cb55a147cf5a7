// SPDX-License-Identifier: Apache-2.0
#include "collective/async/round_hub.h"

#include <fmt/format.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <utility>

#include "base/secrets_equal.h"
#include "base/signals.h"

namespace hvdray {
namespace {

constexpr uint64_t kMostFrameBytes = uint64_t{1} << 32;
constexpr std::chrono::seconds kLongestEnd{5};

}  // namespace

struct RoundHub::Peer {
  UniqueFd fd;
  std::string in;
  std::string out;
  int rank = -1;  // before it has said it
};

std::string Encode(const RoundFrame& frame, std::string_view bytes) {
  RoundFrame head = frame;
  head.size = bytes.size();
  std::string text(reinterpret_cast<const char*>(&head), sizeof head);
  return text.append(bytes);
}

Result<bool> TakeFrame(std::string& bytes, RoundFrame& frame, std::string& body) {
  if (bytes.size() < sizeof frame) return false;
  std::memcpy(&frame, bytes.data(), sizeof frame);
  if (frame.type > RoundFrame::kEnd || frame.size > kMostFrameBytes) {
    return Status(ErrorCode::kAborted, "a rank has sent something that is not a round");
  }
  if (bytes.size() - sizeof frame < frame.size) return false;
  body = bytes.substr(sizeof frame, frame.size);
  bytes.erase(0, sizeof frame + frame.size);
  return true;
}

RoundHub::RoundHub(UniqueFd listener, std::string token, int size, Duration timeout)
    : listener_(std::move(listener)),
      stop_(::eventfd(0, EFD_CLOEXEC)),
      token_(std::move(token)),
      size_(size),
      deadline_(std::chrono::steady_clock::now() + timeout),
      gathered_(static_cast<size_t>(size)) {
  const HeldSignals held(AllSignals());
  thread_ = std::thread([this] { Serve(); });
}

RoundHub::~RoundHub() {
  const uint64_t one = 1;
  (void)!::write(stop_.get(), &one, sizeof one);
  thread_.join();
}

// Until it is to stop and nobody is there any more: closing earlier could lose what is on its way.
void RoundHub::Serve() {
  bool is_stopping = false;
  for (;;) {
    if (come_ == size_) std::erase_if(peers_, [](const auto& peer) { return peer->rank < 0; });
    std::vector<pollfd> polled;
    if (!is_stopping) polled.push_back({stop_.get(), POLLIN, 0});
    if (come_ < size_) polled.push_back({listener_.get(), POLLIN, 0});
    const size_t first = polled.size();
    for (const auto& peer : peers_) {
      polled.push_back(
          {peer->fd.get(), static_cast<int16_t>(POLLIN | (peer->out.empty() ? 0 : POLLOUT)), 0});
    }
    const bool is_timed = is_stopping || (come_ < size_ && end_.empty());
    const Duration left = deadline_ - std::chrono::steady_clock::now();
    if (is_stopping && (peers_.empty() || left <= Duration::zero())) return;
    if (is_timed && left <= Duration::zero()) {
      std::vector<bool> is_here(static_cast<size_t>(size_));
      for (const auto& peer : peers_) {
        if (peer->rank >= 0) is_here[static_cast<size_t>(peer->rank)] = true;
      }
      EndAll(fmt::format("rank {} of {} did not come",
                         std::find(is_here.begin(), is_here.end(), false) - is_here.begin(),
                         size_));
      continue;
    }
    const int wait = is_timed ? static_cast<int>(Milliseconds(left)) + 1 : -1;
    if (::poll(polled.data(), polled.size(), wait) < 0 && errno != EINTR) return;
    if (!is_stopping && polled[0].revents != 0) {
      is_stopping = true;
      deadline_ = std::chrono::steady_clock::now() + kLongestEnd;
    }
    for (size_t i = peers_.size(); i-- > 0;) {
      Peer& peer = *peers_[i];
      if ((polled[first + i].revents & POLLOUT) != 0) Flush(peer);
      if ((polled[first + i].revents & (POLLIN | POLLHUP | POLLERR)) == 0 || Receive(peer))
        continue;
      const int rank = peer.rank;
      peers_.erase(peers_.begin() + static_cast<std::ptrdiff_t>(i));
      if (rank >= 0) EndAll(fmt::format("rank {} of {} has died", rank, size_));
    }
    if (come_ < size_) Accept();
  }
}

void RoundHub::Accept() {
  for (;;) {
    auto peer = std::make_unique<Peer>();
    peer->fd.Reset(::accept4(listener_.get(), nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK));
    if (!peer->fd.is_valid()) return;
    KeepAlive(peer->fd.get());
    peers_.push_back(std::move(peer));
  }
}

// False: it has gone, or is none of ours.
bool RoundHub::Receive(Peer& peer) {
  char buffer[65536];  // once a turn, so that one that sends much leaves time for others
  const ssize_t got = ::recv(peer.fd.get(), buffer, sizeof buffer, 0);
  if (got < 0 && (errno == EAGAIN || errno == EINTR)) return true;
  if (got <= 0) return false;
  peer.in.append(buffer, static_cast<size_t>(got));
  if (peer.rank < 0 && !Greet(peer)) return peer.in.size() < sizeof(RoundGreeting);
  RoundFrame frame;
  std::string body;
  for (;;) {
    const Result<bool> taken = TakeFrame(peer.in, frame, body);
    if (!taken.ok()) return false;  // so it ends as one that has died
    if (!*taken) return true;
    Handle(peer, frame, std::move(body));
  }
}

bool RoundHub::Greet(Peer& peer) {
  RoundGreeting greeting;
  if (peer.in.size() < sizeof greeting) return false;
  std::memcpy(&greeting, peer.in.data(), sizeof greeting);
  const auto rank = static_cast<int>(greeting.rank);
  const bool is_taken = std::any_of(peers_.begin(), peers_.end(),
                                    [&](const auto& other) { return other->rank == rank; });
  if (!SecretsEqual({greeting.token, sizeof greeting.token}, token_) || rank < 0 || rank >= size_ ||
      is_taken) {
    return false;
  }
  peer.in.erase(0, sizeof greeting);
  peer.rank = rank;
  if (!end_.empty()) {  // it comes too late
    peer.out = Encode({RoundFrame::kEnd}, end_);
    Flush(peer);
  }
  if (++come_ == size_) {
    listener_.Reset();
    SendAll({RoundFrame::kRing, 0}, {});
  }
  return true;
}

void RoundHub::Handle(Peer& peer, const RoundFrame& frame, std::string body) {
  if (frame.type == RoundFrame::kEnd) {
    EndAll(body);
    return;
  }
  if (static_cast<int32_t>(frame.round - rung_) > 0) {
    rung_ = frame.round;
    SendAll({RoundFrame::kRing, rung_}, {});
  }
  if (frame.type != RoundFrame::kData) return;
  gathered_[static_cast<size_t>(peer.rank)] = std::move(body);
  if (++gathered_count_ < size_) return;
  gathered_count_ = 0;
  std::string all;
  for (const std::string& each : gathered_) {
    const uint64_t size = each.size();
    all.append(reinterpret_cast<const char*>(&size), sizeof size).append(each);
  }
  SendAll({RoundFrame::kData, frame.round}, all);
}

void RoundHub::SendAll(const RoundFrame& frame, std::string_view bytes) {
  const std::string text = Encode(frame, bytes);
  for (const auto& peer : peers_) {
    if (peer->rank < 0) continue;
    peer->out += text;
    Flush(*peer);
  }
}

void RoundHub::EndAll(const std::string& why) {
  if (!end_.empty()) return;
  end_ = why;
  SendAll({RoundFrame::kEnd}, why);
}

// What does not fit now goes when there is room; a broken connection is found by its reads.
void RoundHub::Flush(Peer& peer) {
  while (!peer.out.empty()) {
    const ssize_t sent = ::send(peer.fd.get(), peer.out.data(), peer.out.size(), MSG_NOSIGNAL);
    if (sent < 0 && errno == EINTR) continue;
    if (sent < 0) {
      if (errno != EAGAIN) peer.out.clear();
      return;
    }
    peer.out.erase(0, static_cast<size_t>(sent));
  }
}

void KeepAlive(int socket) {
  // A machine that has gone without a word is noticed after about as long as by hvdray itself.
  const int one = 1;
  const int idle_s = 5;
  const int probes = 3;
  (void)::setsockopt(socket, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
  (void)::setsockopt(socket, SOL_SOCKET, SO_KEEPALIVE, &one, sizeof one);
  (void)::setsockopt(socket, IPPROTO_TCP, TCP_KEEPIDLE, &idle_s, sizeof idle_s);
  (void)::setsockopt(socket, IPPROTO_TCP, TCP_KEEPINTVL, &idle_s, sizeof idle_s);
  (void)::setsockopt(socket, IPPROTO_TCP, TCP_KEEPCNT, &probes, sizeof probes);
}

}  // namespace hvdray
