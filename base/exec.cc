// SPDX-License-Identifier: Apache-2.0
#include "base/exec.h"

#include <fmt/format.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <filesystem>
#include <string_view>

#include "base/fd.h"
#include "base/signals.h"
#include "base/text.h"

namespace hvdray {

std::vector<char*> ExecArray(std::span<const std::string> texts,
                             std::span<const std::string> more) {
  std::vector<char*> pointers;
  pointers.reserve(texts.size() + more.size() + 1);
  for (const std::string& text : texts) pointers.push_back(const_cast<char*>(text.c_str()));
  for (const std::string& text : more) pointers.push_back(const_cast<char*>(text.c_str()));
  pointers.push_back(nullptr);
  return pointers;
}

namespace {

// The child is a zombie, or about to be one.
bool IsEnding(pid_t pid) {
  constexpr size_t kFlags = 6;        // after the state; proc(5)
  constexpr uint64_t kExiting = 0x4;  // PF_EXITING of the kernel's sched.h
  const std::string stat = ReadFile(fmt::format("/proc/{}/stat", pid), 8192).value_or("");
  const size_t name_end = stat.rfind(") ");
  if (name_end == std::string::npos) return false;
  const auto fields = BlankSeparated(std::string_view(stat).substr(name_end + 2), " ");
  const auto flags = fields.size() > kFlags ? ParseInteger<uint64_t>(fields[kFlags]) : std::nullopt;
  return flags && (*flags & kExiting) != 0;
}

// A signal to our process group may come before the child has left that. It stays pending until the
// child is about to become its program, so the child is ending once posix_spawn() returns. Then it
// is reaped, and another one is needed.
bool WasHitBeforeApart(pid_t pid) {
  if (!IsEnding(pid)) return false;
  siginfo_t end{};
  while (::waitid(P_PID, static_cast<id_t>(pid), &end, WEXITED | WNOWAIT) != 0) {
    if (errno != EINTR) return false;  // a handler without SA_RESTART ends the wait
  }
  const bool is_hit =
      end.si_code == CLD_KILLED && (end.si_status == SIGINT || end.si_status == SIGTERM ||
                                    end.si_status == SIGHUP || end.si_status == SIGQUIT);
  if (is_hit) ReapChild(pid);
  return is_hit;
}

}  // namespace

int SpawnApart(ApartAs as, const std::vector<std::string>& command, int in, int out, int err,
               pid_t& pid) {
  posix_spawn_file_actions_t actions{};
  posix_spawnattr_t attributes{};
  ::posix_spawn_file_actions_init(&actions);
  ::posix_spawnattr_init(&attributes);
  ::posix_spawn_file_actions_adddup2(&actions, in, STDIN_FILENO);
  ::posix_spawn_file_actions_adddup2(&actions, out, STDOUT_FILENO);
  if (err >= 0) ::posix_spawn_file_actions_adddup2(&actions, err, STDERR_FILENO);
  ::posix_spawn_file_actions_addclosefrom_np(&actions, STDERR_FILENO + 1);
  // This process ignores SIGPIPE, and its pool's threads block all signals.
  const sigset_t defaults = AllSignals();
  const sigset_t none = SignalSet({});
  ::posix_spawnattr_setsigdefault(&attributes, &defaults);
  ::posix_spawnattr_setsigmask(&attributes, &none);
  ::posix_spawnattr_setpgroup(&attributes, 0);
  ::posix_spawnattr_setflags(
      &attributes,
      static_cast<short>(POSIX_SPAWN_SETSIGDEF | POSIX_SPAWN_SETSIGMASK |
                         (as == ApartAs::kSession ? POSIX_SPAWN_SETSID : POSIX_SPAWN_SETPGROUP)));
  const std::vector<char*> argv = ExecArray(command);
  int error = 0;
  do {
    error = ::posix_spawnp(&pid, argv[0], &actions, &attributes, argv.data(), ::environ);
  } while (error == 0 && WasHitBeforeApart(pid));
  ::posix_spawn_file_actions_destroy(&actions);
  ::posix_spawnattr_destroy(&attributes);
  return error;
}

void ExecOrReport(char* const* argv, int report_fd) {
  ::execvp(argv[0], argv);
  const int error = errno;
  (void)!::write(report_fd, &error, sizeof error);
  ::_exit(127);
}

int AwaitExec(pid_t pid, Pipe report) {
  report.write_end.Reset();
  int error = 0;
  ssize_t got = 0;
  do {
    got = ::read(report.read_end.get(), &error, sizeof error);
  } while (got < 0 && errno == EINTR);
  if (got != sizeof error) return 0;  // closed by exec
  ReapChild(pid);
  return error;
}

int ReapChild(pid_t pid) {
  int status = 0;
  while (::waitpid(pid, &status, 0) < 0 && errno == EINTR) {
  }
  return status;
}

std::string OwnPath() {
  std::array<char, 4096> self{};
  const ssize_t length = ::readlink("/proc/self/exe", self.data(), self.size() - 1);
  return length <= 0 ? "hvdray" : std::string(self.data(), static_cast<size_t>(length));
}

std::string OwnPythonPath() {
  namespace fs = std::filesystem;
  std::error_code error;
  const fs::path folder = fs::read_symlink("/proc/self/exe", error).parent_path();
  for (const char* place :
       {"../../../python", "../lib/hvdray/python"}) {  // a build, an installed tree
    if (fs::exists(folder / place / "hvdray/__init__.py", error)) {
      return fs::canonical(folder / place, error).string();
    }
  }
  return {};
}

int ShellCode(int wait_status) {
  return WIFSIGNALED(wait_status) ? 128 + WTERMSIG(wait_status) : WEXITSTATUS(wait_status);
}

}  // namespace hvdray
