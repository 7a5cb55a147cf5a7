// SPDX-License-Identifier: Apache-2.0
#include "tests/fakes/loopback_sshd.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <netinet/in.h>
#include <poll.h>
#include <pwd.h>
#include <signal.h>
#include <spawn.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <filesystem>
#include <map>
#include <set>
#include <utility>

#include "base/environ.h"
#include "base/exec.h"
#include "base/fd.h"
#include "base/file.h"
#include "base/status.h"

namespace hvdray {
namespace {

// The password is "right".
constexpr const char* kShadowLine =
    "root:$6$hvdraytest$"
    "OViSQjB4nu//AJxPiE/LH0xiKSZfjOmrsRLb6Bdl6QKHRJLhBhZ8J5Kic3oCZZCRGlz5ReAhOBT5TMHyDYR0F/"
    ":19000:0:99999:7:::\n";

/// stdin is /dev/null; stdout and stderr go to `output`.
pid_t Spawn(const std::vector<std::string>& argv, int output,
            const std::vector<std::string>& environment) {
  posix_spawn_file_actions_t actions;
  ::posix_spawn_file_actions_init(&actions);
  ::posix_spawn_file_actions_addopen(&actions, STDIN_FILENO, "/dev/null", O_RDONLY, 0);
  ::posix_spawn_file_actions_adddup2(&actions, output, STDOUT_FILENO);
  ::posix_spawn_file_actions_adddup2(&actions, output, STDERR_FILENO);
  ::posix_spawn_file_actions_addclosefrom_np(&actions, STDERR_FILENO + 1);
  pid_t pid = -1;
  const int error = ::posix_spawnp(&pid, argv[0].c_str(), &actions, nullptr, ExecArray(argv).data(),
                                   ExecArray(environment).data());
  ::posix_spawn_file_actions_destroy(&actions);
  return error == 0 ? pid : -1;
}

bool WaitFor(pid_t pid) { return ReapChild(pid) == 0; }

bool RunWith(const std::vector<std::string>& argv, const std::vector<std::string>& environment) {
  const UniqueFd null(::open("/dev/null", O_RDWR | O_CLOEXEC));
  const pid_t pid = Spawn(argv, null.get(), environment);
  return pid > 0 && WaitFor(pid);
}

/// All processes below `root`, by the kernel's own books.
std::set<pid_t> Descendants(pid_t root) {
  std::multimap<pid_t, pid_t> children;
  for (const auto& entry : std::filesystem::directory_iterator("/proc")) {
    const std::string name = entry.path().filename();
    if (name.find_first_not_of("0123456789") != std::string::npos) continue;
    const Result<std::string> stat = ReadFile(entry.path() / "stat");
    if (!stat.ok()) continue;  // it has just ended
    const size_t end = stat->rfind(") ");
    if (end == std::string::npos) continue;
    children.emplace(static_cast<pid_t>(std::stol(stat->substr(end + 4))),
                     static_cast<pid_t>(std::stol(name)));
  }
  std::set<pid_t> found;
  std::vector<pid_t> open = {root};
  while (!open.empty()) {
    const pid_t parent = open.back();
    open.pop_back();
    const auto [first, last] = children.equal_range(parent);
    for (auto child = first; child != last; ++child) {
      if (found.insert(child->second).second) open.push_back(child->second);
    }
  }
  return found;
}

void KillAndReap(pid_t pid) {
  if (pid <= 1) return;
  ::kill(pid, SIGKILL);
  WaitFor(pid);
}

}  // namespace

bool RunToEnd(const std::vector<std::string>& argv) {
  return RunWith(argv, Environment::FromProcess().ToStrings());
}

void MakeSshKey(const std::string& path, const std::string& type, const std::string& passphrase) {
  HVDRAY_CHECK(
      RunToEnd({"ssh-keygen", "-q", "-t", type, "-N", passphrase, "-C", "test-key", "-f", path}));
}

LoopbackListener::LoopbackListener() : fd_(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)) {
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t size = sizeof address;
  auto* generic = reinterpret_cast<sockaddr*>(&address);
  HVDRAY_CHECK(::bind(fd_.get(), generic, size) == 0);
  HVDRAY_CHECK(::listen(fd_.get(), 64) == 0);
  HVDRAY_CHECK(::getsockname(fd_.get(), generic, &size) == 0);
  port_ = ntohs(address.sin_port);
}

UniqueFd LoopbackListener::Accept() const {
  return UniqueFd(::accept4(fd_.get(), nullptr, nullptr, SOCK_CLOEXEC));
}

LoopbackSshd::LoopbackSshd(const std::string& settings, Shadow shadow) {
  MakeSshKey(directory_ / "host_ed25519");
  MakeSshKey(directory_ / "host_ecdsa", "ecdsa");
  MakeSshKey(directory_ / "client");
  std::filesystem::copy_file(directory_ / "client.pub", directory_ / "authorized_keys");
  // sshd wants its directory when it runs as root.
  if (::getuid() == 0) ::mkdir("/run/sshd", 0755);
  if (shadow == Shadow::kPrivate) {
    HVDRAY_CHECK(WriteFileAtomically(directory_ / "shadow", kShadowLine).ok());
    ::chmod((directory_ / "shadow").c_str(), 0600);
  }
  // Between finding a free port and listening there, somebody else may take it.
  bool is_up = false;
  for (int i = 0; i < 10 && !is_up; ++i) {
    is_up = Start(settings, shadow);
  }
  HVDRAY_CHECK(is_up);
}

bool LoopbackSshd::Start(const std::string& settings, Shadow shadow) {
  port_ = LoopbackListener().port();
  const std::string config = fmt::format(
      "{}\nListenAddress 127.0.0.1:{}\nHostKey {}\nHostKey {}\nAuthorizedKeysFile {}\n"
      "PidFile none\nStrictModes no\nUsePAM no\nPermitRootLogin yes\nUseDNS no\nPrintMotd no\n"
      "MaxSessions 100\nPasswordAuthentication no\n"
      "KbdInteractiveAuthentication no\n"
      // The shell files of whoever runs the tests may print, wait, or take a lock.
      "SetEnv HOME={}\n",
      settings, port_, directory_ / "host_ed25519", directory_ / "host_ecdsa",
      directory_ / "authorized_keys", directory_.path());
  // Of this one sshd takes the last line, not the first.
  const bool has_startups = settings.find("MaxStartups") != std::string::npos;
  HVDRAY_CHECK(WriteFileAtomically(directory_ / "sshd_config",
                                   config + (has_startups ? "" : "MaxStartups 100\n"))
                   .ok());
  Pipe log = MakePipe().value();
  // Nobody reads along: room for the log of some thousand connections.
  (void)::fcntl(log.write_end.get(), F_SETPIPE_SZ, 1 << 20);
  std::vector<std::string> argv = {"/usr/sbin/sshd", "-D", "-e", "-f", directory_ / "sshd_config"};
  if (shadow == Shadow::kPrivate) {
    const std::string script =
        fmt::format("mount --bind {} /etc/shadow && exec \"$@\"", directory_ / "shadow");
    argv.insert(argv.begin(), {"unshare", "-m", "sh", "-c", script, "sh"});
  }
  pid_ = Spawn(argv, log.write_end.get(), Environment::FromProcess().ToStrings());
  HVDRAY_CHECK(pid_ > 0);
  log.write_end.Reset();
  log_ = std::move(log.read_end);
  std::string text;
  std::array<char, 4096> buffer;
  while (text.find("Server listening") == std::string::npos) {
    const ssize_t n = ::read(log_.get(), buffer.data(), buffer.size());
    if (n <= 0) {
      WaitFor(std::exchange(pid_, -1));
      ::write(STDERR_FILENO, text.data(), text.size());
      return false;
    }
    text.append(buffer.data(), static_cast<size_t>(n));
  }
  return SetNonBlocking(log_.get()).ok();
}

LoopbackSshd::~LoopbackSshd() {
  const std::set<pid_t> sessions = Descendants(pid_);
  KillAndReap(pid_);
  for (const pid_t pid : sessions) ::kill(pid, SIGKILL);
}

void LoopbackSshd::KillSessions() const {
  for (const pid_t pid : Descendants(pid_)) ::kill(pid, SIGKILL);
}

std::string LoopbackSshd::TakeLog() {
  std::string text;
  std::array<char, 4096> buffer;
  for (ssize_t n; (n = ::read(log_.get(), buffer.data(), buffer.size())) > 0;) {
    text.append(buffer.data(), static_cast<size_t>(n));
  }
  return text;
}

LoopbackAgent::LoopbackAgent() {
  Pipe out = MakePipe().value();
  pid_ = Spawn({"ssh-agent", "-D", "-a", socket()}, out.write_end.get(),
               Environment::FromProcess().ToStrings());
  HVDRAY_CHECK(pid_ > 0);
  // It says where it listens once it does.
  char byte = 0;
  HVDRAY_CHECK(::read(out.read_end.get(), &byte, 1) == 1);
}

LoopbackAgent::~LoopbackAgent() { KillAndReap(pid_); }

void LoopbackAgent::Add(const std::string& key_path, const std::string& passphrase) const {
  const std::string helper = directory_ / "askpass";
  HVDRAY_CHECK(WriteFileAtomically(helper, "#!/bin/sh\necho '" + passphrase + "'\n").ok());
  ::chmod(helper.c_str(), 0700);
  Environment environment = Environment::FromProcess();
  environment.Set("SSH_AUTH_SOCK", socket());
  environment.Set("SSH_ASKPASS", helper);
  environment.Set("SSH_ASKPASS_REQUIRE", "force");
  HVDRAY_CHECK(RunWith({"ssh-add", "-q", key_path}, environment.ToStrings()));
}

}  // namespace hvdray
