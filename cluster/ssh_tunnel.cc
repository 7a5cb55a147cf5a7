// SPDX-License-Identifier: Apache-2.0
#include "cluster/ssh_tunnel.h"

#include <arpa/inet.h>
#include <fmt/format.h>
#include <netinet/in.h>
#include <poll.h>
#include <signal.h>
#include <sys/socket.h>
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
#include "cluster/child_process.h"

namespace hvdray {
namespace {

// ssh listens before it asks for a session, so this line means that the port is open.
constexpr std::string_view kReady = "HVDRAY-TUNNEL";
constexpr char kWaitForOurEnd[] = "echo; echo HVDRAY-TUNNEL; exec cat >/dev/null";
constexpr std::string_view kPortTaken = "cannot listen to port";
constexpr size_t kMaxBytes = size_t{64} << 10;  // kept of the output of a login shell or ssh
constexpr int kPorts = 3;                       // tries; another process may take a port first
constexpr int kPatienceMs = 1000;               // for ssh to notice that its stdin is closed

/// A port that is free at this moment; another process may take it before ssh does.
Result<uint16_t> FreePort() {
  const UniqueFd probe(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = ::htonl(INADDR_LOOPBACK);
  socklen_t size = sizeof address;
  auto* raw = reinterpret_cast<sockaddr*>(&address);
  if (!probe.is_valid() || ::bind(probe.get(), raw, size) != 0 ||
      ::getsockname(probe.get(), raw, &size) != 0) {
    return ErrnoStatus("look for a free port", errno);
  }
  return ::ntohs(address.sin_port);
}

std::vector<std::string> ShownLinesOf(std::string_view text) {
  std::vector<std::string> lines;
  for (std::string_view line : LinesOf(text)) {
    while (line.ends_with('\r')) line.remove_suffix(1);
    if (!line.empty()) lines.push_back(ShownLine(line));
  }
  return lines;
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

SshTunnel::SshTunnel(Helper helper, UniqueFd input, UniqueFd output, UniqueFd errors, uint16_t port)
    : helper_(std::move(helper)),
      input_(std::move(input)),
      output_(std::move(output)),
      errors_(std::move(errors)),
      port_(port) {}

SshTunnel::~SshTunnel() { End(); }

Status SshTunnel::WaitReady(TimePoint deadline) {
  std::string output;
  while (true) {
    const auto left =
        std::chrono::ceil<std::chrono::milliseconds>(deadline - std::chrono::steady_clock::now());
    if (left.count() <= 0) {
      return {ErrorCode::kConnectTimeout, "ssh opened no tunnel in time"};
    }
    std::array<pollfd, 2> ready = {pollfd{output_.get(), POLLIN, 0},
                                   pollfd{errors_.get(), POLLIN, 0}};
    const int count = ::poll(ready.data(), ready.size(), static_cast<int>(left.count()));
    if (count < 0 && errno != EINTR) return ErrnoStatus("poll", errno);
    if (count <= 0) continue;
    if (ready[1].revents != 0 && !Read(errors_, &said_)) errors_.Reset();
    const bool is_open = ready[0].revents == 0 || Read(output_, &output);
    const std::vector<std::string> lines = ShownLinesOf(output);
    if (std::find(lines.begin(), lines.end(), kReady) != lines.end()) return {};
    if (!is_open) return HowItEnded();
  }
}

Status SshTunnel::HowItEnded() {
  const int code = End();
  while (errors_.is_valid() && Read(errors_, &said_)) {
  }
  const std::vector<std::string> lines = ShownLinesOf(said_);
  const bool is_taken = std::any_of(lines.begin(), lines.end(), [](const std::string& line) {
    return line.find(kPortTaken) != std::string::npos;
  });
  if (is_taken) return {ErrorCode::kAddressInUse, "the port for the tunnel was taken"};
  const Status how(ErrorCode::kAgentStartFailed, code >= 0
                                                     ? fmt::format("ssh exited with code {}", code)
                                                     : std::string("ssh was killed"));
  return ExplainOpenssh(how, lines);
}

int SshTunnel::End() {
  if (helper_.pid < 0) return -1;
  input_.Reset();
  pollfd gone = {helper_.pidfd.get(), POLLIN, 0};
  if (::poll(&gone, 1, kPatienceMs) <= 0) ::kill(-helper_.pid, SIGKILL);
  const int status = ReapChild(std::exchange(helper_.pid, -1));
  return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

Result<std::unique_ptr<SshTunnel>> SshTunnel::OpenAt(const std::vector<std::string>& argv,
                                                     uint16_t port, TimePoint deadline) {
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
  std::unique_ptr<SshTunnel> tunnel(new SshTunnel(std::move(helper), std::move(input.write_end),
                                                  std::move(output.read_end),
                                                  std::move(errors.read_end), port));
  HVDRAY_RETURN_IF_ERROR(tunnel->WaitReady(deadline));
  return tunnel;
}

Result<std::unique_ptr<SshTunnel>> SshTunnel::Open(const OpensshOptions& ssh,
                                                   const std::string& host, uint16_t remote_port,
                                                   Duration limit, uint16_t local_port,
                                                   const std::string& address) {
  const TimePoint deadline = std::chrono::steady_clock::now() + limit;
  OpensshOptions forwarding = ssh;
  const bool is_v6 = address.find(':') != std::string::npos;
  const std::string place = is_v6 ? "[" + address + "]" : address;
  for (int tries = 1;; ++tries) {
    uint16_t port = local_port;
    if (port == 0) {
      HVDRAY_ASSIGN_OR_RETURN(port, FreePort());
    }
    forwarding.local_forwards = {fmt::format("127.0.0.1:{}:{}:{}", port, place, remote_port)};
    Result<std::unique_ptr<SshTunnel>> tunnel =
        OpenAt(OpensshArgv(forwarding, host, kWaitForOurEnd), port, deadline);
    if (tunnel.ok()) return tunnel;
    const bool is_taken = tunnel.status().code() == ErrorCode::kAddressInUse;
    if (is_taken && local_port != 0) {
      return Status(ErrorCode::kAddressInUse,
                    fmt::format("port {} of this machine is in use", local_port));
    }
    if (is_taken && tries < kPorts) continue;
    return std::move(tunnel).status().WithContext("tunnel to " + host);
  }
}

}  // namespace hvdray
