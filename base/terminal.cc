// SPDX-License-Identifier: Apache-2.0
#include "base/terminal.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/eventfd.h>
#include <termios.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cerrno>
#include <mutex>
#include <optional>

#include "base/fd.h"
#include "base/text.h"

namespace hvdray {
namespace {

using Clock = std::chrono::steady_clock;

constexpr size_t kMaxAnswerBytes = 1023;
constexpr const char* kEraseLine = "\r\x1b[K";

std::mutex terminal_mutex;  // guards the terminal: held while a question is open

struct QuestionTimes {
  std::mutex mutex;  // guards the rest
  Duration spent{};
  std::optional<TimePoint> open_since;
};

QuestionTimes& Times() {
  static QuestionTimes times;
  return times;
}

/// Readable after EndTerminalQuestions().
int EndFd() {
  static const UniqueFd fd(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
  return fd.get();
}

class OpenQuestion {
 public:
  OpenQuestion() {
    const std::lock_guard lock(Times().mutex);
    Times().open_since = Clock::now();
  }
  ~OpenQuestion() {
    const std::lock_guard lock(Times().mutex);
    Times().spent += Clock::now() - *Times().open_since;
    Times().open_since.reset();
  }
  OpenQuestion(const OpenQuestion&) = delete;
  OpenQuestion& operator=(const OpenQuestion&) = delete;
};

// For the handler of a signal that ends the process during a question.
struct Restore {
  int fd = -1;
  termios before{};
};
Restore restore;
std::atomic<bool> is_restore_due = false;
static_assert(std::atomic<bool>::is_always_lock_free);

void RestoreAndDie(int signo) {
  if (is_restore_due.exchange(false)) ::tcsetattr(restore.fd, TCSANOW, &restore.before);
  ::signal(signo, SIG_DFL);
  ::raise(signo);
}

/// Sets the echo while it lives. Under terminal_mutex.
class TerminalMode {
 public:
  TerminalMode(int fd, bool is_shown) : fd_(fd) {
    if (::tcgetattr(fd, &before_) != 0) return;
    restore = {fd, before_};
    struct sigaction action {};
    action.sa_handler = &RestoreAndDie;
    for (size_t i = 0; i < kFatal.size(); ++i) ::sigaction(kFatal[i], &action, &old_[i]);
    is_restore_due = true;
    termios now = before_;
    now.c_lflag |= static_cast<tcflag_t>(ICANON | ISIG | ECHO);
    if (!is_shown) now.c_lflag &= ~static_cast<tcflag_t>(ECHO | ECHOE | ECHOK | ECHONL);
    // A process that ^Z stops or ^\ ends here would leave the terminal without echo.
    now.c_cc[VSUSP] = _POSIX_VDISABLE;
    now.c_cc[VQUIT] = _POSIX_VDISABLE;
    is_set_ = ::tcsetattr(fd, TCSAFLUSH, &now) == 0;
  }
  ~TerminalMode() {
    if (is_restore_due.exchange(false)) {
      (void)::tcsetattr(fd_, TCSAFLUSH, &before_);
      for (size_t i = 0; i < kFatal.size(); ++i) ::sigaction(kFatal[i], &old_[i], nullptr);
    }
  }
  TerminalMode(const TerminalMode&) = delete;
  TerminalMode& operator=(const TerminalMode&) = delete;
  bool is_set() const { return is_set_; }

 private:
  static constexpr std::array<int, 2> kFatal = {SIGQUIT, SIGABRT};
  const int fd_;
  termios before_{};
  std::array<struct sigaction, kFatal.size()> old_{};
  bool is_set_ = false;
};

UniqueFd OpenTerminal() {
  UniqueFd fd(::open("/dev/tty", O_RDWR | O_CLOEXEC | O_NOCTTY));
  // In the background, a read would stop this process or fail.
  if (fd.is_valid() && ::tcgetpgrp(fd.get()) != ::getpgrp()) fd.Reset();
  return fd;
}

/// The question with each line made safe to show: a remote host may have sent it.
std::string Harmless(std::string_view text) {
  std::string shown;
  for (;;) {
    const size_t end = std::min(text.find('\n'), text.size());
    shown += ShownLine(text.substr(0, end));
    if (end == text.size()) return shown;
    shown += '\n';
    text.remove_prefix(end + 1);
  }
}

Status NoAnswer(const char* why) { return {ErrorCode::kCancelled, why}; }

Status WaitForKey(int fd, const TerminalQuestion& question, TimePoint deadline) {
  for (;;) {
    std::array<pollfd, 3> fds = {{{.fd = fd, .events = POLLIN, .revents = 0},
                                  {question.cancel_fd, POLLIN, 0},
                                  {EndFd(), POLLIN, 0}}};
    const auto rest = std::chrono::ceil<std::chrono::milliseconds>(deadline - Clock::now());
    const int rest_ms = static_cast<int>(std::clamp<int64_t>(rest.count(), 0, 1 << 30));
    const int ready = ::poll(fds.data(), fds.size(), rest_ms);
    if (ready < 0 && errno != EINTR) return ErrnoStatus("poll", errno);
    if (ready == 0) return NoAnswer("no answer in time");
    if (ready < 0) continue;
    if (fds[1].revents != 0 || fds[2].revents != 0) return NoAnswer("cancelled");
    return {};
  }
}

bool IsCancelled(const TerminalQuestion& question) {
  std::array<pollfd, 2> fds = {{{question.cancel_fd, POLLIN, 0}, {EndFd(), POLLIN, 0}}};
  return ::poll(fds.data(), fds.size(), 0) > 0;
}

/// One line without its end; the terminal delivers whole lines.
Result<Secret> ReadLine(int fd, const TerminalQuestion& question) {
  struct Buffer {
    std::array<char, kMaxAnswerBytes + 1> bytes{};
    ~Buffer() { ::explicit_bzero(bytes.data(), bytes.size()); }
  } buffer;
  const TimePoint deadline = Clock::now() + question.limit;
  size_t size = 0;
  while (size < buffer.bytes.size()) {
    HVDRAY_RETURN_IF_ERROR(WaitForKey(fd, question, deadline));
    const ssize_t n = ::read(fd, buffer.bytes.data() + size, buffer.bytes.size() - size);
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) return NoAnswer("no answer: the terminal's input ended");
    size += static_cast<size_t>(n);
    if (buffer.bytes[size - 1] == '\n') return Secret({buffer.bytes.data(), size - 1});
  }
  return NoAnswer("the answer is too long");
}

}  // namespace

bool IsUserAtTerminal() { return OpenTerminal().is_valid(); }

Result<Secret> AskAtTerminal(const TerminalQuestion& question) {
  const std::lock_guard lock(terminal_mutex);
  if (IsCancelled(question)) return NoAnswer("cancelled");
  const UniqueFd terminal = OpenTerminal();
  if (!terminal.is_valid()) return Status(ErrorCode::kNotSupported, "no terminal to ask at");
  const OpenQuestion open;
  const TerminalMode mode(terminal.get(), question.is_shown);
  if (!mode.is_set()) return ErrnoStatus("tcsetattr", errno);
  const std::string shown = (question.erases_line ? kEraseLine : "") + Harmless(question.text);
  HVDRAY_RETURN_IF_ERROR(WriteAll(terminal.get(), shown));
  Result<Secret> answer = ReadLine(terminal.get(), question);
  // Without echo, the line's end was not shown either.
  if (!answer.ok() || !question.is_shown) (void)WriteAll(terminal.get(), "\n");
  return answer;
}

bool AskForYes(const std::string& question) {
  TerminalQuestion asked;
  asked.text = question;
  asked.is_shown = true;
  asked.limit = std::chrono::hours(1);
  const Result<Secret> said = AskAtTerminal(asked);
  const std::string word = said.ok() ? Lower(Trimmed(said->view())) : "";
  return word == "y" || word == "yes";
}

bool IsTerminalQuestionOpen() {
  const std::lock_guard lock(Times().mutex);
  return Times().open_since.has_value();
}

void EndTerminalQuestions() {
  const uint64_t one = 1;
  (void)WriteAll(EndFd(), ByteView(reinterpret_cast<const char*>(&one), sizeof one));
  const std::lock_guard lock(terminal_mutex);
}

Duration TimeOfTerminalQuestions() {
  const std::lock_guard lock(Times().mutex);
  const auto& since = Times().open_since;
  return Times().spent + (since ? Duration(Clock::now() - *since) : Duration::zero());
}

}  // namespace hvdray
