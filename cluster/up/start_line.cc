// SPDX-License-Identifier: Apache-2.0
#include "cluster/up/start_line.h"

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

std::vector<SimpleCommand> Commands(std::string_view line) {
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
    const bool is_continued = c == '\\' && after == '\n';
    if (c == ' ' || c == '\t' || c == '\r' || is_continued) {
      is_in_word = is_in_word && is_continued;
      at += is_continued ? 2 : 1;
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

/// The word without what quotes it or its parts.
std::string Plain(std::string_view line, const Word& word) {
  std::string text(line.substr(word.begin, word.end - word.begin));
  std::erase_if(text, [](char c) { return c == '"' || c == '\'' || c == '\\'; });
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

/// The command only names what follows.
bool IsTalk(std::string_view name) {
  constexpr std::array<std::string_view, 12> kTalk = {"echo",  "printf", "logger", "grep",
                                                      "pgrep", "pkill",  "which",  "type",
                                                      "test",  "[",      "[[",     "export"};
  return IsOneOf(name, kTalk);
}

/// "ray", "/opt/ml/bin/ray", "$(which ray)".
bool IsRayProgram(std::string_view word) {
  const bool is_called = word.starts_with("$(") || word.starts_with('`');
  if (is_called) return word.ends_with(" ray)") || word.ends_with(" ray`");
  return BaseName(word) == "ray" || word == "ray.scripts.scripts";
}

/// Index of the word that is Ray's program, which is told to do `what`; nullopt: none is.
std::optional<size_t> FindRay(const std::vector<std::string>& words, std::string_view what) {
  if (!words.empty() && IsTalk(words[0])) return std::nullopt;
  for (size_t i = 0; i + 1 < words.size(); ++i) {
    if (!IsRayProgram(words[i])) continue;
    size_t verb = i + 1;
    while (verb + 1 < words.size() && words[verb].starts_with("--")) {
      const bool has_value = words[verb] == "--logging-level" || words[verb] == "--logging-format";
      verb += has_value ? 2 : 1;
    }
    if (verb < words.size() && words[verb] == what) return i;
  }
  return std::nullopt;
}

/// A part of a line that a shell may run as a line of its own.
struct InnerLine {
  std::string text;
  std::vector<size_t> places;  ///< Of its bytes in the outer line.
};

/// The bytes of `line` from `begin` to `end`, without the backslashes that quote within "…".
InnerLine InnerLineOf(std::string_view line, size_t begin, size_t end, bool is_in_double_quotes) {
  InnerLine inner;
  for (size_t at = begin; at < end; ++at) {
    const bool is_quoted = is_in_double_quotes && line[at] == '\\' && at + 1 < end &&
                           std::string_view("\"\\$`").find(line[at + 1]) != std::string_view::npos;
    if (is_quoted) ++at;
    inner.text += line[at];
    inner.places.push_back(at);
  }
  return inner;
}

/// What the word calls by `$(…)` or backticks; with `takes_lines` also what it has in quotes.
std::vector<InnerLine> InnerLines(std::string_view line, const Word& word, bool takes_lines) {
  std::vector<InnerLine> lines;
  bool is_in_double_quotes = false;
  for (size_t at = word.begin; at < word.end;) {
    const char quote = line[at];
    if (quote == '"' && !takes_lines) is_in_double_quotes = !is_in_double_quotes;
    const bool is_plain = !takes_lines && (quote == '"' || (quote == '\'' && is_in_double_quotes));
    const size_t next = is_plain ? at + 1 : SkipQuoted(line, at);
    const size_t begin = at + (quote == '$' ? 2 : 1);
    const bool is_line =
        quote == '$' || quote == '`' || (takes_lines && (quote == '"' || quote == '\''));
    const bool is_closed = next > begin && line[next - 1] == (quote == '$' ? ')' : quote);
    if (is_line && is_closed) {
      lines.push_back(InnerLineOf(line, begin, next - 1, quote == '"'));
    }
    at = next;
  }
  return lines;
}

/// `-c` of `bash -c`, `su ml -c`, alone or among others.
bool IsLineOption(std::string_view word) {
  return word.size() > 1 && word[0] == '-' && word[1] != '-' && word.find('c') != word.npos;
}

constexpr int kMaxInnerLines = 4;  // in each other

/// Each `ray stop` of the line, in its order.
std::vector<Word> RayStops(std::string_view line, int depth = 0) {
  std::vector<Word> stops;
  for (const SimpleCommand& command : Commands(line)) {
    const PlainCommand plain = PlainOf(line, command);
    if (plain.words.empty()) continue;
    if (FindRay(plain.words, "stop")) {
      stops.push_back({command.words[plain.first].begin, command.end()});
      continue;
    }
    if (depth == kMaxInnerLines) continue;
    const bool is_talk = IsTalk(plain.words[0]);
    bool takes_lines = plain.words[0] == "eval" || plain.words[0] == "trap";
    for (size_t i = 0; i < plain.words.size(); ++i) {
      const bool is_line = takes_lines && !IsAssignment(plain.words[i]);
      for (const InnerLine& inner : InnerLines(line, command.words[plain.first + i], is_line)) {
        for (const Word& stop : RayStops(inner.text, depth + 1)) {
          stops.push_back({inner.places[stop.begin], inner.places[stop.end - 1] + 1});
        }
      }
      takes_lines = takes_lines || (!is_talk && IsLineOption(plain.words[i]));
    }
  }
  return stops;
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
  const std::vector<Word> stops = RayStops(line);
  // From the end, so that what is before stays where it is.
  for (auto stop = stops.rbegin(); stop != stops.rend(); ++stop) {
    made.replace(stop->begin, stop->end - stop->begin, "true");
  }
  return made;
}

bool IsRayStop(std::string_view line) {
  const std::string rest = WithoutRayStop(line);
  if (rest == line) return false;
  const std::vector<SimpleCommand> commands = Commands(rest);
  return std::ranges::all_of(commands, [&rest](const SimpleCommand& command) {
    const PlainCommand plain = PlainOf(rest, command);
    return plain.words == std::vector<std::string>{"true"} ||
           plain.words == std::vector<std::string>{":"};
  });
}

std::optional<RayReach> ReachOfRay(std::string_view line) {
  RayReach reach;
  for (const SimpleCommand& command : Commands(line)) {
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
