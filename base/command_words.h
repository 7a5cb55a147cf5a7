// What a command says of itself: a Python and its script, the interpreter that a script names.
// Pure.
#ifndef HVDRAY_BASE_COMMAND_WORDS_H_
#define HVDRAY_BASE_COMMAND_WORDS_H_

#include <cstddef>
#include <span>
#include <string>
#include <string_view>

namespace hvdray {

/// The last part of `path` is exactly "python", "python3" or "python3.N": a program that answers
/// --version and -c. A name that only begins like that may be somebody's script.
bool IsPython(std::string_view path);

/// NAME=VALUE, as a shell takes it in front of a command.
bool IsAssignment(std::string_view word);

/// Index of the word of `command` that names the script for Python to run; 0: the command is no
/// Python, or runs -m, -c or what it reads from stdin.
/// Source: "Command line and environment" of the Python 3.11 documentation.
size_t PythonScriptOf(std::span<const std::string> command);

/// What the first line of a script names, as the kernel reads it: up to a blank, so that a DOS line
/// end belongs to it. `file`: its first bytes. Empty: no script. Source: execve(2).
std::string InterpreterOf(std::string_view file);

/// What to do about a script whose interpreter, as its first line names it, does not exist.
std::string InterpreterHint(std::string_view path, std::string_view interpreter);

/// What to do about a command that is no program; empty: nothing better than the general advice.
std::string CommandHint(std::string_view command);

}  // namespace hvdray

#endif  // HVDRAY_BASE_COMMAND_WORDS_H_
