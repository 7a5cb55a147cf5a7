// SPDX-License-Identifier: Apache-2.0
#include "cluster/transport/ssh_tunnel.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <poll.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <string_view>
#include <utility>
#include <vector>

#include "base/exec.h"
#include "base/fd.h"
#include "base/text.h"
#include "base/unix_socket.h"
#include "cluster/transport/child_process.h"
#include "cluster/transport/remote_shell.h"

namespace hvdray {
namespace {

// ssh listens before it asks for a session, so this line means that the socket is open.
constexpr std::string_view kReady = "HVDRAY-TUNNEL";
constexpr char kWaitForOurEnd[] = "echo; echo HVDRAY-TUNNEL; exec cat >/dev/null";
// On Linux, whose port it is: any user of that host may listen on its loopback.
constexpr std::string_view kOtherOwner = "HVDRAY-OWNER ";
constexpr char kCheckOwner[] =
    "cat /proc/net/tcp /proc/net/tcp6 2>/dev/null | while read -r n l r s q t x o y; do "
    "case \"$l:$s\" in {}) "
    "[ \"$o\" = 0 ] || [ \"$o\" = \"$(id -u)\" ] || {{ echo; echo HVDRAY-OWNER \"$o\"; exit 1; "
    "}};; "
    "esac; done || exit 1; ";
constexpr size_t kMaxBytes = size_t{64} << 10;  // kept of the output of a login shell or ssh
constexpr int kPatienceMs = 1000;               // for ssh to notice that its stdin is closed

/// Whether ssh takes the path as it is: in its -L, a colon ends it, and % and $ may stand for
/// something else.
bool IsPlain(std::string_view path) {
  return path.starts_with('/') && path.find_first_of(":%$\\") == std::string_view::npos;
}

std::vector<std::string> ShownLines(std::string_view text) {
  std::vector<std::string> lines;
  for (std::string_view line : LinesOf(text)) {
    while (line.ends_with('\r')) line.remove_suffix(1);
    if (!line.empty()) lines.push_back(ShownLine(line));
  }
  return lines;
}

/// For a login shell of any kind.
std::string RemoteText(const TunnelEnds& ends) {
  if (!ends.is_owner_checked) return kWaitForOurEnd;
  // At another address than loopback: whoever listens at this port of any.
  const std::string listeners =
      ends.remote_address == "127.0.0.1"
          ? fmt::format("*0000:{0:04X}:0A|*0100007F:{0:04X}:0A", ends.remote_port)
          : fmt::format("*:{:04X}:0A", ends.remote_port);
  return fmt::format("exec /bin/sh -c '{}{}'", fmt::format(kCheckOwner, listeners), kWaitForOurEnd);
}

Status OtherOwner(const std::string& uid) {
  return {ErrorCode::kRayDenied,
          fmt::format("its port belongs to another user there (uid {}): it gets no token and no "
                      "package",
                      uid),
          "if that user runs this cluster for you: --no-peer-check"};
}

/// false: the pipe is closed.
bool Read(const UniqueFd& fd, std::string* text) {
  std::array<char, 4096> bytes{};
  const ssize_t n = ::read(fd.get(), bytes.data(), bytes.size());
  if (n < 0) return errno == EINTR || errno == EAGAIN;
  if (text->size() < kMaxBytes) text->append(bytes.data(), static_cast<size_t>(n));
  return n > 0;
}

}  // namespace

SshTunnel::SshTunnel(Helper helper, UniqueFd input, UniqueFd output, UniqueFd errors,
                     std::string path, std::string proxy)
    : helper_(std::move(helper)),
      input_(std::move(input)),
      output_(std::move(output)),
      errors_(std::move(errors)),
      path_(std::move(path)),
      proxy_(std::move(proxy)) {}

SshTunnel::~SshTunnel() {
  End();
  ::unlink(path_.c_str());  // of a tunnel that did not open
}

std::string SshTunnel::socket_path() const {
  return fmt::format("/proc/self/fd/{}", socket_.get());
}

Status SshTunnel::WaitReady(TimePoint deadline, const std::string& host) {
  std::string output;
  while (true) {
    const auto left =
        std::chrono::ceil<std::chrono::milliseconds>(deadline - std::chrono::steady_clock::now());
    if (left.count() <= 0) {
      return {ErrorCode::kConnectTimeout, "ssh opened no tunnel in time", HintForSilence(host)};
    }
    std::array<pollfd, 2> ready = {pollfd{output_.get(), POLLIN, 0},
                                   pollfd{errors_.get(), POLLIN, 0}};
    const int count = ::poll(ready.data(), ready.size(), static_cast<int>(left.count()));
    if (count < 0 && errno != EINTR) return ErrnoStatus("poll", errno);
    if (count <= 0) continue;
    if (ready[1].revents != 0 && !Read(errors_, &said_)) errors_.Reset();
    const bool is_open = ready[0].revents == 0 || Read(output_, &output);
    const std::vector<std::string> lines = ShownLines(output);
    for (const std::string& line : lines) {
      if (line == kReady) return {};
      if (line.starts_with(kOtherOwner)) return OtherOwner(line.substr(kOtherOwner.size()));
    }
    if (!is_open) return HowItEnded();
  }
}

/// Whoever is killed from here on leaves nothing behind, and nobody else can connect.
Status SshTunnel::TakeSocket() {
  socket_.Reset(::open(path_.c_str(), O_PATH | O_NOFOLLOW | O_CLOEXEC));
  if (!socket_.is_valid()) {
    return ErrnoStatus("the socket of ssh", errno).WithCode(ErrorCode::kAgentStartFailed);
  }
  ::unlink(path_.c_str());
  return {};
}

Status SshTunnel::HowItEnded() {
  const int code = End();
  while (errors_.is_valid() && Read(errors_, &said_)) {
  }
  const std::vector<std::string> lines = ShownLines(said_);
  const Status how(ErrorCode::kAgentStartFailed, code >= 0
                                                     ? fmt::format("ssh exited with code {}", code)
                                                     : std::string("ssh was killed"));
  if (code == kSshFailed || lines.empty()) return ExplainOpenssh(how, lines, proxy_);
  // The code of the shell there: its lines are no messages of ssh.
  return {ErrorCode::kAgentStartFailed, fmt::format("{}: {}", how.message(), lines.back()),
          "see what the login shell's start-up files do there"};
}

int SshTunnel::End() {
  if (helper_.pid < 0) return -1;
  input_.Reset();
  pollfd gone = {helper_.pidfd.get(), POLLIN, 0};
  if (::poll(&gone, 1, kPatienceMs) <= 0) ::kill(-helper_.pid, SIGKILL);
  const int status = ReapChild(std::exchange(helper_.pid, -1));
  return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

Result<std::unique_ptr<SshTunnel>> SshTunnel::Start(const std::vector<std::string>& argv,
                                                    const std::string& path,
                                                    const std::string& proxy) {
  HVDRAY_ASSIGN_OR_RETURN(Pipe input, MakePipe());
  HVDRAY_ASSIGN_OR_RETURN(Pipe output, MakePipe());
  HVDRAY_ASSIGN_OR_RETURN(Pipe errors, MakePipe());
  HVDRAY_RETURN_IF_ERROR(SetNonBlocking(output.read_end.get()));
  HVDRAY_RETURN_IF_ERROR(SetNonBlocking(errors.read_end.get()));
  HVDRAY_ASSIGN_OR_RETURN(
      Helper helper,
      SpawnHelper(argv, input.read_end.get(), output.write_end.get(), errors.write_end.get()));
  output.write_end.Reset();
  errors.write_end.Reset();
  return std::unique_ptr<SshTunnel>(new SshTunnel(std::move(helper), std::move(input.write_end),
                                                  std::move(output.read_end),
                                                  std::move(errors.read_end), path, proxy));
}

Result<std::unique_ptr<SshTunnel>> SshTunnel::Open(const OpensshOptions& ssh,
                                                   const std::string& host, const TunnelEnds& ends,
                                                   Duration limit) {
  const TimePoint deadline = std::chrono::steady_clock::now() + limit;
  if (!UnixAddress(ends.socket_path).ok() || !IsPlain(ends.socket_path)) {
    return Status(
        ErrorCode::kFileUnwritable,
        fmt::format("{}: ssh cannot take this path for a tunnel", ShownText(ends.socket_path)),
        "set TMPDIR to a directory with a short path, without : % $ and \\");
  }
  OpensshOptions forwarding = ssh;
  const bool is_v6 = ends.remote_address.find(':') != std::string::npos;
  const std::string there = is_v6 ? "[" + ends.remote_address + "]" : ends.remote_address;
  forwarding.local_forwards = {fmt::format("{}:{}:{}", ends.socket_path, there, ends.remote_port)};
  Result<std::unique_ptr<SshTunnel>> tunnel =
      Start(OpensshArgv(forwarding, host, RemoteText(ends)), ends.socket_path, ssh.proxy);
  Status ready = tunnel.ok() ? (*tunnel)->WaitReady(deadline, host) : tunnel.status();
  if (ready.ok()) ready = (*tunnel)->TakeSocket();
  if (ready.ok()) return tunnel;
  return std::move(ready).WithContext("tunnel to " + host);
}

}  // namespace hvdray
