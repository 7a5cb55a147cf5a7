// SPDX-License-Identifier: Apache-2.0
// A terminal with a test at its keyboard.
#ifndef HVDRAY_TESTS_FAKES_PSEUDO_TERMINAL_H_
#define HVDRAY_TESTS_FAKES_PSEUDO_TERMINAL_H_

#include <poll.h>
#include <pty.h>
#include <sys/wait.h>
#include <termios.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <functional>
#include <string>

#include "base/fd.h"
#include "base/status.h"

namespace hvdray {

/// Runs a function in a child process of its own session, with this terminal as the controlling
/// one; its exit code is what the function returns.
class PseudoTerminal {
 public:
  explicit PseudoTerminal(const std::function<int()>& run) {
    int master = -1;
    pid_ = ::forkpty(&master, nullptr, nullptr, nullptr);
    HVDRAY_CHECK(pid_ >= 0);
    if (pid_ == 0) ::_exit(run());
    master_.Reset(master);
  }
  ~PseudoTerminal() {
    if (pid_ <= 1) return;
    ::kill(pid_, SIGKILL);
    (void)Wait();
  }
  PseudoTerminal(const PseudoTerminal&) = delete;
  PseudoTerminal& operator=(const PseudoTerminal&) = delete;

  pid_t pid() const { return pid_; }

  /// Waits until `text` has been shown. False: the child ended, or half a minute has passed.
  bool Expect(const std::string& text) {
    while (shown_.find(text) == std::string::npos) {
      if (!ReadSome()) return false;
    }
    return true;
  }
  void Type(const std::string& text) const { HVDRAY_CHECK(WriteAll(master_.get(), text).ok()); }

  bool is_echo_on() const {
    termios mode{};
    HVDRAY_CHECK(::tcgetattr(master_.get(), &mode) == 0);
    return (mode.c_lflag & ECHO) != 0;
  }

  /// The wait status of the child; shown() is then all it has shown.
  int Wait() {
    while (ReadSome()) {
    }
    int status = -1;
    while (::waitpid(pid_, &status, 0) < 0 && errno == EINTR) {
    }
    pid_ = -1;
    return status;
  }
  const std::string& shown() const { return shown_; }

 private:
  bool ReadSome() {
    pollfd fd = {.fd = master_.get(), .events = POLLIN, .revents = 0};
    if (::poll(&fd, 1, 30'000) != 1) return false;
    std::array<char, 4096> buffer;
    const ssize_t n = ::read(master_.get(), buffer.data(), buffer.size());
    if (n <= 0) return false;  // EIO: nobody has the terminal any more
    shown_.append(buffer.data(), static_cast<size_t>(n));
    return true;
  }

  UniqueFd master_;
  pid_t pid_ = -1;
  std::string shown_;
};

}  // namespace hvdray

#endif  // HVDRAY_TESTS_FAKES_PSEUDO_TERMINAL_H_
