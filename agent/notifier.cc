// SPDX-License-Identifier: Apache-2.0
#include "agent/notifier.h"

#include <arpa/inet.h>
#include <fmt/format.h>
#include <ifaddrs.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include <algorithm>
#include <array>
#include <cerrno>

namespace hvdray {
namespace {

using Endpoint = WorkerAddresses::Endpoint;

std::string ToText(const Endpoint& endpoint) {
  return fmt::format("{}:{}", endpoint.ip, endpoint.port);
}

std::vector<std::string> OwnAddresses() {
  std::vector<std::string> own;
  ifaddrs* list = nullptr;
  if (::getifaddrs(&list) != 0) return own;
  for (const ifaddrs* entry = list; entry != nullptr; entry = entry->ifa_next) {
    if (entry->ifa_addr == nullptr || entry->ifa_addr->sa_family != AF_INET) continue;
    std::array<char, INET_ADDRSTRLEN> text{};
    const auto* address = reinterpret_cast<const sockaddr_in*>(entry->ifa_addr);
    ::inet_ntop(AF_INET, &address->sin_addr, text.data(), text.size());
    own.emplace_back(text.data());
  }
  ::freeifaddrs(list);
  return own;
}

}  // namespace

std::vector<Endpoint> NoticeTargets(const WorkerAddresses& addresses,
                                    const std::vector<std::string>& own) {
  std::array<std::vector<Endpoint>, 3> groups;
  for (const WorkerAddresses::Interface& interface : addresses.interfaces) {
    for (const Endpoint& endpoint : interface.endpoints) {
      const bool is_own = std::find(own.begin(), own.end(), endpoint.ip) != own.end();
      std::vector<Endpoint>& group = groups[endpoint.ip.starts_with("127.") ? 0 : (is_own ? 1 : 2)];
      if (std::find(group.begin(), group.end(), endpoint) == group.end()) {
        group.push_back(endpoint);
      }
    }
  }
  std::vector<Endpoint> targets;
  for (const auto& group : groups) targets.insert(targets.end(), group.begin(), group.end());
  if (targets.size() > kMaxNoticeTargets) targets.resize(kMaxNoticeTargets);
  return targets;
}

void Notifier::Send(int worker, const WorkerAddresses& addresses, const Notice& notice,
                    DoneFn on_done) {
  Worker& state = workers_[worker];
  Letter letter{addresses, notice, std::move(on_done)};
  if (!state.delivery) return Begin(worker, std::move(letter));
  if (state.waiting) {
    Tell(std::move(state.waiting->on_done),
         Status(ErrorCode::kCancelled, "replaced by a newer notice"));
  }
  state.waiting = std::move(letter);
}

void Notifier::Begin(int worker, Letter letter) {
  Worker& state = workers_[worker];
  state.delivery = std::make_unique<Delivery>();
  Delivery& delivery = *state.delivery;
  delivery.key = letter.addresses.key;
  delivery.frame = SignedFrame(delivery.key, PickleNotice(letter.notice));
  delivery.targets = NoticeTargets(letter.addresses, OwnAddresses());
  if (state.good) {
    // Begins with the last good address, so that a wrong one costs its timeout only once.
    const auto found = std::find(delivery.targets.begin(), delivery.targets.end(), *state.good);
    if (found != delivery.targets.end()) {
      std::rotate(delivery.targets.begin(), found, found + 1);
    }
  }
  delivery.on_done = std::move(letter.on_done);
  delivery.deadline = loop_.Now() + limit_;
  delivery.why = Status(ErrorCode::kHostUnreachable, "the worker has registered no address");
  TryNext(worker);
}

void Notifier::TryNext(int worker) {
  Delivery& delivery = *workers_.at(worker).delivery;
  while (delivery.next < delivery.targets.size()) {
    const Endpoint& target = delivery.targets[delivery.next++];
    const Status status = Connect(delivery, target);
    if (!status.ok()) {
      delivery.why = Status(status).WithContext(ToText(target));
      continue;
    }
    // An equal share of the remaining time, so that a silent target leaves time for the others.
    const auto left = static_cast<int64_t>(delivery.targets.size() - delivery.next + 1);
    const Duration share =
        std::max<Duration>(delivery.deadline - loop_.Now(), Duration::zero()) / left;
    delivery.limit = loop_.After(share, [this, worker] {
      GiveUpTarget(worker, Status(ErrorCode::kDeadlineExceeded, "no answer in time"));
    });
    delivery.watch =
        loop_.OnFd(delivery.socket.get(), FdEvent::kWrite, [this, worker] { OnWritable(worker); });
    return;
  }
  Finish(worker, std::move(delivery.why));
}

Status Notifier::Connect(Delivery& delivery, const Endpoint& target) {
  delivery.sent = 0;
  delivery.received.clear();
  sockaddr_in peer{};
  peer.sin_family = AF_INET;
  peer.sin_port = htons(target.port);
  if (::inet_pton(AF_INET, target.ip.c_str(), &peer.sin_addr) != 1) {
    return ErrnoStatus("connect", EINVAL);
  }
  delivery.socket.Reset(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  if (!delivery.socket.is_valid()) return ErrnoStatus("socket", errno);
  if (::connect(delivery.socket.get(), reinterpret_cast<const sockaddr*>(&peer), sizeof peer) !=
          0 &&
      errno != EINPROGRESS) {
    return ErrnoStatus("connect", errno);
  }
  return {};
}

void Notifier::OnWritable(int worker) {
  Delivery& delivery = *workers_.at(worker).delivery;
  if (delivery.sent == 0) {
    int error = 0;
    socklen_t size = sizeof error;
    if (::getsockopt(delivery.socket.get(), SOL_SOCKET, SO_ERROR, &error, &size) != 0) {
      error = errno;
    }
    if (error != 0) return GiveUpTarget(worker, ErrnoStatus("connect", error));
  }
  const ssize_t sent = ::send(delivery.socket.get(), delivery.frame.data() + delivery.sent,
                              delivery.frame.size() - delivery.sent, MSG_NOSIGNAL);
  if (sent < 0 && (errno == EAGAIN || errno == EINTR)) return;
  if (sent < 0) return GiveUpTarget(worker, ErrnoStatus("send", errno));
  delivery.sent += static_cast<size_t>(sent);
  if (delivery.sent < delivery.frame.size()) return;
  delivery.watch =
      loop_.OnFd(delivery.socket.get(), FdEvent::kRead, [this, worker] { OnReadable(worker); });
}

void Notifier::OnReadable(int worker) {
  Delivery& delivery = *workers_.at(worker).delivery;
  std::array<char, 4096> buffer;
  const ssize_t got = ::recv(delivery.socket.get(), buffer.data(), buffer.size(), 0);
  if (got < 0 && (errno == EAGAIN || errno == EINTR)) return;
  if (got < 0) return GiveUpTarget(worker, ErrnoStatus("recv", errno));
  if (got == 0) {
    return GiveUpTarget(worker, Status(ErrorCode::kProtocolError, "closed without an answer"));
  }
  delivery.received.append(buffer.data(), static_cast<size_t>(got));
  std::optional<Status> answer = ReadNoticeAnswer(delivery.key, delivery.received);
  if (!answer) return;
  if (!answer->ok()) return GiveUpTarget(worker, *std::move(answer));
  workers_.at(worker).good = delivery.targets[delivery.next - 1];
  Finish(worker, {});
}

void Notifier::GiveUpTarget(int worker, Status why) {
  Delivery& delivery = *workers_.at(worker).delivery;
  delivery.why = std::move(why).WithContext(ToText(delivery.targets[delivery.next - 1]));
  delivery.limit.Cancel();
  delivery.watch.Cancel();
  delivery.socket.Reset();
  TryNext(worker);
}

void Notifier::Finish(int worker, Status outcome) {
  Worker& state = workers_.at(worker);
  Tell(std::move(state.delivery->on_done), std::move(outcome));
  state.delivery.reset();
  if (auto next = std::exchange(state.waiting, std::nullopt)) Begin(worker, *std::move(next));
}

void Notifier::Tell(DoneFn on_done, Status outcome) {
  loop_.Post([alive = std::weak_ptr<int>(alive_), on_done = std::move(on_done),
              outcome = std::move(outcome)] {
    if (!alive.expired()) on_done(outcome);
  });
}

}  // namespace hvdray
