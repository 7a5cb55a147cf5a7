#include "rendezvous/peer_check.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <fmt/format.h>
#include <linux/inet_diag.h>
#include <linux/netlink.h>
#include <linux/sock_diag.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cerrno>
#include <charconv>
#include <cstring>
#include <string>

namespace hvdray {
namespace {

struct DiagRequest {
  nlmsghdr header;
  inet_diag_req_v2 body;
};

bool IsLoopback(const sockaddr_in& end) {
  return end.sin_family == AF_INET && (ntohl(end.sin_addr.s_addr) >> 24) == 127;
}

UniqueFd OpenDiag() {
  UniqueFd fd(::socket(AF_NETLINK, SOCK_DGRAM | SOCK_CLOEXEC, NETLINK_SOCK_DIAG));
  sockaddr_nl kernel{};
  kernel.nl_family = AF_NETLINK;
  if (fd.is_valid() && ::connect(fd.get(), reinterpret_cast<sockaddr*>(&kernel), sizeof kernel)) {
    fd.Reset();
  }
  return fd;
}

DiagRequest MakeRequest(const sockaddr_in& from, const sockaddr_in& to, uint32_t sequence) {
  DiagRequest request{};
  request.header.nlmsg_len = sizeof request;
  request.header.nlmsg_type = SOCK_DIAG_BY_FAMILY;
  request.header.nlmsg_flags = NLM_F_REQUEST;  // without NLM_F_DUMP: this one socket, by hash
  request.header.nlmsg_seq = sequence;
  request.body.sdiag_family = AF_INET;
  request.body.sdiag_protocol = IPPROTO_TCP;
  request.body.idiag_states = ~0U;
  request.body.id.idiag_sport = from.sin_port;
  request.body.id.idiag_dport = to.sin_port;
  request.body.id.idiag_src[0] = from.sin_addr.s_addr;
  request.body.id.idiag_dst[0] = to.sin_addr.s_addr;
  request.body.id.idiag_cookie[0] = INET_DIAG_NOCOOKIE;
  request.body.id.idiag_cookie[1] = INET_DIAG_NOCOOKIE;
  return request;
}

/// ReadFile() with a limit would do, were it not for the 28 ms this takes with thousands of
/// sockets: it is the fallback only.
std::string ReadProc(const char* path) {
  Result<std::string> text = ReadFile(path);
  return text.ok() ? std::move(text).value() : std::string();
}

/// Takes the next blank-separated word off the front.
std::string_view NextWord(std::string_view* line) {
  const size_t start = line->find_first_not_of(' ');
  if (start == std::string_view::npos) return *line = {};
  const size_t end = line->find(' ', start);
  const std::string_view word = line->substr(start, end - start);
  *line = end == std::string_view::npos ? std::string_view() : line->substr(end);
  return word;
}

/// "0100007F:1F90", or behind "0000000000000000FFFF0000" in tcp6: the kernel prints the address as
/// native words, the port as a number.
bool IsEnd(std::string_view word, const sockaddr_in& end) {
  const std::string text = fmt::format("{:08X}:{:04X}", end.sin_addr.s_addr, ntohs(end.sin_port));
  constexpr std::string_view kMapped = "0000000000000000FFFF0000";
  if (word.size() == kMapped.size() + text.size() && word.substr(0, kMapped.size()) == kMapped) {
    word.remove_prefix(kMapped.size());
  }
  return word == text;
}

template <typename T>
bool ParseNumber(std::string_view word, T* number) {
  const auto [end, error] = std::from_chars(word.data(), word.data() + word.size(), *number);
  return error == std::errc() && end == word.data() + word.size();
}

}  // namespace

PeerChecker::PeerChecker(uid_t user) : user_(user), diag_(OpenDiag()) {}

PeerVerdict PeerChecker::Judge(const SocketOwner& owner) const {
  // A closed socket has inode 0, and in TIME_WAIT uid 0 whoever it belonged to.
  if (owner.inode == 0) return PeerVerdict::kGone;
  return owner.uid == user_ || owner.uid == 0 ? PeerVerdict::kAccepted : PeerVerdict::kOtherUser;
}

PeerVerdict PeerChecker::Check(const sockaddr_in& remote, const sockaddr_in& local) {
  if (!IsLoopback(remote) || !IsLoopback(local)) return PeerVerdict::kNotLocal;
  SocketOwner owner;
  switch (AskKernel(remote, local, &owner)) {
    case Answer::kFound:
      return Judge(owner);
    case Answer::kNoSuchSocket:
      return PeerVerdict::kGone;
    case Answer::kNoAnswer:
      break;
  }
  return CheckByProc(remote, local);
}

PeerChecker::Answer PeerChecker::AskKernel(const sockaddr_in& remote, const sockaddr_in& local,
                                           SocketOwner* owner) {
  if (!diag_.is_valid()) return Answer::kNoAnswer;
  const DiagRequest request = MakeRequest(remote, local, ++sequence_);
  if (::send(diag_.get(), &request, sizeof request, 0) != sizeof request) return Answer::kNoAnswer;
  // The kernel has answered when send() returns. Left-overs of an earlier failure are skipped.
  for (;;) {
    alignas(nlmsghdr) char buffer[1024];
    const ssize_t n = ::recv(diag_.get(), buffer, sizeof buffer, MSG_DONTWAIT);
    if (n < 0 && errno == EINTR) continue;
    if (n < static_cast<ssize_t>(sizeof(nlmsghdr))) return Answer::kNoAnswer;
    const auto* header = reinterpret_cast<const nlmsghdr*>(buffer);
    if (!NLMSG_OK(header, static_cast<size_t>(n)) || header->nlmsg_seq != sequence_) continue;
    if (header->nlmsg_type == NLMSG_ERROR) {
      nlmsgerr error{};
      if (header->nlmsg_len < NLMSG_LENGTH(sizeof error)) return Answer::kNoAnswer;
      std::memcpy(&error, NLMSG_DATA(header), sizeof error);
      return error.error == -ENOENT ? Answer::kNoSuchSocket : Answer::kNoAnswer;
    }
    inet_diag_msg message{};
    if (header->nlmsg_len < NLMSG_LENGTH(sizeof message)) return Answer::kNoAnswer;
    std::memcpy(&message, NLMSG_DATA(header), sizeof message);
    // Against a kernel that answers with a listener for want of the connection itself.
    if (message.id.idiag_sport != remote.sin_port || message.id.idiag_dport != local.sin_port) {
      return Answer::kNoSuchSocket;
    }
    *owner = {message.idiag_uid, message.idiag_inode};
    return Answer::kFound;
  }
}

PeerVerdict PeerChecker::CheckByProc(const sockaddr_in& remote, const sockaddr_in& local) const {
  if (!IsLoopback(remote) || !IsLoopback(local)) return PeerVerdict::kNotLocal;
  bool is_readable = false;
  for (const char* path : {"/proc/net/tcp", "/proc/net/tcp6"}) {
    const std::string text = ReadProc(path);
    is_readable = is_readable || !text.empty();
    if (const auto owner = FindInProcNetTcp(text, remote, local)) return Judge(*owner);
  }
  return is_readable ? PeerVerdict::kGone : PeerVerdict::kUnknown;
}

std::optional<SocketOwner> FindInProcNetTcp(std::string_view text, const sockaddr_in& from,
                                            const sockaddr_in& to) {
  while (!text.empty()) {
    const size_t end = text.find('\n');
    std::string_view line = text.substr(0, end);
    text.remove_prefix(end == std::string_view::npos ? text.size() : end + 1);
    NextWord(&line);  // the line's number
    if (!IsEnd(NextWord(&line), from) || !IsEnd(NextWord(&line), to)) continue;
    for (int skipped = 0; skipped < 4; ++skipped) NextWord(&line);  // state, queues, timer, retries
    SocketOwner owner;
    const bool has_uid = ParseNumber(NextWord(&line), &owner.uid);
    NextWord(&line);  // timeout
    if (has_uid && ParseNumber(NextWord(&line), &owner.inode)) return owner;
  }
  return std::nullopt;
}

}  // namespace hvdray
