// SPDX-License-Identifier: Apache-2.0
#include "agent/leave_socket.h"

#include <fmt/format.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <filesystem>
#include <system_error>
#include <utility>

#include "base/environ.h"
#include "base/fd.h"
#include "base/file.h"
#include "base/text.h"
#include "base/unix_socket.h"

namespace hvdray {
namespace {

constexpr size_t kMaxLine = 128;
constexpr size_t kMaxClients = 16;
constexpr int kMaxTries = 8;
constexpr Duration kClientLimit = std::chrono::seconds(5);
constexpr int kAnswerWaitMs = 2000;
// The pause in accepting after descriptors or memory ran out: the listener would stay readable.
constexpr Duration kAcceptPause = std::chrono::milliseconds(100);

bool IsOurUser(int fd) {
  ucred peer{};
  socklen_t size = sizeof(peer);
  if (::getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &peer, &size) != 0) return false;
  return peer.uid == ::geteuid() || peer.uid == 0;
}

// Anyone can write to /tmp: rejects a directory that another user has created there.
Status CheckOwnDirectory(const std::string& directory) {
  struct stat info {};
  if (::lstat(directory.c_str(), &info) != 0) return ErrnoStatus(directory, errno);
  if (S_ISDIR(info.st_mode) && info.st_uid == ::geteuid() && (info.st_mode & 077) == 0) return {};
  return {ErrorCode::kFileUnwritable,
          fmt::format("{}: not a directory that only this user can enter", directory)};
}

Status MakeOwnDirectory(const std::string& directory) {
  if (::mkdir(directory.c_str(), 0700) != 0 && errno != EEXIST)
    return ErrnoStatus(directory, errno);
  return CheckOwnDirectory(directory);
}

std::string PathOf(const std::string& directory, pid_t agent) {
  return fmt::format("{}/agent-{}.sock", directory, agent);
}

// In a directory that is ours alone.
void RemoveIfDead(const std::string& path) {
  if (IsDeadSocket(path)) ::unlink(path.c_str());
}

// The agent of "agent-PID.sock".
std::optional<pid_t> AgentOf(std::string_view name) {
  constexpr std::string_view kBefore = "agent-";
  constexpr std::string_view kAfter = ".sock";
  if (!name.starts_with(kBefore) || !name.ends_with(kAfter)) return std::nullopt;
  name.remove_prefix(kBefore.size());
  name.remove_suffix(std::min(kAfter.size(), name.size()));
  const auto pid = ParseInteger<pid_t>(name);
  return pid && *pid > 0 ? pid : std::nullopt;
}

// Also if nobody reaps it, as in a container whose first process does not.
bool IsGone(pid_t pid) {
  const UniqueFd process = OpenPidFd(pid);
  return process.is_valid() ? AwaitEnd(process.get()) : errno == ESRCH;
}

// Of agents that were killed together with their keepers. One of another pid namespace only seems
// to be gone, but it listens. Asks no agent that is there: there may be a thousand.
void RemoveDeadSockets(const std::string& directory) {
  std::error_code error;
  for (std::filesystem::directory_iterator entry(directory, error), end; !error && entry != end;
       entry.increment(error)) {
    const std::optional<pid_t> agent = AgentOf(entry->path().filename().native());
    if (!agent || !IsGone(*agent)) continue;
    RemoveIfDead(entry->path().native());
  }
}

Status ListenAt(const std::string& path, UniqueFd& fd) {
  // Has its name only once we listen: until then it looks like that of a dead agent.
  const std::string early = path + ".new";
  HVDRAY_ASSIGN_OR_RETURN(const sockaddr_un address, UnixAddress(early));
  UniqueFd made(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  ::unlink(early.c_str());  // A leftover of a dead agent with our pid.
  if (!made.is_valid() ||
      ::bind(made.get(), reinterpret_cast<const sockaddr*>(&address), sizeof(address)) != 0 ||
      ::chmod(early.c_str(), 0600) != 0 || ::listen(made.get(), kMaxClients) != 0 ||
      ::rename(early.c_str(), path.c_str()) != 0) {
    const Status status = ErrnoStatus(path, errno);
    ::unlink(early.c_str());
    return status;
  }
  fd = std::move(made);
  return {};
}

// The last agent's directory in /tmp goes with its socket.
void RemoveIfEmpty(const std::string& directory) { ::rmdir(directory.c_str()); }

// True: the agent accepted the line.
bool Tell(int fd, const std::string& line) {
  if (!WriteAll(fd, line).ok()) return false;
  std::string answer(kMaxLine, '\0');
  pollfd ready{fd, POLLIN, 0};
  if (::poll(&ready, 1, kAnswerWaitMs) <= 0) return false;
  const ssize_t size = ::read(fd, answer.data(), answer.size());
  return size >= 2 && answer.starts_with("ok");
}

}  // namespace

std::optional<Duration> ParseLeave(std::string_view line) {
  constexpr std::string_view kWord = "leave";
  if (!line.starts_with(kWord)) return std::nullopt;
  line.remove_prefix(kWord.size());
  if (line.empty()) return kDefaultLeave;
  if (line.front() != ' ') return std::nullopt;
  line.remove_prefix(1);
  const auto seconds = ParseInteger<int>(line);
  if (!seconds || *seconds < 0 || *seconds > kMaxLeaveSeconds) return std::nullopt;
  return std::chrono::seconds(*seconds);
}

std::string LeaveDirectory() {
  const std::string runtime = Environment::FromProcess().GetOr("XDG_RUNTIME_DIR", "");
  if (IsDirectory(runtime)) return runtime + "/hvdray";
  return fmt::format("/tmp/hvdray-{}", ::geteuid());
}

Result<std::unique_ptr<LeaveSocket>> LeaveSocket::Open(Loop& loop, const std::string& directory,
                                                       std::function<void(Duration)> on_leave) {
  const std::string path = PathOf(directory, ::getpid());
  UniqueFd fd;
  Status made;
  // Another agent may remove the directory while it is empty.
  for (int tries = 0; tries < kMaxTries && !fd.is_valid(); ++tries) {
    HVDRAY_RETURN_IF_ERROR(MakeOwnDirectory(directory));
    RemoveDeadSockets(directory);
    made = ListenAt(path, fd);
  }
  HVDRAY_RETURN_IF_ERROR(made);
  return std::unique_ptr<LeaveSocket>(
      new LeaveSocket(loop, path, std::move(fd), std::move(on_leave)));
}

LeaveSocket::LeaveSocket(Loop& loop, std::string path, UniqueFd fd,
                         std::function<void(Duration)> on_leave)
    : loop_(loop), path_(std::move(path)), fd_(std::move(fd)), on_leave_(std::move(on_leave)) {
  Listen();
}

void LeaveSocket::Listen() {
  watch_ = loop_.OnFd(fd_.get(), FdEvent::kRead, [this] { OnConnection(); });
}

LeaveSocket::~LeaveSocket() {
  ::unlink(path_.c_str());
  RemoveIfEmpty(std::filesystem::path(path_).parent_path());
}

void LeaveSocket::OnConnection() {
  UniqueFd fd(::accept4(fd_.get(), nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK));
  if (!fd.is_valid()) {
    const bool is_exhausted =
        errno == EMFILE || errno == ENFILE || errno == ENOBUFS || errno == ENOMEM;
    if (is_exhausted) watch_ = loop_.After(kAcceptPause, [this] { Listen(); });
    return;
  }
  if (!IsOurUser(fd.get()) || clients_.size() >= kMaxClients) return;
  const int id = ++last_id_;
  Client& client = clients_[id];
  client.fd = std::move(fd);
  client.watch = loop_.OnFd(client.fd.get(), FdEvent::kRead, [this, id] { OnReadable(id); });
  client.limit = loop_.After(kClientLimit, [this, id] { clients_.erase(id); });
}

void LeaveSocket::OnReadable(int id) {
  Client& client = clients_.at(id);
  std::string bytes(kMaxLine, '\0');
  const ssize_t size = ::read(client.fd.get(), bytes.data(), bytes.size());
  if (size < 0 && (errno == EAGAIN || errno == EINTR)) return;
  if (size <= 0) {
    clients_.erase(id);
    return;
  }
  client.text.append(bytes, 0, static_cast<size_t>(size));
  const size_t end = client.text.find('\n');
  if (end == std::string::npos) {
    if (client.text.size() >= kMaxLine) clients_.erase(id);
    return;
  }
  const std::optional<Duration> in = ParseLeave(std::string_view(client.text).substr(0, end));
  (void)WriteAll(client.fd.get(), in ? "ok\n" : "error: expected 'leave SECONDS'\n").ok();
  clients_.erase(id);
  if (in) on_leave_(*in);
}

void RemoveDeadLeaveSocket(const std::string& directory, pid_t agent) {
  if (!CheckOwnDirectory(directory).ok()) return;
  RemoveIfDead(PathOf(directory, agent));
  RemoveIfEmpty(directory);
}

Result<int> TellAgentsToLeave(const std::string& directory, Duration in) {
  const auto seconds = std::chrono::duration_cast<std::chrono::seconds>(in).count();
  int told = 0;
  // Removes leftovers only in a directory of our own.
  const bool is_ours = CheckOwnDirectory(directory).ok();
  std::error_code none;
  for (const auto& entry : std::filesystem::directory_iterator(directory, none)) {
    if (entry.path().extension() != ".sock") continue;
    const std::string path = entry.path().string();
    UniqueFd fd;
    if (ConnectUnix(path, fd) != 0) {
      if (is_ours) RemoveIfDead(path);
    } else if (Tell(fd.get(), fmt::format("leave {}\n", seconds))) {
      ++told;
    }
  }
  if (told > 0) return told;
  return Status(ErrorCode::kUsage,
                fmt::format("no agent of an elastic job listens in {}", directory),
                "run it as the user whose workers run on this host");
}

}  // namespace hvdray
