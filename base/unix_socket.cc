// SPDX-License-Identifier: Apache-2.0
#include "base/unix_socket.h"

#include <fmt/format.h>
#include <sys/socket.h>
#include <sys/stat.h>

#include <cerrno>

namespace hvdray {

Result<sockaddr_un> UnixAddress(const std::string& path) {
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  if (path.size() >= sizeof address.sun_path) {
    return Status(ErrorCode::kFileUnwritable, fmt::format("{}: too long for a socket path", path));
  }
  path.copy(address.sun_path, path.size());
  return address;
}

int ConnectUnix(const std::string& path, UniqueFd& fd, int flags) {
  const Result<sockaddr_un> address = UnixAddress(path);
  if (!address.ok()) return ENAMETOOLONG;
  fd.Reset(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | flags, 0));
  const bool is_connected =
      fd.is_valid() &&
      ::connect(fd.get(), reinterpret_cast<const sockaddr*>(&*address), sizeof *address) == 0;
  return is_connected ? 0 : errno;
}

bool IsSocket(const std::string& path) {
  struct stat info {};
  return ::lstat(path.c_str(), &info) == 0 && S_ISSOCK(info.st_mode);
}

bool IsDeadSocket(const std::string& path) {
  UniqueFd probe;
  return IsSocket(path) && ConnectUnix(path, probe, SOCK_NONBLOCK) == ECONNREFUSED;
}

}  // namespace hvdray
