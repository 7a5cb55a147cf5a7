// SPDX-License-Identifier: Apache-2.0
// What a peer does that passes descriptors over a Unix socket.
#ifndef HVDRAY_TESTS_FAKES_SEND_DESCRIPTORS_H_
#define HVDRAY_TESTS_FAKES_SEND_DESCRIPTORS_H_

#include <gtest/gtest.h>
#include <sys/socket.h>

#include <cstring>
#include <vector>

#include "base/types.h"

namespace hvdray {

/// As sendmsg(2): these bytes, and so many descriptors with the first of them.
inline void SendWithDescriptors(int socket, ByteView bytes, const std::vector<int>& descriptors) {
  std::vector<char> control(CMSG_SPACE(descriptors.size() * sizeof(int)));
  iovec piece{const_cast<char*>(bytes.data()), bytes.size()};
  msghdr message{};
  message.msg_iov = &piece;
  message.msg_iovlen = 1;
  message.msg_control = control.data();
  message.msg_controllen = control.size();
  cmsghdr* header = CMSG_FIRSTHDR(&message);
  header->cmsg_level = SOL_SOCKET;
  header->cmsg_type = SCM_RIGHTS;
  header->cmsg_len = CMSG_LEN(descriptors.size() * sizeof(int));
  std::memcpy(CMSG_DATA(header), descriptors.data(), descriptors.size() * sizeof(int));
  ASSERT_EQ(::sendmsg(socket, &message, 0), static_cast<ssize_t>(bytes.size()));
}

}  // namespace hvdray

#endif  // HVDRAY_TESTS_FAKES_SEND_DESCRIPTORS_H_
