// SPDX-License-Identifier: Apache-2.0
#include "cluster/ssh/ssh_agent.h"

#include <fmt/format.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/stat.h>

#include <cerrno>
#include <cstring>
#include <map>
#include <mutex>
#include <tuple>
#include <utility>

#include "base/log.h"
#include "base/unix_socket.h"
#include "cluster/ssh/wire_text.h"

namespace hvdray {
namespace {

constexpr char kRequestIdentities = 11;
constexpr uint8_t kIdentitiesAnswer = 12;
constexpr char kSignRequest = 13;
constexpr uint8_t kSignResponse = 14;
constexpr size_t kMaxAnswerBytes = 256 << 10;  // OpenSSH's own limit
constexpr uint32_t kMaxKeys = 2048;

Result<SshAgentWithKeys> Open(const std::string& path, const SshLimit& limit) {
  const SshLimit patience = limit.NoLaterThan(SshAgent::kPatience);
  HVDRAY_ASSIGN_OR_RETURN(SshAgent agent, SshAgent::Connect(path, patience));
  HVDRAY_ASSIGN_OR_RETURN(std::vector<SshAgentKey> keys, agent.Keys(patience));
  return SshAgentWithKeys{std::move(agent), std::move(keys)};
}

/// What this process knows of agents.
class AgentMemory {
 public:
  Result<SshAgentWithKeys> OpenAndNote(const std::string& path, const SshLimit& limit) {
    std::unique_lock lock(mutex_);
    Known& known = known_[SocketAt(path)];
    if (known == Known::kSilent) {
      return Status(ErrorCode::kConnectTimeout, fmt::format("ssh-agent {}: no answer", path));
    }
    // One that answers may be slow: it need not serve one host at a time.
    if (known == Known::kAnswers) lock.unlock();
    Result<SshAgentWithKeys> opened = Open(path, limit);
    if (!lock.owns_lock()) lock.lock();
    if (opened.ok()) known = Known::kAnswers;
    // Where the caller had no time left, that says nothing about the agent.
    const bool is_silent = opened.status().code() == ErrorCode::kConnectTimeout &&
                           limit.Remaining() > Duration::zero();
    if (is_silent && std::exchange(known, Known::kSilent) != Known::kSilent) {
      Log(LogLevel::kWarning, "ssh", "ssh-agent {} does not answer: going on without it", path);
    }
    return opened;
  }

 private:
  enum class Known : uint8_t { kNothing, kAnswers, kSilent };
  using Socket = std::tuple<std::string, dev_t, ino_t, time_t, decltype(timespec::tv_nsec)>;

  /// Differs once a new agent listens at the same path.
  static Socket SocketAt(const std::string& path) {
    struct stat at {};
    if (::stat(path.c_str(), &at) != 0) return {path, 0, 0, 0, 0};
    return {path, at.st_dev, at.st_ino, at.st_ctim.tv_sec, at.st_ctim.tv_nsec};
  }

  std::mutex mutex_;  // guards known_
  std::map<Socket, Known> known_;
};

Status BadAnswer() { return {ErrorCode::kProtocolError, "ssh-agent: invalid answer"}; }

}  // namespace

Result<std::vector<SshAgentKey>> ParseAgentKeys(ByteView answer) {
  SshFields fields(answer);
  const auto type = fields.Byte();
  const auto count = fields.Uint32();
  if (type != kIdentitiesAnswer || !count || *count > kMaxKeys) return BadAnswer();
  std::vector<SshAgentKey> keys;
  for (uint32_t i = 0; i < *count; ++i) {
    const auto blob = fields.String();
    const auto comment = fields.String();
    if (!blob || !comment) return BadAnswer();
    keys.push_back({std::string(*blob), std::string(*comment)});
  }
  return keys;
}

std::string AgentSignRequest(ByteView blob, ByteView data) {
  std::string request(1, kSignRequest);
  AppendSshString(request, blob);
  AppendSshString(request, data);
  AppendSshUint32(request, 0);  // flags: they only choose among RSA's hashes
  return request;
}

Result<std::string> ParseAgentSignature(ByteView answer) {
  SshFields fields(answer);
  if (fields.Byte() != kSignResponse) {
    return Status(ErrorCode::kAuthenticationFailed, "ssh-agent refused to sign");
  }
  const auto signature = fields.String();
  if (!signature) return BadAnswer();
  SshFields parts(*signature);
  const auto algorithm = parts.String();
  const auto bytes = parts.String();
  if (!algorithm || !bytes) return BadAnswer();
  return std::string(*bytes);
}

Result<SshAgent> SshAgent::Connect(const std::string& path, const SshLimit& limit) {
  const Result<sockaddr_un> address = UnixAddress(path);
  if (!address.ok()) {
    return Status(ErrorCode::kFileUnreadable, fmt::format("ssh-agent {}: path too long", path));
  }
  UniqueFd fd(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  if (!fd.is_valid()) return ErrnoStatus("socket", errno);
  while (::connect(fd.get(), reinterpret_cast<const sockaddr*>(&*address), sizeof *address) != 0) {
    if (errno == EINTR) continue;
    // EAGAIN: our own threads have filled its backlog. There is no event to wait for.
    if (errno == EAGAIN && limit.Remaining() > Duration::zero()) {
      ::poll(nullptr, 0, 10);
      continue;
    }
    return Status(ErrorCode::kFileUnreadable,
                  fmt::format("ssh-agent {}: {}", path, ::strerror(errno)));
  }
  return SshAgent(std::move(fd));
}

Status SshAgent::Receive(std::string& bytes, size_t wanted, const SshLimit& limit) {
  size_t size = bytes.size();
  const size_t end = size + wanted;
  bytes.resize(end);
  while (size < end) {
    const ssize_t n = ::recv(fd_.get(), bytes.data() + size, end - size, 0);
    if (n == 0) return {ErrorCode::kProtocolError, "ssh-agent closed the connection"};
    if (n > 0) {
      size += static_cast<size_t>(n);
    } else if (errno == EAGAIN) {
      HVDRAY_RETURN_IF_ERROR(WaitForFd(fd_.get(), POLLIN, limit).WithContext("ssh-agent"));
    } else if (errno != EINTR) {
      return ErrnoStatus("ssh-agent: recv", errno);
    }
  }
  return {};
}

Result<std::string> SshAgent::Ask(ByteView request, const SshLimit& limit) {
  std::string frame;
  AppendSshString(frame, request);
  for (ByteView rest = frame; !rest.empty();) {
    const ssize_t n = ::send(fd_.get(), rest.data(), rest.size(), MSG_NOSIGNAL);
    if (n >= 0) {
      rest.remove_prefix(static_cast<size_t>(n));
    } else if (errno == EAGAIN) {
      HVDRAY_RETURN_IF_ERROR(WaitForFd(fd_.get(), POLLOUT, limit).WithContext("ssh-agent"));
    } else if (errno != EINTR) {
      return ErrnoStatus("ssh-agent: send", errno);
    }
  }
  std::string header;
  HVDRAY_RETURN_IF_ERROR(Receive(header, 4, limit));
  const uint32_t size = *SshFields(header).Uint32();
  if (size == 0 || size > kMaxAnswerBytes) return BadAnswer();
  std::string answer;
  HVDRAY_RETURN_IF_ERROR(Receive(answer, size, limit));
  return answer;
}

Result<std::vector<SshAgentKey>> SshAgent::Keys(const SshLimit& limit) {
  HVDRAY_ASSIGN_OR_RETURN(const std::string answer, Ask(ByteView(&kRequestIdentities, 1), limit));
  return ParseAgentKeys(answer);
}

Result<std::string> SshAgent::Sign(ByteView blob, ByteView data, const SshLimit& limit) {
  HVDRAY_ASSIGN_OR_RETURN(const std::string answer, Ask(AgentSignRequest(blob, data), limit));
  return ParseAgentSignature(answer);
}

Result<SshAgentWithKeys> ConnectToAgent(const std::string& path, const SshLimit& limit) {
  static AgentMemory memory;
  return memory.OpenAndNote(path, limit);
}

}  // namespace hvdray
