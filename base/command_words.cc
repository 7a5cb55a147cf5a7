// SPDX-License-Identifier: Apache-2.0
#include "base/command_words.h"

#include <elf.h>
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <cstring>

#include "base/text.h"

namespace hvdray {
namespace {

/// What a word of short options such as -uW means for the next word.
enum class Letters : uint8_t { kFlags, kTakeNext, kNoScript };

Letters ReadLetters(std::string_view word) {
  for (size_t i = 1; i < word.size(); ++i) {
    if (word[i] == 'c' || word[i] == 'm') return Letters::kNoScript;
    const bool takes_value = word[i] == 'W' || word[i] == 'X';
    if (takes_value) return i + 1 == word.size() ? Letters::kTakeNext : Letters::kFlags;
  }
  return Letters::kFlags;
}

/// Of a program of 64 bits; empty: none, or not within these bytes.
std::string Loader(std::string_view file) {
  const auto read = [file](size_t at, auto* header) {
    if (at > file.size() || file.size() - at < sizeof(*header)) return false;
    std::memcpy(header, file.data() + at, sizeof(*header));
    return true;
  };
  Elf64_Ehdr program{};
  if (!read(0, &program) || program.e_ident[EI_CLASS] != ELFCLASS64) return {};
  for (size_t i = 0; i < program.e_phnum; ++i) {
    Elf64_Phdr part{};
    if (!read(program.e_phoff + i * sizeof(part), &part)) return {};
    if (part.p_type != PT_INTERP || part.p_offset > file.size()) continue;
    const std::string_view text = file.substr(part.p_offset, part.p_filesz);
    const size_t end = text.find('\0');
    return std::string(end == std::string_view::npos ? std::string_view() : text.substr(0, end));
  }
  return {};
}

/// By its name, as it is on all of Linux: ld-linux-x86-64.so.2, ld-musl-aarch64.so.1.
bool IsLoader(std::string_view interpreter) {
  const std::string_view name = interpreter.substr(interpreter.rfind('/') + 1);
  return name.starts_with("ld") && name.find(".so") != std::string_view::npos;
}

}  // namespace

bool IsPython(std::string_view path) {
  std::string_view name = path.substr(path.rfind('/') + 1);
  if (name == "python" || name == "python3") return true;
  constexpr std::string_view kThree = "python3.";
  if (!name.starts_with(kThree)) return false;
  name.remove_prefix(kThree.size());
  return !name.empty() && name.find_first_not_of("0123456789") == std::string_view::npos;
}

bool IsAssignment(std::string_view word) {
  const std::string_view name = word.substr(0, word.find('='));
  const auto is_letter = [](char c) {
    return c == '_' || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
  };
  return name.size() < word.size() && !name.empty() && is_letter(name.front()) &&
         std::all_of(name.begin(), name.end(),
                     [&](char c) { return is_letter(c) || (c >= '0' && c <= '9'); });
}

size_t PythonScript(std::span<const std::string> command) {
  if (command.empty() || !IsPython(command[0])) return 0;
  for (size_t i = 1; i < command.size(); ++i) {
    const std::string_view word = command[i];
    if (word == "-") return 0;
    if (!word.starts_with('-')) return word.empty() ? 0 : i;
    if (word == "--") return i + 1 < command.size() ? i + 1 : 0;
    if (word == "--check-hash-based-pycs") {
      ++i;
    } else if (!word.starts_with("--")) {
      const Letters letters = ReadLetters(word);
      if (letters == Letters::kNoScript) return 0;
      if (letters == Letters::kTakeNext) ++i;
    }
  }
  return 0;
}

Result<PythonCall> ReadPythonCall(std::span<const std::string> command) {
  const auto refused = [](std::string message) {
    return Status(ErrorCode::kUsage, std::move(message), "python3 train.py");
  };
  if (command.empty() || (command[0] != kNodePython && !IsPython(command[0]))) {
    return refused(fmt::format("{} is not Python", ShownText(command.empty() ? "" : command[0])));
  }
  PythonCall call;
  call.interpreter.push_back(command[0]);
  size_t i = 1;
  for (; i < command.size(); ++i) {
    const std::string& word = command[i];
    if (word == "-" || word.empty() || !word.starts_with('-')) break;
    if (word == "--") {
      ++i;
      break;
    }
    if (word == "--check-hash-based-pycs" && i + 1 < command.size()) {
      call.interpreter.insert(call.interpreter.end(), {word, command[++i]});
      continue;
    }
    for (size_t at = 1; at < word.size(); ++at) {
      const char letter = word[at];
      const bool takes_value = letter == 'c' || letter == 'm' || letter == 'W' || letter == 'X';
      const std::string option{'-', letter};
      if (!takes_value) {
        constexpr std::string_view kFlags = "bBdEIOPqRsStuv";
        if (kFlags.find(letter) == std::string_view::npos) {
          return refused(fmt::format("{} {} runs no program that can begin warm",
                                     ShownText(command[0]), ShownText(word)));
        }
        call.interpreter.push_back(option);
        continue;
      }
      std::string value = word.substr(at + 1);
      if (value.empty() && i + 1 < command.size()) value = command[++i];
      if (letter == 'W' || letter == 'X') {
        call.interpreter.insert(call.interpreter.end(), {option, value});
        break;
      }
      call.program = {option, value};
      call.program.insert(call.program.end(), command.begin() + static_cast<ptrdiff_t>(i) + 1,
                          command.end());
      return call;
    }
  }
  call.program.assign(command.begin() + static_cast<ptrdiff_t>(std::min(i, command.size())),
                      command.end());
  if (call.program.empty() || call.program[0] == "-" || call.program[0].empty()) {
    return refused(fmt::format("{} reads its program from standard input", ShownText(command[0])));
  }
  return call;
}

std::string Interpreter(std::string_view file) {
  if (file.starts_with(ELFMAG)) return Loader(file);
  if (!file.starts_with("#!")) return {};
  std::string_view line = file.substr(2, file.find('\n') - 2);
  line.remove_prefix(std::min(line.find_first_not_of(" \t"), line.size()));
  return std::string(line.substr(0, line.find_first_of(" \t")));
}

std::string InterpreterHint(std::string_view path, std::string_view interpreter) {
  if (interpreter.empty()) {
    return fmt::format(
        "file {} names what it needs: a script's interpreter, or the loader of the "
        "system that it was built for",
        path);
  }
  if (IsLoader(interpreter)) {
    return fmt::format("{} was built for a system with {}: install that, or build the program here",
                       path, ShownText(interpreter));
  }
  if (!interpreter.ends_with('\r')) {
    return fmt::format(
        "the first line of {} names {}: fix it, or name the interpreter first: "
        "python train.py",
        path, ShownText(interpreter));
  }
  interpreter.remove_suffix(1);
  return fmt::format(
      "{0} has DOS line endings, so its first line names {1} and a carriage return: "
      "sed -i 's/\\r$//' {0}",
      path, ShownText(interpreter));
}

std::string CommandHint(std::string_view command, bool is_missing) {
  // A shell's own words, which newcomers take for programs; those that are programs as well are
  // not missing.
  constexpr auto kShellWords = std::to_array<std::string_view>(
      {"cd", "source", ".", "export", "set", "unset", "ulimit", "umask", "exec", "eval", "alias",
       "module", "for", "while", "if", "{", "("});
  if (is_missing && std::ranges::find(kShellWords, command) != kShellWords.end()) {
    return fmt::format("{} is a word of the shell, not a program: sh -c '{} ...'", command,
                       command);
  }
  if (is_missing && command.find('/') != std::string_view::npos) {
    return command.starts_with('/') ? "is there such a file on every host?"
                                    : "is the path right? It counts from the workers' directory, "
                                      "which --cwd sets";
  }
  if (is_missing && command == "python") return "many systems only have python3";
  if (!command.ends_with(".py")) return {};
  return fmt::format("name the interpreter before a Python script: python3 {}", ShownText(command));
}

}  // namespace hvdray
