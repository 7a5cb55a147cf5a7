// SPDX-License-Identifier: Apache-2.0
#include "base/tcp_table.h"

#include <arpa/inet.h>
#include <linux/inet_diag.h>
#include <linux/netlink.h>
#include <linux/sock_diag.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <optional>

#include "base/text.h"

namespace hvdray {
namespace {

struct DiagRequest {
  nlmsghdr header;
  inet_diag_req_v2 body;
};

constexpr uint32_t kAllStates = ~0U;

UniqueFd OpenDiag() {
  UniqueFd fd(::socket(AF_NETLINK, SOCK_DGRAM | SOCK_CLOEXEC, NETLINK_SOCK_DIAG));
  sockaddr_nl kernel{};
  kernel.nl_family = AF_NETLINK;
  if (fd.is_valid() && ::connect(fd.get(), reinterpret_cast<sockaddr*>(&kernel), sizeof kernel)) {
    fd.Reset();
  }
  return fd;
}

void PutAddress(const TcpAddress& address, uint8_t family, uint32_t* words) {
  if (family == AF_INET) {
    words[0] = address.ipv4();
  } else {
    std::memcpy(words, address.ip.data(), address.ip.size());
  }
}

TcpAddress TakeAddress(const uint32_t* words, uint8_t family, uint16_t port) {
  if (family == AF_INET) return TcpAddress::FromIpv4(words[0], ntohs(port));
  TcpAddress address;
  std::memcpy(address.ip.data(), words, address.ip.size());
  address.port = ntohs(port);
  return address;
}

TcpTableRow RowOf(const inet_diag_msg& message) {
  TcpTableRow row;
  row.family = message.idiag_family;
  row.local = TakeAddress(message.id.idiag_src, row.family, message.id.idiag_sport);
  row.remote = TakeAddress(message.id.idiag_dst, row.family, message.id.idiag_dport);
  row.state = message.idiag_state;
  row.uid = message.idiag_uid;
  row.inode = message.idiag_inode;
  row.interface = message.id.idiag_if;
  row.cookie = {message.id.idiag_cookie[0], message.id.idiag_cookie[1]};
  return row;
}

ssize_t Receive(int fd, char* buffer, size_t size) {
  for (;;) {
    // The kernel has answered by the time send() returns, and extends a list while we read it.
    const ssize_t n = ::recv(fd, buffer, size, MSG_DONTWAIT);
    if (n >= 0 || errno != EINTR) return n;
  }
}

// The errno in a message of type NLMSG_ERROR or NLMSG_DONE; EBADMSG if there is no room for one.
int ErrorIn(const nlmsghdr* header) {
  int32_t error = 0;
  if (header->nlmsg_len < NLMSG_LENGTH(sizeof error)) return EBADMSG;
  std::memcpy(&error, NLMSG_DATA(header), sizeof error);
  return error <= 0 ? -error : EBADMSG;
}

// Takes the next blank-separated word off the front.
std::string_view NextWord(std::string_view* line) {
  const size_t start = line->find_first_not_of(' ');
  if (start == std::string_view::npos) return *line = {};
  const size_t end = line->find(' ', start);
  const std::string_view word = line->substr(start, end - start);
  *line = end == std::string_view::npos ? std::string_view() : line->substr(end);
  return word;
}

// "0100007F:1F90", or with four such words before the colon: the kernel prints the address as
// native words, the port as a number.
std::optional<TcpAddress> ParseEnd(std::string_view word) {
  const size_t colon = word.find(':');
  if (colon != 8 && colon != 32) return std::nullopt;
  std::array<uint32_t, 4> words{};
  for (size_t i = 0; i < colon / 8; ++i) {
    const auto parsed = ParseInteger<uint32_t>(word.substr(i * 8, 8), 16);
    if (!parsed) return std::nullopt;
    words[i] = *parsed;
  }
  const auto port = ParseInteger<uint16_t>(word.substr(colon + 1), 16);
  if (!port) return std::nullopt;
  return TakeAddress(words.data(), colon == 8 ? AF_INET : AF_INET6, htons(*port));
}

std::optional<TcpTableRow> ParseRow(std::string_view line) {
  NextWord(&line);  // the line's number
  const auto local = ParseEnd(NextWord(&line));
  const auto remote = ParseEnd(NextWord(&line));
  const auto state = ParseInteger<uint8_t>(NextWord(&line), 16);
  for (int skipped = 0; skipped < 3; ++skipped) NextWord(&line);  // queues, timer, retries
  const auto uid = ParseInteger<uid_t>(NextWord(&line));
  NextWord(&line);  // timeout
  const auto inode = ParseInteger<uint64_t>(NextWord(&line));
  if (!local || !remote || !state || !uid || !inode) return std::nullopt;
  TcpTableRow row;
  row.local = *local;
  row.remote = *remote;
  row.state = *state;
  row.uid = *uid;
  row.inode = *inode;
  return row;
}

}  // namespace

SockDiag::SockDiag() : socket_(OpenDiag()) {}

bool SockDiag::Send(uint16_t type, uint16_t flags, const TcpTableRow& row, uint32_t states) {
  DiagRequest request{};
  request.header.nlmsg_len = sizeof request;
  request.header.nlmsg_type = type;
  request.header.nlmsg_flags = static_cast<uint16_t>(NLM_F_REQUEST | flags);
  request.header.nlmsg_seq = ++sequence_;
  request.body.sdiag_family = row.family;
  request.body.sdiag_protocol = IPPROTO_TCP;
  request.body.idiag_states = states;
  inet_diag_sockid& id = request.body.id;
  id.idiag_sport = htons(row.local.port);
  id.idiag_dport = htons(row.remote.port);
  PutAddress(row.local, row.family, id.idiag_src);
  PutAddress(row.remote, row.family, id.idiag_dst);
  id.idiag_if = row.interface;
  id.idiag_cookie[0] = row.cookie[0];
  id.idiag_cookie[1] = row.cookie[1];
  return ::send(socket_.get(), &request, sizeof request, 0) == sizeof request;
}

SockDiag::Answer SockDiag::Find(const TcpAddress& local, const TcpAddress& remote,
                                TcpTableRow* row) {
  if (!is_open()) return Answer::kNoAnswer;
  TcpTableRow wanted;
  wanted.family = AF_INET;
  wanted.local = local;
  wanted.remote = remote;
  wanted.cookie = {INET_DIAG_NOCOOKIE, INET_DIAG_NOCOOKIE};
  // Without NLM_F_DUMP: this one socket, by hash.
  if (!Send(SOCK_DIAG_BY_FAMILY, 0, wanted, kAllStates)) return Answer::kNoAnswer;
  for (;;) {
    alignas(nlmsghdr) char buffer[1024];
    const ssize_t n = Receive(socket_.get(), buffer, sizeof buffer);
    if (n < static_cast<ssize_t>(sizeof(nlmsghdr))) return Answer::kNoAnswer;
    const auto* header = reinterpret_cast<const nlmsghdr*>(buffer);
    // Skips what an earlier failure left over.
    if (!NLMSG_OK(header, static_cast<size_t>(n)) || header->nlmsg_seq != sequence_) continue;
    if (header->nlmsg_type == NLMSG_ERROR) {
      return ErrorIn(header) == ENOENT ? Answer::kNoSuchSocket : Answer::kNoAnswer;
    }
    inet_diag_msg message{};
    if (header->nlmsg_len < NLMSG_LENGTH(sizeof message)) return Answer::kNoAnswer;
    std::memcpy(&message, NLMSG_DATA(header), sizeof message);
    *row = RowOf(message);
    // A kernel may answer with a listener when the connection does not exist.
    const bool is_that = row->local.port == local.port && row->remote.port == remote.port;
    return is_that ? Answer::kFound : Answer::kNoSuchSocket;
  }
}

Result<std::vector<TcpTableRow>> SockDiag::List(uint32_t states) {
  if (!is_open()) return ErrnoStatus("sock_diag", EPROTONOSUPPORT);
  std::vector<TcpTableRow> rows;
  for (const uint8_t family : {AF_INET, AF_INET6}) {
    const int error = ListFamily(family, states, &rows);
    // This kernel has no IPv6.
    if (error == ENOENT && family == AF_INET6) continue;
    if (error != 0) return ErrnoStatus("sock_diag", error);
  }
  return rows;
}

int SockDiag::ListFamily(uint8_t family, uint32_t states, std::vector<TcpTableRow>* rows) {
  TcpTableRow any;
  any.family = family;
  if (!Send(SOCK_DIAG_BY_FAMILY, NLM_F_DUMP, any, states)) return errno;
  // The largest answer that the kernel makes; it sizes them by what the reader asks for.
  constexpr size_t kBufferBytes = 32768;
  std::vector<nlmsghdr> buffer(kBufferBytes / sizeof(nlmsghdr));
  for (;;) {
    const ssize_t n = Receive(socket_.get(), reinterpret_cast<char*>(buffer.data()), kBufferBytes);
    if (n < 0) return errno;
    auto left = static_cast<unsigned>(n);
    for (const nlmsghdr* header = buffer.data(); NLMSG_OK(header, left);
         header = NLMSG_NEXT(header, left)) {
      if (header->nlmsg_seq != sequence_) continue;
      if (header->nlmsg_type == NLMSG_DONE || header->nlmsg_type == NLMSG_ERROR) {
        return ErrorIn(header);
      }
      inet_diag_msg message{};
      if (header->nlmsg_len < NLMSG_LENGTH(sizeof message)) return EBADMSG;
      std::memcpy(&message, NLMSG_DATA(header), sizeof message);
      rows->push_back(RowOf(message));
    }
  }
}

int SockDiag::Destroy(const TcpTableRow& row) {
  if (!is_open()) return EPROTONOSUPPORT;
  if (!Send(SOCK_DESTROY, NLM_F_ACK, row, kAllStates)) return errno;
  for (;;) {
    alignas(nlmsghdr) char buffer[1024];
    const ssize_t n = Receive(socket_.get(), buffer, sizeof buffer);
    if (n < 0) return errno;
    const auto* header = reinterpret_cast<const nlmsghdr*>(buffer);
    if (!NLMSG_OK(header, static_cast<size_t>(n)) || header->nlmsg_seq != sequence_) continue;
    return header->nlmsg_type == NLMSG_ERROR ? ErrorIn(header) : EBADMSG;
  }
}

void ReadProcNetTcp(std::string_view text, const std::function<bool(const TcpTableRow&)>& take) {
  for (const std::string_view line : LinesOf(text)) {
    const std::optional<TcpTableRow> row = ParseRow(line);
    if (row && !take(*row)) return;
  }
}

}  // namespace hvdray
