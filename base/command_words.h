// SPDX-License-Identifier: Apache-2.0
// What a command line tells about a program: a Python and its script, the interpreter that a script
// names. Pure.
#ifndef HVDRAY_BASE_COMMAND_WORDS_H_
#define HVDRAY_BASE_COMMAND_WORDS_H_

#include <cstddef>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"

namespace hvdray {

/// The last part of `path` is exactly "python", "python3" or "python3.N": a program that takes
/// --version and -c. A longer name may be a user's script.
bool IsPython(std::string_view path);

/// In place of a command's program: the Python that Ray runs on the worker's node.
inline constexpr std::string_view kNodePython = "@python";

/// `word` is NAME=VALUE, as a shell accepts it before a command.
bool IsAssignment(std::string_view word);

/// Index of the word of `command` that names the script for Python to run; 0: the command is not
/// Python, or Python runs -m, -c or its stdin.
/// Source: "Command line and environment" of the Python 3.11 documentation.
size_t PythonScript(std::span<const std::string> command);

/// A command that makes Python run a program, taken apart.
struct PythonCall {
  std::vector<std::string> interpreter;  ///< The interpreter and its options, one a word.
  std::vector<std::string> program;      ///< "-m MODULE" or "-c CODE" or a script; its arguments.
  bool operator==(const PythonCall&) const = default;
};

/// Takes `command` apart by Python's own rules; kNodePython is Python. Errors: kUsage, if it is not
/// Python, or if Python would run no program (-V), read it from stdin, or go on interactively (-i).
/// Source: as PythonScript(); Python/getopt.c.
Result<PythonCall> ReadPythonCall(std::span<const std::string> command);

/// Of a file's beginning, enough for Interpreter().
inline constexpr size_t kInterpreterBytes = 4096;

/// The interpreter that the first line of a script names, or the loader that a program's header
/// names. The former ends at a blank, as for the kernel, so it includes the carriage return of a
/// DOS line end. `file`: the first bytes. Empty: none. Sources: execve(2), elf(5).
std::string Interpreter(std::string_view file);

/// A hint for the file at `path`, whose interpreter does not exist. `interpreter`: as Interpreter()
/// returns it; empty: not known.
std::string InterpreterHint(std::string_view path, std::string_view interpreter);

/// A hint for a command that a host could not execute. `is_missing`: no such file, there or on its
/// PATH. Empty: none better than the general one.
std::string CommandHint(std::string_view command, bool is_missing);

}  // namespace hvdray

#endif  // HVDRAY_BASE_COMMAND_WORDS_H_
