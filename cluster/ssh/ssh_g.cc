// Runs the ssh client for what it knows of the configuration.
#include "cluster/ssh/ssh_g.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <utility>
#include <vector>

#include "base/environ.h"
#include "base/fd.h"
#include "base/shown_line.h"

namespace hvdray {
namespace {

constexpr size_t kMaxOutputBytes = 1 << 20;

struct ProgramEnd {
  int wait_status = 0;
  std::string output;
  std::string errors;
};

/// Starts `argv` with nothing on stdin. nullopt: there is no such program.
Result<std::optional<pid_t>> Spawn(const std::vector<std::string>& argv, int out, int err) {
  std::vector<char*> pointers;
  pointers.reserve(argv.size() + 1);
  for (const std::string& word : argv) pointers.push_back(const_cast<char*>(word.c_str()));
  pointers.push_back(nullptr);
  posix_spawn_file_actions_t actions{};
  posix_spawnattr_t attributes{};
  ::posix_spawn_file_actions_init(&actions);
  ::posix_spawnattr_init(&attributes);
  ::posix_spawn_file_actions_addopen(&actions, STDIN_FILENO, "/dev/null", O_RDONLY, 0);
  ::posix_spawn_file_actions_adddup2(&actions, out, STDOUT_FILENO);
  ::posix_spawn_file_actions_adddup2(&actions, err, STDERR_FILENO);
  ::posix_spawn_file_actions_addclosefrom_np(&actions, STDERR_FILENO + 1);
  // Threads of a pool block all signals; a Match exec of the user's must not inherit that.
  sigset_t defaults;
  sigset_t none;
  ::sigfillset(&defaults);
  ::sigemptyset(&none);
  ::posix_spawnattr_setsigdefault(&attributes, &defaults);
  ::posix_spawnattr_setsigmask(&attributes, &none);
  // A group of its own, so that what it runs in turn can be ended with it.
  ::posix_spawnattr_setpgroup(&attributes, 0);
  ::posix_spawnattr_setflags(
      &attributes, POSIX_SPAWN_SETSIGDEF | POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETPGROUP);
  pid_t pid = -1;
  const int error =
      ::posix_spawnp(&pid, pointers[0], &actions, &attributes, pointers.data(), ::environ);
  ::posix_spawn_file_actions_destroy(&actions);
  ::posix_spawnattr_destroy(&attributes);
  if (error == ENOENT) return std::optional<pid_t>();
  if (error != 0) return ErrnoStatus(argv[0], error);
  return std::optional<pid_t>(pid);
}

/// Appends what `fd` has; closes it at its end. False when `text` has become too long.
bool Drain(UniqueFd& fd, std::string& text) {
  std::array<char, 16384> buffer;
  const ssize_t n = ::read(fd.get(), buffer.data(), buffer.size());
  if (n < 0 && errno == EINTR) return true;
  if (n <= 0) {
    fd.Reset();
  } else {
    text.append(buffer.data(), static_cast<size_t>(n));
  }
  return text.size() <= kMaxOutputBytes;
}

Status ReadBoth(Pipe& out, Pipe& err, ProgramEnd& end, const SshLimit& limit) {
  while (out.read_end.is_valid() || err.read_end.is_valid()) {
    std::array<pollfd, 3> fds = {{{out.read_end.get(), POLLIN, 0},
                                  {err.read_end.get(), POLLIN, 0},
                                  {limit.cancel_fd, POLLIN, 0}}};
    const auto rest = std::chrono::ceil<std::chrono::milliseconds>(limit.Remaining());
    const int ready =
        ::poll(fds.data(), fds.size(), static_cast<int>(std::min<int64_t>(rest.count(), 1 << 30)));
    if (ready < 0 && errno == EINTR) continue;
    if (ready < 0) return ErrnoStatus("poll", errno);
    if (fds[2].revents != 0) return {ErrorCode::kCancelled, "called off"};
    if (ready == 0) return {ErrorCode::kConnectTimeout, "no answer in time"};
    bool is_short = true;
    if (fds[0].revents != 0) is_short = Drain(out.read_end, end.output);
    if (fds[1].revents != 0) is_short = Drain(err.read_end, end.errors) && is_short;
    if (!is_short) return {ErrorCode::kSpecInvalid, "its output has no end"};
  }
  return {};
}

Result<std::optional<ProgramEnd>> RunProgram(const std::vector<std::string>& argv,
                                             const SshLimit& limit) {
  HVDRAY_ASSIGN_OR_RETURN(Pipe out, MakePipe());
  HVDRAY_ASSIGN_OR_RETURN(Pipe err, MakePipe());
  HVDRAY_ASSIGN_OR_RETURN(const std::optional<pid_t> pid,
                          Spawn(argv, out.write_end.get(), err.write_end.get()));
  if (!pid) return std::optional<ProgramEnd>();
  out.write_end.Reset();
  err.write_end.Reset();
  ProgramEnd end;
  const Status read = ReadBoth(out, err, end, limit);
  if (!read.ok() && *pid > 1) ::kill(-*pid, SIGKILL);
  while (::waitpid(*pid, &end.wait_status, 0) < 0 && errno == EINTR) {
  }
  if (!read.ok()) return read;
  return std::optional<ProgramEnd>(std::move(end));
}

std::vector<std::string> SshGCommand(const std::string& program, const SshTarget& target,
                                     const SshOverrides& overrides, bool is_verbose) {
  std::vector<std::string> argv = {program, "-G"};
  if (is_verbose) argv.emplace_back("-v");
  const auto add = [&argv](const char* option, std::string value) {
    argv.insert(argv.end(), {option, std::move(value)});
  };
  if (!overrides.config_file.empty()) add("-F", overrides.config_file);
  if (!overrides.identity_file.empty()) add("-i", overrides.identity_file);
  const int port = target.port != 0 ? target.port : overrides.port;
  if (port != 0) add("-p", fmt::format("{}", port));
  if (!target.user.empty()) add("-l", target.user);
  add("--", target.host);
  return argv;
}

bool IsElf(const std::string& path) {
  const UniqueFd fd(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
  std::array<char, 4> magic{};
  return fd.is_valid() && ::read(fd.get(), magic.data(), magic.size()) == 4 &&
         std::string_view(magic.data(), magic.size()) ==
             "\x7f"
             "ELF";
}

}  // namespace

Result<std::optional<SshGOutput>> RunSshG(const std::string& program, const SshTarget& target,
                                          const SshOverrides& overrides, bool is_verbose,
                                          const SshLimit& limit) {
  const std::vector<std::string> argv = SshGCommand(program, target, overrides, is_verbose);
  Result<std::optional<ProgramEnd>> end = RunProgram(argv, limit);
  if (!end.ok()) return std::move(end).status().WithContext("ssh -G " + target.host);
  if (!*end) return std::optional<SshGOutput>();
  if ((*end)->wait_status != 0) {
    std::string said = (*end)->errors.substr(0, 400);
    while (said.ends_with('\n') || said.ends_with('\r')) said.pop_back();
    return Status(ErrorCode::kSpecInvalid,
                  fmt::format("ssh -G {}: {}", target.host, ShownLine(said)),
                  "mend the SSH configuration");
  }
  return std::optional<SshGOutput>({ParseSshG((*end)->output), std::move((*end)->errors)});
}

bool IsCompiledProgram(const std::string& program) {
  if (program.find('/') != std::string::npos) return IsElf(program);
  const std::string path = Environment::FromProcess().GetOr("PATH", "");
  for (std::string_view rest = path; !rest.empty();) {
    const std::string_view folder = rest.substr(0, rest.find(':'));
    rest.remove_prefix(std::min(folder.size() + 1, rest.size()));
    const std::string file = fmt::format("{}/{}", folder.empty() ? "." : folder, program);
    if (::access(file.c_str(), X_OK) == 0) return IsElf(file);
  }
  return false;
}

}  // namespace hvdray
