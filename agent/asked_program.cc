#include "agent/asked_program.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <poll.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <chrono>
#include <csignal>

#include "base/fd.h"

extern char** environ;

namespace hvdray {
namespace {

constexpr size_t kMaxText = size_t{64} << 10;

/// As execve wants it; points into `texts`.
std::vector<char*> PointersTo(const std::vector<std::string>& texts) {
  std::vector<char*> pointers;
  pointers.reserve(texts.size() + 1);
  for (const std::string& text : texts) pointers.push_back(const_cast<char*>(text.c_str()));
  pointers.push_back(nullptr);
  return pointers;
}

Result<pid_t> Start(const std::vector<std::string>& argv, const AskedPlace& place, int output_fd) {
  const std::vector<char*> words = PointersTo(argv);
  const std::vector<char*> variables = PointersTo(place.environment);
  posix_spawn_file_actions_t actions;
  ::posix_spawn_file_actions_init(&actions);
  ::posix_spawn_file_actions_addopen(&actions, STDIN_FILENO, "/dev/null", O_RDONLY, 0);
  ::posix_spawn_file_actions_adddup2(&actions, output_fd, STDOUT_FILENO);
  ::posix_spawn_file_actions_adddup2(&actions, output_fd, STDERR_FILENO);
  if (!place.folder.empty()) {
    ::posix_spawn_file_actions_addchdir_np(&actions, place.folder.c_str());
  }
  pid_t pid = -1;
  const int error = ::posix_spawn(&pid, argv[0].c_str(), &actions, nullptr, words.data(),
                                  place.environment.empty() ? environ : variables.data());
  ::posix_spawn_file_actions_destroy(&actions);
  if (error != 0) return ErrnoStatus(argv[0], error);
  return pid;
}

/// False: the time was over.
bool ReadToEnd(int fd, TimePoint deadline, std::string& text) {
  std::array<char, 4096> buffer;
  for (;;) {
    const auto left = std::chrono::ceil<std::chrono::milliseconds>(
        deadline - TimePoint(std::chrono::steady_clock::now()));
    if (left.count() <= 0) return false;
    pollfd wait{fd, POLLIN, 0};
    if (::poll(&wait, 1, static_cast<int>(left.count())) <= 0) continue;
    const ssize_t n = ::read(fd, buffer.data(), buffer.size());
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) return true;
    text.append(buffer.data(), std::min(static_cast<size_t>(n), kMaxText - text.size()));
  }
}

}  // namespace

Result<ProgramAnswer> AskProgram(const std::vector<std::string>& argv, Duration limit,
                                 const AskedPlace& place) {
  HVDRAY_ASSIGN_OR_RETURN(Pipe pipe, MakePipe());
  HVDRAY_ASSIGN_OR_RETURN(const pid_t pid, Start(argv, place, pipe.write_end.get()));
  pipe.write_end.Reset();
  ProgramAnswer answer;
  const TimePoint deadline = TimePoint(std::chrono::steady_clock::now()) + limit;
  if (!ReadToEnd(pipe.read_end.get(), deadline, answer.text)) {
    // One that hangs in a driver does not even die: it is not waited for.
    ::kill(pid, SIGKILL);
    ::waitpid(pid, nullptr, WNOHANG);
    return Status(ErrorCode::kDeadlineExceeded, fmt::format("{} did not end in time", argv[0]));
  }
  int status = 0;
  while (::waitpid(pid, &status, 0) < 0 && errno == EINTR) {
  }
  answer.exit_code = WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status);
  return answer;
}

}  // namespace hvdray
