// SPDX-License-Identifier: Apache-2.0
// A lower bound for any launcher: calls posix_spawn N times, then waits N times.
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <vector>

int main(int argc, char** argv) {
  if (argc < 3) {
    std::fputs("usage: spawn_loop N COMMAND [ARG...]\n", stderr);
    return 2;
  }
  const long count = std::strtol(argv[1], nullptr, 10);
  std::vector<pid_t> children;
  for (long i = 0; i < count; ++i) {
    pid_t pid = -1;
    if (::posix_spawnp(&pid, argv[2], nullptr, nullptr, argv + 2, ::environ) != 0) return 1;
    children.push_back(pid);
  }
  int failures = 0;
  for (const pid_t pid : children) {
    int status = 0;
    if (::waitpid(pid, &status, 0) != pid || status != 0) ++failures;
  }
  return failures == 0 ? 0 : 1;
}
