// SPDX-License-Identifier: Apache-2.0
// Questions to the user at the controlling terminal. A process has at most one, so this is global
// state of the process: questions from all threads are asked one after another. Threads: any.
#ifndef HVDRAY_BASE_TERMINAL_H_
#define HVDRAY_BASE_TERMINAL_H_

#include <string>

#include "base/result.h"
#include "base/secret.h"
#include "base/types.h"

namespace hvdray {

/// A question, and how to ask it.
struct TerminalQuestion {
  std::string text;       ///< May have several lines. Shown as ShownLine() makes each.
  bool is_shown = false;  ///< Echo the answer.
  Duration limit = std::chrono::seconds(120);  ///< From when it is shown.
  int cancel_fd = -1;        ///< Cancels the question once readable; -1: nothing does.
  bool erases_line = false;  ///< First erases the line that the cursor is on.
};

/// Whether there is a controlling terminal with this process in its foreground.
bool IsUserAtTerminal();

/// Shows the question on the controlling terminal, whatever stdin and stdout are, and reads one
/// line of at most 1,023 bytes. Restores the terminal in every case, also on SIGQUIT and SIGABRT.
/// ^C stays SIGINT; ^Z and ^\ do nothing meanwhile. Blocks, also for questions of other threads.
/// The caller should block SIGTTIN and SIGTTOU. Errors: kNotSupported (no user there), kCancelled
/// (cancelled, end of input, no answer in time, too long), kSystem.
Result<Secret> AskAtTerminal(const TerminalQuestion& question);

/// Asks for "y" or "yes", whatever else is answered is no; waits for an hour. Blocks.
bool AskForYes(const std::string& question);

/// A question of any thread is on the terminal now and waits for its answer. Threads: any.
bool IsTerminalQuestionOpen();
/// Cancels the open question and all later ones. Returns once the open one has ended and the
/// terminal is restored.
void EndTerminalQuestions();
/// How long questions have been open in total, including the open one so far.
Duration TimeOfTerminalQuestions();

}  // namespace hvdray

#endif  // HVDRAY_BASE_TERMINAL_H_
