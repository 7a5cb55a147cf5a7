// What the words of a command say: whether they start a Python, and which script. Pure.
#ifndef HVDRAY_LAUNCHER_SPEC_COMMAND_WORDS_H_
#define HVDRAY_LAUNCHER_SPEC_COMMAND_WORDS_H_

#include <cstddef>
#include <span>
#include <string>
#include <string_view>

namespace hvdray {

/// The last part of `path` is exactly "python", "python3" or "python3.N": a program that answers
/// --version and -c. A name that only begins like that may be somebody's script.
bool IsPython(std::string_view path);

/// Index of the word of `command` that names the script for Python to run; 0: the command is no
/// Python, or runs -m, -c or what it reads from stdin.
/// Source: "Command line and environment" of the Python 3.11 documentation.
size_t PythonScriptOf(std::span<const std::string> command);

}  // namespace hvdray

#endif  // HVDRAY_LAUNCHER_SPEC_COMMAND_WORDS_H_
