// SPDX-License-Identifier: Apache-2.0
// Questions to whoever sits at the controlling terminal. A process has one of those at most, so
// this is the process's: questions of all its threads come one after the other.
#ifndef HVDRAY_BASE_TERMINAL_H_
#define HVDRAY_BASE_TERMINAL_H_

#include <cstdint>
#include <string>

#include "base/result.h"
#include "base/secret.h"
#include "base/types.h"

namespace hvdray {

enum class Echo : uint8_t { kOff, kOn };

struct TerminalQuestion {
  std::string text;  ///< May have several lines; what could move a cursor is shown as '?'.
  Echo echo = Echo::kOff;
  Duration limit = std::chrono::seconds(120);  ///< From its being shown.
  int cancel_fd = -1;                          ///< Readable: called off. -1: nobody can.
  bool erases_line = false;                    ///< Takes a line of progress away first.
};

/// There is a controlling terminal and we are in its foreground. Threads: any.
bool IsSomebodyAtTerminal();

/// Shows the question on the controlling terminal, whatever stdin and stdout are, and reads a line.
/// The terminal is as before on every way out, SIGQUIT and SIGABRT included; ^C stays SIGINT, ^Z
/// and ^\ do nothing meanwhile. Blocks. Threads: any; SIGTTIN and SIGTTOU are best blocked.
/// Errors: kNotSupported (nobody there), kCancelled (called off, end of input, no answer in time),
/// kSystem.
Result<Secret> AskAtTerminal(const TerminalQuestion& question);

/// Threads: any.
bool IsTerminalQuestionOpen();
/// From now on this process asks nothing; returns once the question that is open has ended, with
/// the terminal as it was. Threads: any.
void EndTerminalQuestions();
/// How long questions have been open so far, in all; the open one up to now. Threads: any.
Duration TimeOfTerminalQuestions();

}  // namespace hvdray

#endif  // HVDRAY_BASE_TERMINAL_H_
