// SPDX-License-Identifier: Apache-2.0
#include "launcher/cluster/start_line.h"

#include <algorithm>
#include <array>
#include <cstddef>
#include <vector>

#include "base/text.h"

namespace hvdray {
namespace {

/// A word of a shell line, or of a word that is a line itself.
struct Word {
  size_t begin = 0;
  size_t end = 0;
};

/// What stands between `;`, `&&`, `|`, `(` and the like. `words`: at least one.
struct SimpleCommand {
  std::vector<Word> words;
  size_t begin() const { return words.front().begin; }
  size_t end() const { return words.back().end; }
};

template <size_t kCount>
bool IsOneOf(std::string_view word, const std::array<std::string_view, kCount>& list) {
  return std::ranges::find(list, word) != list.end();
}

constexpr int kMaxDepth = 100;  // of quotes in quotes; nobody writes three

/// Behind the quoted or bracketed text that begins at `at`; `at` + 1: none begins there.
size_t SkipQuoted(std::string_view line, size_t at, int depth = 0) {
  const char quote = line[at];
  const bool is_call = quote == '$' && at + 1 < line.size() && line[at + 1] == '(';
  if (quote == '\\') return std::min(at + 2, line.size());
  const bool is_quote = quote == '\'' || quote == '"' || quote == '`' || is_call;
  if (!is_quote || depth == kMaxDepth) return at + 1;
  size_t next = at + (is_call ? 2 : 1);
  const char end = is_call ? ')' : quote;
  while (next < line.size() && line[next] != end) {
    // Within '…' nothing has a meaning, and within "…" that quote has none.
    const bool is_text = quote == '\'' || (line[next] == '\'' && !is_call);
    next = is_text ? next + 1 : SkipQuoted(line, next, depth + 1);
  }
  return std::min(next + 1, line.size());
}

std::vector<SimpleCommand> CommandsOf(std::string_view line) {
  std::vector<SimpleCommand> commands(1);
  size_t at = 0;
  bool is_in_word = false;
  const auto take = [&](size_t to) {
    if (!is_in_word) commands.back().words.push_back({at, at});
    is_in_word = true;
    commands.back().words.back().end = at = to;
  };
  while (at < line.size()) {
    const char c = line[at];
    const char before = at == 0 ? '\0' : line[at - 1];
    const char after = at + 1 < line.size() ? line[at + 1] : '\0';
    const bool is_redirection = c == '&' && (before == '>' || before == '<' || after == '>');
    if (c == ' ' || c == '\t' || c == '\r') {
      is_in_word = false;
      ++at;
    } else if (c == '#' && !is_in_word) {
      at = std::min(line.find('\n', at), line.size());
    } else if (std::string_view(";&|()\n").find(c) != std::string_view::npos && !is_redirection) {
      is_in_word = false;
      ++at;
      if (!commands.back().words.empty()) commands.emplace_back();
    } else {
      take(SkipQuoted(line, at));
    }
  }
  if (commands.back().words.empty()) commands.pop_back();
  return commands;
}

/// The word without quotes around it or its parts.
std::string Plain(std::string_view line, const Word& word) {
  std::string text(line.substr(word.begin, word.end - word.begin));
  std::erase_if(text, [](char c) { return c == '"' || c == '\''; });
  return text;
}

std::string_view BaseName(std::string_view word) { return word.substr(word.rfind('/') + 1); }

bool IsAssignment(std::string_view word) {
  const size_t equals = word.find('=');
  return equals != std::string_view::npos && equals > 0 &&
         std::ranges::all_of(word.substr(0, equals), [](char c) {
           return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
                  c == '_';
         });
}

bool IsReserved(std::string_view word) {
  constexpr std::array<std::string_view, 10> kWords = {"!",  "if", "then",  "else",  "elif",
                                                       "do", "{",  "while", "until", "time"};
  return IsOneOf(word, kWords);
}

/// A command's words in plain text, without reserved ones before it.
struct PlainCommand {
  std::vector<std::string> words;
  size_t first = 0;  ///< Index of words[0] in the SimpleCommand.
};

PlainCommand PlainOf(std::string_view line, const SimpleCommand& command) {
  PlainCommand plain;
  while (plain.first < command.words.size() &&
         IsReserved(Plain(line, command.words[plain.first]))) {
    ++plain.first;
  }
  for (size_t i = plain.first; i < command.words.size(); ++i) {
    plain.words.push_back(Plain(line, command.words[i]));
  }
  return plain;
}

/// Index of the word that is Ray's program, which is told to do `what`; nullopt: none is.
std::optional<size_t> FindRay(const std::vector<std::string>& words, std::string_view what) {
  // They only name what follows.
  constexpr std::array<std::string_view, 12> kTalk = {"echo",  "printf", "logger", "grep",
                                                      "pgrep", "pkill",  "which",  "type",
                                                      "test",  "[",      "[[",     "export"};
  if (!words.empty() && IsOneOf(words[0], kTalk)) return std::nullopt;
  for (size_t i = 0; i + 1 < words.size(); ++i) {
    if (BaseName(words[i]) != "ray" && words[i] != "ray.scripts.scripts") continue;
    size_t verb = i + 1;
    while (verb + 1 < words.size() && words[verb].starts_with("--")) ++verb;
    if (words[verb] == what) return i;
  }
  return std::nullopt;
}

/// Index of the word that a `bash -c` takes as its line; nullopt: it is no such command.
std::optional<size_t> FindInnerLine(const std::vector<std::string>& words) {
  constexpr std::array<std::string_view, 4> kShells = {"bash", "sh", "zsh", "dash"};
  for (size_t i = 0; i + 2 < words.size(); ++i) {
    if (!IsOneOf(BaseName(words[i]), kShells)) continue;
    for (size_t option = i + 1; option + 1 < words.size() && words[option].starts_with('-');
         ++option) {
      if (!words[option].starts_with("--") && words[option].ends_with('c')) return option + 1;
    }
  }
  return std::nullopt;
}

/// The text within the quotes of a word that has them around it and nothing to undo inside.
std::optional<Word> InsideQuotes(std::string_view line, const Word& word) {
  if (word.end - word.begin < 2) return std::nullopt;
  const char quote = line[word.begin];
  const std::string_view inside = line.substr(word.begin + 1, word.end - word.begin - 2);
  const bool is_quoted = (quote == '\'' || quote == '"') && line[word.end - 1] == quote;
  if (!is_quoted || inside.find(quote) != std::string_view::npos) return std::nullopt;
  if (quote == '"' && inside.find_first_of("\\`") != std::string_view::npos) return std::nullopt;
  return Word{word.begin + 1, word.end - 1};
}

/// What another command of the line means for where Ray is.
enum class Influence : uint8_t { kSetsIt, kNone, kUnknown };

Influence InfluenceOf(const std::vector<std::string>& words) {
  constexpr std::array<std::string_view, 14> kSetters = {
      "export", "source", ".",     "conda", "mamba", "micromamba", "module",
      "ml",     "eval",   "spack", "pyenv", "cd",    "pushd",      "declare"};
  constexpr std::array<std::string_view, 18> kNeutral = {
      "ulimit", "ray",   "echo",  "mkdir", "rm",   "sleep", "true", "false", ":",
      "umask",  "pkill", "touch", "chmod", "sudo", "cp",    "ln",   "fi",    "done"};
  const auto first = std::ranges::find_if_not(words, IsAssignment);
  if (first == words.end()) return Influence::kSetsIt;
  const std::string_view name = BaseName(*first);
  if (IsOneOf(*first, kSetters)) return Influence::kSetsIt;
  return IsOneOf(name, kNeutral) ? Influence::kNone : Influence::kUnknown;
}

/// Words that start the program behind them, in the same place.
bool IsTransparent(std::string_view word) {
  constexpr std::array<std::string_view, 6> kWords = {"env",   "exec",   "command",
                                                      "nohup", "setsid", "nice"};
  return IsOneOf(word, kWords) || IsAssignment(word);
}

}  // namespace

std::string WithoutRayStop(std::string_view line) {
  std::string made(line);
  const std::vector<SimpleCommand> commands = CommandsOf(line);
  // From the end, so that what is before stays where it is.
  for (auto command = commands.rbegin(); command != commands.rend(); ++command) {
    const PlainCommand plain = PlainOf(line, *command);
    if (plain.words.empty()) continue;
    if (FindRay(plain.words, "stop")) {
      const size_t begin = command->words[plain.first].begin;
      made.replace(begin, command->end() - begin, "true");
    } else if (const auto inner = FindInnerLine(plain.words)) {
      const auto text = InsideQuotes(line, command->words[plain.first + *inner]);
      if (!text) continue;
      made.replace(text->begin, text->end - text->begin,
                   WithoutRayStop(line.substr(text->begin, text->end - text->begin)));
    }
  }
  return made;
}

bool IsRayStop(std::string_view line) {
  const std::string rest = WithoutRayStop(line);
  if (rest == line) return false;
  const std::vector<SimpleCommand> commands = CommandsOf(rest);
  return std::ranges::all_of(commands, [&rest](const SimpleCommand& command) {
    const PlainCommand plain = PlainOf(rest, command);
    return plain.words == std::vector<std::string>{"true"} ||
           plain.words == std::vector<std::string>{":"};
  });
}

std::optional<RayReach> ReachOfRay(std::string_view line) {
  RayReach reach;
  for (const SimpleCommand& command : CommandsOf(line)) {
    const PlainCommand plain = PlainOf(line, command);
    if (plain.words.empty()) continue;
    const auto at = [&](size_t word) { return command.words[plain.first + word]; };
    if (const auto ray = FindRay(plain.words, "start")) {
      for (size_t i = 0; i < *ray; ++i) {
        if (!IsTransparent(plain.words[i])) return std::nullopt;
        if (!IsAssignment(plain.words[i])) continue;
        reach.before += "export ";
        reach.before += line.substr(at(i).begin, at(i).end - at(i).begin);
        reach.before += '\n';
      }
      if (BaseName(plain.words[*ray]) != "ray") return std::nullopt;
      reach.program = line.substr(at(*ray).begin, at(*ray).end - at(*ray).begin);
      return reach;
    }
    switch (InfluenceOf(plain.words)) {
      case Influence::kSetsIt:
        reach.before += line.substr(at(0).begin, command.end() - at(0).begin);
        reach.before += '\n';
        break;
      case Influence::kNone:
        break;
      case Influence::kUnknown:
        reach.is_certain = false;
        break;
    }
  }
  return std::nullopt;
}

}  // namespace hvdray
