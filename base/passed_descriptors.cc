// SPDX-License-Identifier: Apache-2.0
#include "base/passed_descriptors.h"

#include <sys/socket.h>

#include <array>
#include <cerrno>
#include <cstring>

namespace hvdray {
namespace {

constexpr size_t kMostReceived = 8;

}  // namespace

ssize_t SendWithDescriptors(int socket, ByteView bytes, std::span<const int> descriptors) {
  std::vector<char> control(CMSG_SPACE(descriptors.size_bytes()));
  iovec part{const_cast<char*>(bytes.data()), bytes.size()};
  msghdr message{};
  message.msg_iov = &part;
  message.msg_iovlen = 1;
  message.msg_control = control.data();
  message.msg_controllen = control.size();
  cmsghdr* header = CMSG_FIRSTHDR(&message);
  header->cmsg_level = SOL_SOCKET;
  header->cmsg_type = SCM_RIGHTS;
  header->cmsg_len = CMSG_LEN(descriptors.size_bytes());
  std::memcpy(CMSG_DATA(header), descriptors.data(), descriptors.size_bytes());
  return ::sendmsg(socket, &message, MSG_NOSIGNAL);
}

ssize_t ReceiveWithDescriptors(int socket, char* buffer, size_t size,
                               std::vector<UniqueFd>& descriptors) {
  alignas(cmsghdr) std::array<char, CMSG_SPACE(kMostReceived * sizeof(int))> control{};
  iovec part{buffer, size};
  msghdr message{};
  message.msg_iov = &part;
  message.msg_iovlen = 1;
  message.msg_control = control.data();
  message.msg_controllen = control.size();
  const ssize_t n = ::recvmsg(socket, &message, MSG_CMSG_CLOEXEC);
  if (n < 0) return n;
  for (cmsghdr* header = CMSG_FIRSTHDR(&message); header != nullptr;
       header = CMSG_NXTHDR(&message, header)) {
    if (header->cmsg_level != SOL_SOCKET || header->cmsg_type != SCM_RIGHTS) continue;
    for (size_t at = 0; CMSG_LEN(at + sizeof(int)) <= header->cmsg_len; at += sizeof(int)) {
      int fd = -1;
      std::memcpy(&fd, CMSG_DATA(header) + at, sizeof fd);
      descriptors.emplace_back(fd);
    }
  }
  if ((message.msg_flags & MSG_CTRUNC) == 0) return n;
  errno = EMFILE;
  return -1;
}

}  // namespace hvdray
