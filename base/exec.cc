// SPDX-License-Identifier: Apache-2.0
#include "base/exec.h"

#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>

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

int ShellCodeOf(int wait_status) {
  return WIFSIGNALED(wait_status) ? 128 + WTERMSIG(wait_status) : WEXITSTATUS(wait_status);
}

}  // namespace hvdray
