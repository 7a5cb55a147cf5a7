// SPDX-License-Identifier: Apache-2.0
#include "collective/shm_meeting.h"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <poll.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstddef>
#include <cstring>
#include <map>
#include <span>
#include <utility>

#include "base/fd.h"
#include "base/passed_descriptors.h"
#include "base/text.h"

namespace hvdray {
namespace {

constexpr const char* kHosts = "hosts";           // the key under which rank 0 publishes
constexpr std::string_view kFailed = "failed: ";  // or begins its value, when one did not come
constexpr Duration kWordTravels = std::chrono::seconds(2);

// Under which a rank that should have given memory says why it can't.
std::string FailureKey(int rank) { return fmt::format("failure-{}", rank); }

std::string PlaceKey(int rank) { return fmt::format("place-{}", rank); }

Result<std::string> RandomToken() {
  std::array<unsigned char, ShmSegment::kTokenBytes / 2> bytes{};
  if (::getrandom(bytes.data(), bytes.size(), 0) != static_cast<ssize_t>(bytes.size())) {
    return ErrnoStatus("getrandom", errno);
  }
  return fmt::format("{:02x}", fmt::join(bytes, ""));
}

// What ranks have in common that may share memory: a kernel, a user, namespaces. Equal words are
// only a reason to try.
std::string Fingerprint() {
  std::string words = ReadFile("/proc/sys/kernel/random/boot_id").value_or("unknown");
  while (!words.empty() && words.back() == '\n') words.pop_back();
  words += fmt::format(".{}", ::geteuid());
  for (const char* name : {"net", "pid", "user"}) {
    struct stat info {};
    const std::string path = fmt::format("/proc/self/ns/{}", name);
    words += fmt::format(".{}", ::stat(path.c_str(), &info) == 0 ? info.st_ino : 0);
  }
  return words;
}

// A socket's name in the abstract namespace, which leaves nothing behind in the file system.
std::pair<sockaddr_un, socklen_t> AddressOf(const std::string& name) {
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  const size_t size = std::min(name.size(), sizeof address.sun_path - 1);
  std::memcpy(address.sun_path + 1, name.data(), size);
  return {address, static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + 1 + size)};
}

Status WaitReadable(int fd, TimePoint deadline) {
  for (;;) {
    const Duration left = deadline - std::chrono::steady_clock::now();
    if (left <= Duration::zero()) return {ErrorCode::kDeadlineExceeded, "timed out"};
    pollfd polled{fd, POLLIN, 0};
    const int ready = ::poll(&polled, 1, static_cast<int>(Milliseconds(left)) + 1);
    if (ready > 0) return {};
    if (ready < 0 && errno != EINTR) return ErrnoStatus("poll", errno);
  }
}

// The process at the other end, if it is of this user.
Result<pid_t> PeerProcess(int socket) {
  ucred peer{};
  socklen_t size = sizeof peer;
  if (::getsockopt(socket, SOL_SOCKET, SO_PEERCRED, &peer, &size) != 0) {
    return ErrnoStatus("getsockopt", errno);
  }
  if (peer.uid != ::geteuid()) {
    return Status(ErrorCode::kNotSupported,
                  fmt::format("process {} is of user {}, not {}", peer.pid, peer.uid, ::geteuid()));
  }
  return peer.pid;
}

// A line for each rank: "pid leader name token"; the last two are the leader's.
Result<std::string> GatherHosts(Store& store, int size, Duration timeout) {
  const TimePoint deadline = std::chrono::steady_clock::now() + timeout;
  std::map<std::string, std::string> leaders;
  std::string hosts;
  for (int peer = 0; peer < size; ++peer) {
    const Duration left = deadline - std::chrono::steady_clock::now();
    Result<std::string> place = store.Get(PlaceKey(peer), std::max(left, Duration::zero()));
    if (!place.ok()) {
      return std::move(place).status().WithContext(
          fmt::format("rank {} of {} did not come", peer, size));
    }
    const std::vector<std::string_view> words = BlankSeparated(*place);
    if (words.size() != 4) {
      return Status(ErrorCode::kAborted,
                    fmt::format("rank {}: invalid address of its memory: {}", peer, *place));
    }
    const auto [leader, is_new] = leaders.try_emplace(
        std::string(words[0]), fmt::format("{} {} {}", peer, words[2], words[3]));
    hosts += fmt::format("{} {}\n", words[1], leader->second);
  }
  return hosts;
}

}  // namespace

Status ShmMeeting::CheckSupported() {
  if (OpenPidFd(::getpid()).is_valid()) return {};
  return {ErrorCode::kNotSupported,
          fmt::format("shared memory: pidfd_open: {}", std::strerror(errno)),
          "it needs Linux 5.3, and a seccomp filter that lets it pass; HVDRAY_COLLECTIVE=gloo does "
          "without"};
}

Result<ShmMeeting> ShmMeeting::Join(Store& store, int rank, int size, Duration timeout) {
  ShmMeeting meeting;
  meeting.rank_ = rank;
  meeting.timeout_ = timeout;
  HVDRAY_ASSIGN_OR_RETURN(meeting.token_, RandomToken());
  HVDRAY_ASSIGN_OR_RETURN(const std::string random, RandomToken());
  meeting.name_ = "hvdray-" + random;
  meeting.listener_.Reset(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
  if (!meeting.listener_.is_valid()) return ErrnoStatus("socket", errno);
  const auto [address, length] = AddressOf(meeting.name_);
  if (::bind(meeting.listener_.get(), reinterpret_cast<const sockaddr*>(&address), length) != 0 ||
      ::listen(meeting.listener_.get(), SOMAXCONN) != 0) {
    return ErrnoStatus("listen on a Unix socket", errno);
  }
  std::string fingerprint = Fingerprint();
  // A rank that can't see others die is together with nobody.
  if (!CheckSupported().ok()) fingerprint += "." + meeting.name_;
  // "fingerprint pid name token"
  HVDRAY_RETURN_IF_ERROR(store.Set(
      PlaceKey(rank),
      fmt::format("{} {} {} {}", fingerprint, ::getpid(), meeting.name_, meeting.token_)));

  if (rank == 0) {
    const Result<std::string> hosts = GatherHosts(store, size, timeout);
    // The others would know only that rank 0 has published nothing.
    const std::string text = hosts.ok() ? *hosts : std::string(kFailed) + hosts.status().message();
    HVDRAY_RETURN_IF_ERROR(store.Set(kHosts, text));
    if (!hosts.ok()) return hosts.status();
  }

  const Result<std::string> hosts = store.Get(kHosts, timeout + kWordTravels);
  if (!hosts.ok()) {
    return Status(hosts.status()).WithContext(fmt::format("rank 0 of {} did not come", size));
  }
  if (hosts->starts_with(kFailed)) {
    return Status(ErrorCode::kDeadlineExceeded, hosts->substr(kFailed.size()));
  }
  std::string_view rest = *hosts;
  for (int peer = 0; peer < size; ++peer) {
    const std::string_view line = rest.substr(0, rest.find('\n'));
    const std::vector<std::string_view> words = BlankSeparated(line);
    const auto pid = ParseInteger<pid_t>(words.empty() ? "" : words[0]);
    const auto leader = ParseInteger<int>(words.size() != 4 ? "" : words[1]);
    if (!pid || !leader || *leader < 0 || *leader > peer ||
        words[3].size() != ShmSegment::kTokenBytes) {
      return Status(ErrorCode::kAborted,
                    fmt::format("rank {}: invalid list of hosts: {}", peer, line));
    }
    meeting.leaders_.push_back(*leader);
    meeting.pids_.push_back(*pid);
    if (peer == rank) {
      meeting.name_ = words[2];
      meeting.token_ = words[3];
    }
    rest.remove_prefix(std::min(rest.size(), line.size() + 1));
  }
  if (meeting.leaders_[static_cast<size_t>(rank)] != rank) meeting.listener_.Reset();
  return meeting;
}

bool ShmMeeting::SharesAll() const {
  return std::all_of(leaders_.begin(), leaders_.end(), [](int leader) { return leader == 0; });
}

std::vector<std::vector<int>> ShmMeeting::Hosts() const {
  std::map<int, std::vector<int>> by_leader;
  for (size_t rank = 0; rank < leaders_.size(); ++rank) {
    by_leader[leaders_[rank]].push_back(static_cast<int>(rank));
  }
  std::vector<std::vector<int>> hosts;
  hosts.reserve(by_leader.size());
  for (auto& [leader, members] : by_leader) hosts.push_back(std::move(members));
  return hosts;
}

std::vector<int> ShmMeeting::MembersHere() const {
  std::vector<int> members;
  const int leader = leaders_[static_cast<size_t>(rank_)];
  for (size_t peer = 0; peer < leaders_.size(); ++peer) {
    if (leaders_[peer] == leader) members.push_back(static_cast<int>(peer));
  }
  return members;
}

Result<std::unique_ptr<ShmSegment>> ShmMeeting::Share(Store& store) {
  const std::vector<int> members = MembersHere();
  const auto position =
      static_cast<int>(std::find(members.begin(), members.end(), rank_) - members.begin());
  Result<std::unique_ptr<ShmSegment>> segment =
      position == 0 ? GiveMemory(store, members) : TakeMemory(store, position);
  if (!segment.ok()) return segment;
  (*segment)->NameRanks(members, static_cast<int>(leaders_.size()));
  // From here on each watches the others' processes.
  constexpr uint32_t kJoined = 1;
  (*segment)->Post(ShmSegment::kWritten, kJoined);
  HVDRAY_RETURN_IF_ERROR((*segment)->WaitAll(ShmSegment::kWritten, kJoined));
  return segment;
}

Status ShmMeeting::Forget(Store& store) const {
  if (rank_ == 0) HVDRAY_RETURN_IF_ERROR(store.Delete(kHosts));
  return store.Delete(PlaceKey(rank_));
}

// Waits until somebody asks for the memory, or a member has died.
Status ShmMeeting::AwaitAsker(const std::vector<int>& members, std::span<const UniqueFd> processes,
                              TimePoint deadline) const {
  std::vector<pollfd> polled{{listener_.get(), POLLIN, 0}};
  for (const UniqueFd& process : processes) polled.push_back({process.get(), POLLIN, 0});
  for (;;) {
    const Duration left = deadline - std::chrono::steady_clock::now();
    if (left <= Duration::zero()) return {ErrorCode::kDeadlineExceeded, "timed out"};
    const int ready =
        ::poll(polled.data(), polled.size(), static_cast<int>(Milliseconds(left)) + 1);
    if (ready < 0 && errno != EINTR) return ErrnoStatus("poll", errno);
    if (ready <= 0) continue;
    for (size_t i = 1; i < polled.size(); ++i) {
      if (polled[i].revents != 0) return HasDied(members[i - 1]);
    }
    return {};
  }
}

// The one that gives the memory has gone: it has said why, or has died.
Status ShmMeeting::WhyGone(Store& store, int leader, const std::string& attempt) const {
  const Result<std::string> why = store.Get(FailureKey(leader), Duration::zero());
  if (!why.ok()) return HasDied(leader);
  return {ErrorCode::kAborted, fmt::format("{}: {}", attempt, *why)};
}

Status ShmMeeting::HasDied(int rank) const {
  return {ErrorCode::kAborted, fmt::format("rank {} of {} has died", rank, leaders_.size())};
}

Result<std::vector<pid_t>> ShmMeeting::AwaitMembers(const std::vector<int>& members,
                                                    std::vector<UniqueFd>& sockets) const {
  const TimePoint deadline = std::chrono::steady_clock::now() + timeout_;
  std::vector<UniqueFd> processes;
  for (const int member : members) {
    const pid_t pid = pids_[static_cast<size_t>(member)];
    // Ranks that are threads have one process.
    processes.push_back(pid == ::getpid() ? UniqueFd() : OpenPidFd(pid));
    if (pid != ::getpid() && !processes.back().is_valid() && errno == ESRCH) return HasDied(member);
  }
  std::vector<pid_t> pids(members.size());
  pids[0] = ::getpid();
  for (size_t come = 1; come < members.size();) {
    if (Status status = AwaitAsker(members, processes, deadline); !status.ok()) {
      if (status.code() != ErrorCode::kDeadlineExceeded) return status;
      const auto missing = std::find(pids.begin(), pids.end(), 0) - pids.begin();
      return Status(ErrorCode::kDeadlineExceeded,
                    fmt::format("rank {} did not ask for shared memory within {}",
                                members[static_cast<size_t>(missing)], SecondsText(timeout_)));
    }
    UniqueFd socket(::accept4(listener_.get(), nullptr, nullptr, SOCK_CLOEXEC));
    if (!socket.is_valid()) continue;  // it has gone again
    // The name is random, so whoever asks has it from the store; one who does not say its position
    // in a word, or is of another user, is none of ours.
    const Result<pid_t> pid = PeerProcess(socket.get());
    uint32_t position = 0;
    if (!pid.ok() || !WaitReadable(socket.get(), deadline).ok() ||
        ::recv(socket.get(), &position, sizeof position, MSG_WAITALL) != sizeof position ||
        position == 0 || position >= members.size() || pids[position] != 0) {
      continue;
    }
    pids[position] = *pid;
    sockets[position] = std::move(socket);
    ++come;
  }
  return pids;
}

Result<std::unique_ptr<ShmSegment>> ShmMeeting::GiveMemory(Store& store,
                                                           const std::vector<int>& members) {
  std::vector<UniqueFd> sockets(members.size());
  const Result<std::vector<pid_t>> pids = AwaitMembers(members, sockets);
  Result<UniqueFd> memory = pids.ok() ? ShmSegment::Create(*pids, token_) : pids.status();
  if (!memory.ok()) {
    // Before their connections end, and those of members still to come fail.
    (void)store.Set(FailureKey(rank_), memory.status().message());
    return memory.status();
  }
  const std::array<int, 1> descriptor{memory->get()};
  for (const UniqueFd& socket : sockets) {
    // One that has died meanwhile is found by its process below.
    if (socket.is_valid()) (void)SendWithDescriptors(socket.get(), "m", descriptor);
  }
  return ShmSegment::Open(std::move(*memory), 0, token_, timeout_);
}

Result<std::unique_ptr<ShmSegment>> ShmMeeting::TakeMemory(Store& store, int position) {
  const TimePoint deadline = std::chrono::steady_clock::now() + timeout_;
  const int leader = leaders_[static_cast<size_t>(rank_)];
  const std::string attempt = fmt::format("rank {} asks rank {} for shared memory", rank_, leader);
  UniqueFd socket(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
  if (!socket.is_valid()) return ErrnoStatus("socket", errno);
  const auto [address, length] = AddressOf(name_);
  if (::connect(socket.get(), reinterpret_cast<const sockaddr*>(&address), length) != 0) {
    // It listened when it published its name.
    if (errno == ECONNREFUSED) return WhyGone(store, leader, attempt);
    return Status(ErrorCode::kNotSupported, fmt::format("{}: {}", attempt, std::strerror(errno)),
                  "HVDRAY_COLLECTIVE=gloo does without");
  }
  const Result<pid_t> pid = PeerProcess(socket.get());
  if (!pid.ok()) return Status(pid.status()).WithContext(attempt);
  const auto word = static_cast<uint32_t>(position);
  if (::send(socket.get(), &word, sizeof word, MSG_NOSIGNAL) != sizeof word) {
    return ErrnoStatus("send", errno).WithContext(attempt);
  }
  Status readable = WaitReadable(socket.get(), deadline);
  if (!readable.ok()) return std::move(readable).WithContext(attempt);
  char byte = 0;
  std::vector<UniqueFd> descriptors;
  const ssize_t got = ReceiveWithDescriptors(socket.get(), &byte, 1, descriptors);
  if (got != 1 || descriptors.size() != 1) return WhyGone(store, leader, attempt);
  return ShmSegment::Open(std::move(descriptors[0]), position, token_, timeout_);
}

}  // namespace hvdray
