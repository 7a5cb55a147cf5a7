// SPDX-License-Identifier: Apache-2.0
// Questions at a real (pseudo) terminal, asked by a child process, for one process has one of them.
#include "base/terminal.h"

#include <gtest/gtest.h>
#include <signal.h>

#include "tests/fakes/pseudo_terminal.h"

namespace hvdray {
namespace {

constexpr int kNobody = 40;
constexpr int kCancelled = 41;
constexpr int kWrongState = 42;

/// The exit code of a child that asked: 0 when the answer is `wanted`.
int Ask(const TerminalQuestion& question, const std::string& wanted) {
  const Result<Secret> answer = AskAtTerminal(question);
  if (answer.ok()) return answer->view() == wanted ? 0 : 1;
  return answer.status().code() == ErrorCode::kNotSupported ? kNobody : kCancelled;
}

int ExitCode(int wait_status) { return WIFEXITED(wait_status) ? WEXITSTATUS(wait_status) : -1; }

TEST(TerminalTest, AnAnswerIsReadAndNotShown) {
  PseudoTerminal terminal([] { return Ask({.text = "password: "}, "swordfish"); });
  ASSERT_TRUE(terminal.Expect("password: "));
  EXPECT_FALSE(terminal.is_echo_on());
  terminal.Type("swordfish\n");
  EXPECT_EQ(ExitCode(terminal.Wait()), 0) << terminal.shown();
  EXPECT_EQ(terminal.shown(), "password: \r\n");
}

TEST(TerminalTest, AnAnswerThatMayBeSeenIsShown) {
  PseudoTerminal terminal([] { return Ask({.text = "name: ", .is_shown = true}, "eva"); });
  ASSERT_TRUE(terminal.Expect("name: "));
  terminal.Type("eva\n");
  EXPECT_EQ(ExitCode(terminal.Wait()), 0);
  EXPECT_EQ(terminal.shown(), "name: eva\r\n");
}

TEST(TerminalTest, WhatIsTypedBeforeTheQuestionIsNoAnswer) {
  PseudoTerminal terminal([] {
    char byte = 0;
    (void)!::write(STDOUT_FILENO, "ready", 5);
    (void)!::read(STDIN_FILENO, &byte, 1);  // "early" is in the terminal's queue by now
    return Ask({.text = "password: "}, "late");
  });
  ASSERT_TRUE(terminal.Expect("ready"));
  terminal.Type("early\nearly\n");
  ASSERT_TRUE(terminal.Expect("password: "));
  terminal.Type("late\n");
  EXPECT_EQ(ExitCode(terminal.Wait()), 0);
}

TEST(TerminalTest, AQuestionCannotMoveTheCursor) {
  PseudoTerminal terminal([] { return Ask({.text = "a\x1b[2J\x07 b\x9b\nc: "}, ""); });
  ASSERT_TRUE(terminal.Expect("c: "));
  terminal.Type("\n");
  EXPECT_EQ(ExitCode(terminal.Wait()), 0);
  EXPECT_EQ(terminal.shown(), "a b\\x9b\r\nc: \r\n");
}

TEST(TerminalTest, EndOfInputAndAnswersWithoutEndAreNone) {
  const std::string end = "\x04";
  const std::string too_long(1024, 'x');
  for (const std::string& typed : std::vector<std::string>{end, too_long + end}) {
    PseudoTerminal terminal([] { return Ask({.text = "password: "}, ""); });
    ASSERT_TRUE(terminal.Expect("password: "));
    terminal.Type(typed);
    EXPECT_EQ(ExitCode(terminal.Wait()), kCancelled);
  }
}

TEST(TerminalTest, TheTerminalIsAsBeforeWhenTheQuestionIsCalledOff) {
  Pipe cancel = MakePipe().value();
  Pipe done = MakePipe().value();
  PseudoTerminal terminal([&] {
    cancel.write_end.Reset();
    done.write_end.Reset();
    const int code = Ask({.text = "password: ", .cancel_fd = cancel.read_end.get()}, "");
    char byte = 0;
    (void)!::write(STDOUT_FILENO, "off", 3);
    (void)!::read(done.read_end.get(), &byte, 1);  // the terminal's mode goes with its last user
    return code;
  });
  ASSERT_TRUE(terminal.Expect("password: "));
  EXPECT_FALSE(terminal.is_echo_on());
  cancel.write_end.Reset();
  ASSERT_TRUE(terminal.Expect("off"));
  EXPECT_TRUE(terminal.is_echo_on());
  done.write_end.Reset();
  EXPECT_EQ(ExitCode(terminal.Wait()), kCancelled);
}

TEST(TerminalTest, ASignalThatEndsTheProcessRestoresTheTerminalFirst) {
  for (const int signo : {SIGQUIT, SIGABRT}) {
    Pipe hold = MakePipe().value();
    PseudoTerminal terminal([&] {
      // A child of the child keeps the terminal open to be looked at.
      if (::fork() == 0) {
        hold.write_end.Reset();
        ::signal(SIGHUP, SIG_IGN);
        char byte = 0;
        (void)!::read(hold.read_end.get(), &byte, 1);
        ::_exit(0);
      }
      return Ask({.text = "password: "}, "");
    });
    ASSERT_TRUE(terminal.Expect("password: "));
    EXPECT_FALSE(terminal.is_echo_on());
    ::kill(terminal.pid(), signo);
    siginfo_t info{};
    ::waitid(P_PID, static_cast<id_t>(terminal.pid()), &info, WEXITED | WNOWAIT);
    EXPECT_EQ(info.si_status, signo);
    EXPECT_TRUE(terminal.is_echo_on());
    hold.write_end.Reset();
    (void)terminal.Wait();
  }
}

TEST(TerminalTest, KeysThatWouldStopUsInTheMiddleDoNothing) {
  PseudoTerminal terminal([] { return Ask({.text = "password: "}, "a\x1a\x1c"); });
  ASSERT_TRUE(terminal.Expect("password: "));
  terminal.Type("a\x1a\x1c\n");
  EXPECT_EQ(ExitCode(terminal.Wait()), 0);
}

TEST(TerminalTest, ControlCIsASignalAsEver) {
  PseudoTerminal terminal([] { return Ask({.text = "password: "}, ""); });
  ASSERT_TRUE(terminal.Expect("password: "));
  terminal.Type("\x03");
  const int status = terminal.Wait();
  EXPECT_TRUE(WIFSIGNALED(status) && WTERMSIG(status) == SIGINT);
}

TEST(TerminalTest, NobodyIsThereWithoutAControllingTerminalOrInItsBackground) {
  PseudoTerminal without([] {
    // A session of one's own has no terminal.
    const pid_t child = ::fork();
    if (child == 0) {
      ::setsid();
      ::_exit(IsUserAtTerminal() ? 0 : Ask({.text = "?"}, ""));
    }
    int status = 0;
    ::waitpid(child, &status, 0);
    return ExitCode(status);
  });
  EXPECT_EQ(ExitCode(without.Wait()), kNobody);
  PseudoTerminal background([] {
    const pid_t child = ::fork();
    if (child == 0) {
      ::setpgid(0, 0);
      ::_exit(IsUserAtTerminal() ? 0 : Ask({.text = "?"}, ""));
    }
    int status = 0;
    ::waitpid(child, &status, 0);
    return ExitCode(status);
  });
  EXPECT_EQ(ExitCode(background.Wait()), kNobody);
  PseudoTerminal there([] { return IsUserAtTerminal() ? 0 : 1; });
  EXPECT_EQ(ExitCode(there.Wait()), 0);
}

TEST(TerminalTest, TheTimeOfQuestionsAddsUpAndTheirEndIsForGood) {
  PseudoTerminal terminal([] {
    if (TimeOfTerminalQuestions() != Duration::zero() || IsTerminalQuestionOpen()) {
      return kWrongState;
    }
    const auto begun = std::chrono::steady_clock::now();
    if (Ask({.text = "first: "}, "a") != 0) return 1;
    const Duration spent = TimeOfTerminalQuestions();
    if (spent <= Duration::zero() || spent > std::chrono::steady_clock::now() - begun) {
      return kWrongState;
    }
    if (TimeOfTerminalQuestions() != spent || IsTerminalQuestionOpen()) return kWrongState;
    EndTerminalQuestions();
    return Ask({.text = "second: "}, "");
  });
  ASSERT_TRUE(terminal.Expect("first: "));
  terminal.Type("a\n");
  EXPECT_EQ(ExitCode(terminal.Wait()), kCancelled);
  EXPECT_EQ(terminal.shown().find("second"), std::string::npos);
}

TEST(SecretTest, ACopyHasToBeAskedForAndEndsWithNul) {
  Secret secret("swordfish");
  const Secret copy = secret.Copy();
  const Secret moved = std::move(secret);
  EXPECT_EQ(copy.view(), "swordfish");
  EXPECT_STREQ(moved.c_str(), "swordfish");
  EXPECT_EQ(Secret().view(), "");
  EXPECT_STREQ(Secret().c_str(), "");
}

}  // namespace
}  // namespace hvdray
