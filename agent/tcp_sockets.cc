// SPDX-License-Identifier: Apache-2.0
#include "agent/tcp_sockets.h"

#include <dirent.h>
#include <fcntl.h>
#include <fmt/format.h>
#include <netinet/tcp.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <set>
#include <string_view>

#include "base/fd.h"
#include "base/text.h"

namespace hvdray {
namespace {

constexpr uint32_t kStates = (1U << TCP_ESTABLISHED) | (1U << TCP_SYN_SENT) | (1U << TCP_LISTEN);

std::string ReadLink(int directory, const char* path) {
  std::array<char, 64> target{};
  const ssize_t n = ::readlinkat(directory, path, target.data(), target.size());
  return n > 0 ? std::string(target.data(), static_cast<size_t>(n)) : std::string();
}

// "socket:[4711]"
std::optional<uint64_t> InodeOfSocket(std::string_view target) {
  constexpr std::string_view kPrefix = "socket:[";
  if (!target.starts_with(kPrefix) || !target.ends_with(']')) return std::nullopt;
  target.remove_prefix(kPrefix.size());
  target.remove_suffix(1);
  return ParseInteger<uint64_t>(target);
}

std::string NetworkOf(std::string_view pid) {
  return ReadLink(AT_FDCWD, fmt::format("/proc/{}/ns/net", pid).c_str());
}

}  // namespace

Result<std::vector<SocketDescriptor>> ListSocketDescriptors(pid_t pid) {
  const std::string path = fmt::format("/proc/{}/fd", pid);
  DIR* directory = ::opendir(path.c_str());
  if (directory == nullptr) return ErrnoStatus(path, errno);
  std::vector<SocketDescriptor> sockets;
  while (const dirent* entry = ::readdir(directory)) {
    const auto fd = ParseInteger<int>(entry->d_name);
    if (!fd) continue;
    const auto inode = InodeOfSocket(ReadLink(::dirfd(directory), entry->d_name));
    if (!inode) continue;
    SocketDescriptor& socket = sockets.emplace_back();
    socket.fd = *fd;
    socket.inode = *inode;
  }
  ::closedir(directory);
  return sockets;
}

const TcpSockets::Namespace& TcpSockets::NamespaceOf(pid_t pid) {
  const std::string ours = NetworkOf("self");
  std::string name = NetworkOf(fmt::to_string(pid));
  if (name.empty()) name = ours;
  const auto known = namespaces_.find(name);
  if (known != namespaces_.end()) return known->second;
  Namespace& made = namespaces_[name];
  made.is_ours = name == ours;
  const auto keep = [&](const TcpTableRow& row) {
    if (((1U << row.state) & kStates) != 0 && row.inode != 0) made.table.emplace(row.inode, row);
    return true;
  };
  if (made.is_ours) {
    const Result<std::vector<TcpTableRow>> rows = diag_.List(kStates);
    if (rows.ok()) {
      for (const TcpTableRow& row : *rows) keep(row);
      return made;
    }
  }
  for (const std::string_view file : {"tcp", "tcp6"}) {
    const Result<std::string> text = ReadFile(fmt::format("/proc/{}/net/{}", pid, file));
    if (text.ok()) ReadProcNetTcp(*text, keep);
  }
  return made;
}

Result<std::vector<ProcessConnection>> TcpSockets::Connections(pid_t pid) {
  HVDRAY_ASSIGN_OR_RETURN(const std::vector<SocketDescriptor> sockets, ListSocketDescriptors(pid));
  std::vector<ProcessConnection> connections;
  if (sockets.empty()) return connections;
  const Namespace& network = NamespaceOf(pid);
  std::set<uint64_t> seen;
  for (const SocketDescriptor& socket : sockets) {
    const auto row = network.table.find(socket.inode);
    if (row == network.table.end() || !seen.insert(socket.inode).second) continue;
    connections.push_back({socket.fd, row->second, network.is_ours});
  }
  return connections;
}

}  // namespace hvdray
