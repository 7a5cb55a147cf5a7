// SPDX-License-Identifier: Apache-2.0
#include "tests/unit/agent/probe.h"

#include <dirent.h>
#include <fcntl.h>
#include <poll.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <cstdlib>
#include <cstring>
#include <map>

#include "agent/agent_main.h"
#include "base/exec.h"

namespace hvdray {
namespace {

void Say(const char* text) { (void)!::write(STDOUT_FILENO, text, ::strlen(text)); }

[[noreturn]] void WaitForever() {
  for (;;) ::pause();
}

// A process that forgets its parents: a session of its own, SIGTERM ignored. Says so through a pipe
// before this returns, so that no test has to guess.
void StartDaemon(bool is_forked_twice) {
  int ready[2];
  if (::pipe(ready) != 0) ::_exit(99);
  const pid_t child = ::fork();
  if (child == 0) {
    ::signal(SIGTERM, SIG_IGN);
    if (::setsid() < 0) ::_exit(98);
    if (is_forked_twice && ::fork() != 0) ::_exit(0);
    ::close(ready[0]);
    ::close(ready[1]);
    WaitForever();
  }
  ::close(ready[1]);
  char byte = 0;
  (void)!::read(ready[0], &byte, 1);
  ::close(ready[0]);
  // It has closed its end and may not have ended: an agent would find it as one orphan more.
  if (is_forked_twice) ::waitpid(child, nullptr, 0);
}

int CountOpenFiles() {
  int count = 0;
  DIR* directory = ::opendir("/proc/self/fd");
  while (::readdir(directory) != nullptr) ++count;
  ::closedir(directory);
  return count - 3;  // ".", ".." and the directory's own
}

// Exit code 0: what a fresh process expects; else which expectation failed.
int CheckHygiene() {
  if (CountOpenFiles() != 3) return 10 + CountOpenFiles();
  for (int signo = 1; signo < NSIG; ++signo) {
    struct sigaction action {};
    if (::sigaction(signo, nullptr, &action) != 0) continue;
    // A sanitizer has handlers of its own by now, but ignores nothing.
    const bool is_sanitizers = signo == SIGSEGV || signo == SIGBUS || signo == SIGFPE;
    if (action.sa_handler == SIG_IGN || (action.sa_handler != SIG_DFL && !is_sanitizers)) return 2;
  }
  sigset_t mask;
  ::sigprocmask(SIG_BLOCK, nullptr, &mask);
  for (int signo = 1; signo < NSIG; ++signo) {
    if (::sigismember(&mask, signo) == 1) return 3;
  }
  if (::getpgrp() != ::getpid()) return 4;
  int death_signal = 0;
  ::prctl(PR_GET_PDEATHSIG, &death_signal);
  if (death_signal != SIGKILL) return 5;
  struct stat in {};
  struct stat null {};
  if (::fstat(0, &in) != 0 || ::stat("/dev/null", &null) != 0 || in.st_rdev != null.st_rdev) {
    return 6;
  }
  return 0;
}

// `bytes` of a pattern whose every line tells its place.
int Flood(size_t bytes, int fd) {
  std::string block;
  for (int i = 0; block.size() < 65536; ++i) block += std::to_string(i % 10) + "abcdefghijklmn\n";
  while (bytes > 0) {
    const ssize_t n = ::write(fd, block.data(), std::min(bytes, block.size()));
    if (n <= 0) return 1;
    bytes -= static_cast<size_t>(n);
  }
  return 0;
}

int Cat() {
  char buffer[4096];
  for (;;) {
    const ssize_t n = ::read(STDIN_FILENO, buffer, sizeof buffer);
    if (n <= 0) return n == 0 ? 0 : 1;
    if (::write(STDOUT_FILENO, buffer, static_cast<size_t>(n)) != n) return 2;
  }
}

int StubbornWithChild() {
  ::signal(SIGINT, SIG_IGN);
  ::signal(SIGTERM, SIG_IGN);
  if (::fork() == 0) WaitForever();
  Say("ready\n");
  WaitForever();
}

// Ends at SIGTERM, but its child, in the same group, takes its time.
int QuickWithSlowChild() {
  int ready[2];
  if (::pipe(ready) != 0) return 99;
  if (::fork() == 0) {
    ::signal(SIGTERM, [](int) {
      ::usleep(100'000);
      Say("child has saved\n");
      ::_exit(0);
    });
    ::close(ready[0]);
    ::close(ready[1]);
    WaitForever();
  }
  ::close(ready[1]);
  char byte = 0;
  (void)!::read(ready[0], &byte, 1);
  Say("ready\n");
  WaitForever();
}

// As an actor of Ray: leads a group, has the agent as a child in it, holds its stdin. `words`: what
// the agent is started with; the key is in the first line of our own stdin.
int BeActor(int count, char** words) {
  ::setpgid(0, 0);
  int pipe[2];
  if (::pipe(pipe) != 0) return 99;
  const pid_t agent = ::fork();
  if (agent == 0) {
    ::dup2(pipe[0], STDIN_FILENO);
    ::close(pipe[0]);
    ::close(pipe[1]);
    ::_exit(AgentMain(count, words));
  }
  ::close(pipe[0]);
  ::signal(SIGTERM, SIG_IGN);  // before the agent can do anything without us
  char line[128];
  const ssize_t n = ::read(STDIN_FILENO, line, sizeof line);
  if (n <= 0 || ::write(pipe[1], line, static_cast<size_t>(n)) != n) return 98;
  // The end of our stdin is the end of the actor's interest in the agent; it may also end by
  // itself.
  pollfd ends[] = {{STDIN_FILENO, POLLIN, 0},
                   {static_cast<int>(::syscall(SYS_pidfd_open, agent, 0)), POLLIN, 0}};
  (void)!::poll(ends, 2, -1);
  ::close(pipe[1]);
  return ShellCode(ReapChild(agent));
}

// Writes until there is no memory left; only for a group with a limit.
int EatMemory() {
  constexpr size_t kBlock = size_t{1} << 20;
  // The first choice of the kernel, so that the watcher beside us stays.
  const int score = ::open("/proc/self/oom_score_adj", O_WRONLY);
  if (::write(score, "1000", 4) != 4) return 2;
  for (;;) {
    auto* block = static_cast<char*>(::malloc(kBlock));
    if (block == nullptr) return 1;
    ::memset(block, 1, kBlock);
  }
}

}  // namespace

std::vector<std::string> ProbeCommand(std::vector<std::string> words) {
  std::string self(4096, '\0');
  const ssize_t n = ::readlink("/proc/self/exe", self.data(), self.size());
  self.resize(n > 0 ? static_cast<size_t>(n) : 0);
  std::vector<std::string> command = {self, kProbeFlag};
  command.insert(command.end(), words.begin(), words.end());
  return command;
}

int RunProbe(int argc, char** argv) {
  const std::string verb = argc > 2 ? argv[2] : "";
  const char* word = argc > 3 ? argv[3] : "";
  if (verb == "agent") return AgentMain(1, argv);
  if (verb == "keeping-agent") {
    char option[] = "--keep-processes";
    char* words[] = {argv[0], option, nullptr};
    return AgentMain(2, words);
  }
  if (verb == "actor") return BeActor(argc - 2, argv + 2);
  if (verb == "exit") return ::atoi(word);
  if (verb == "raise") return ::raise(::atoi(word));
  if (verb == "hygiene") return CheckHygiene();
  if (verb == "flood") return Flood(static_cast<size_t>(::atoll(word)), STDOUT_FILENO);
  if (verb == "flood-both") {
    return Flood(static_cast<size_t>(::atoll(word)), STDERR_FILENO) +
           Flood(static_cast<size_t>(::atoll(word)), STDOUT_FILENO);
  }
  if (verb == "cat") return Cat();
  if (verb == "eat-memory") return EatMemory();
  if (verb == "folder") return ::access(word, F_OK) == 0 ? 0 : 1;
  if (verb == "invalid-bytes") {
    return ::write(STDOUT_FILENO, "\xff\xfe\0\x80tail", 8) == 8 ? 0 : 1;
  }
  if (verb == "environment") {
    for (char** entry = ::environ; *entry != nullptr; ++entry) {
      Say(*entry);
      Say("\n");
    }
    return 0;
  }
  if (verb == "wait") {
    Say("ready\n");
    WaitForever();
  }
  if (verb == "ignore-int") {
    ::signal(SIGINT, SIG_IGN);
    Say("ready\n");
    WaitForever();
  }
  if (verb == "close-output") {
    ::close(STDOUT_FILENO);
    ::close(STDERR_FILENO);
    WaitForever();
  }
  if (verb == "close-stdin") {
    ::close(STDIN_FILENO);
    Say("ready\n");
    WaitForever();
  }
  if (verb == "other-group") {
    // Into the group of a child: nobody is left in the worker's own.
    const pid_t child = ::fork();
    if (child == 0) WaitForever();
    ::setpgid(child, child);
    ::setpgid(0, child);
    Say("ready\n");
    WaitForever();
  }
  if (verb == "stubborn") return StubbornWithChild();
  if (verb == "slow-child") return QuickWithSlowChild();
  if (verb == "daemon" || verb == "double-fork") {
    StartDaemon(verb == "double-fork");
    Say("ready\n");
    if (::strcmp(word, "and-exit") == 0) return 0;
    WaitForever();
  }
  return 97;
}

}  // namespace hvdray
