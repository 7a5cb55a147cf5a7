// SPDX-License-Identifier: Apache-2.0
// A word is first classified (option, value, unknown), then consumed; argparse does the same, which
// is why a value that looks like an option needs the form --name=value.
#include "launcher/job/argv.h"

#include <fmt/format.h>

#include <algorithm>
#include <optional>
#include <string_view>

#include "base/text.h"
#include "launcher/job/foreign_options.h"

namespace hvdray {
namespace {

/// What a word means if it stands where an option may stand.
struct Match {
  enum class Kind : uint8_t { kWord, kOption, kUnknown, kAmbiguous };
  Kind kind = Kind::kWord;
  Spelling spelling;
  std::optional<std::string> glued;          ///< The value in the same word, if there is one.
  bool has_equals = false;                   ///< The value was glued by '='.
  std::vector<std::string_view> candidates;  ///< Of kAmbiguous.
};

/// What may be said.
using Vocabulary = std::vector<Spelling>;

const Spelling* FindExact(const Vocabulary& known, std::string_view text) {
  for (const Spelling& spelling : known) {
    if (spelling.text == text) return &spelling;
  }
  return nullptr;
}

/// -7, -0.5, -.5: what argparse takes for a number, since no option looks like one.
bool IsNegativeNumber(std::string_view word) {
  word.remove_prefix(1);
  const size_t dot = word.find('.');
  const auto all_digits = [](std::string_view text) {
    return std::all_of(text.begin(), text.end(), [](char c) { return c >= '0' && c <= '9'; });
  };
  if (dot == std::string_view::npos) return !word.empty() && all_digits(word);
  return dot + 1 < word.size() && all_digits(word.substr(0, dot)) &&
         all_digits(word.substr(dot + 1));
}

Match OptionMatch(const Spelling& spelling, std::optional<std::string> glued, bool has_equals) {
  Match match;
  match.kind = Match::Kind::kOption;
  match.spelling = spelling;
  match.glued = std::move(glued);
  match.has_equals = has_equals;
  return match;
}

/// Two spellings that say the same (--min: --min-np, --min-num-proc) do not make a prefix
/// ambiguous.
Match FromCandidates(std::vector<Match> found) {
  if (found.empty()) return {};
  const Match& first = found.front();
  const bool is_one = std::all_of(found.begin(), found.end(), [&](const Match& other) {
    return other.spelling.row == first.spelling.row && other.glued == first.glued &&
           other.spelling.is_negation == first.spelling.is_negation;
  });
  if (is_one) return first;
  Match match;
  match.kind = Match::Kind::kAmbiguous;
  for (const Match& candidate : found) match.candidates.push_back(candidate.spelling.text);
  return match;
}

/// "-x FOO" as one word is a value, as it is for horovodrun, which has no -x: --mpi-args "-x FOO".
bool IsValueOfOldScripts(const Spelling& spelling, std::string_view word) {
  return !spelling.is_abbreviable && word.size() > 2 && word[2] == ' ';
}

/// Prefixes of Horovod's options; for one dash also a one-letter option with its value glued on.
Match MatchPrefix(const Vocabulary& known, std::string_view word) {
  const size_t equals = word.find('=');
  const std::string_view head = word.substr(0, equals);
  std::optional<std::string> after_equals;
  if (equals != std::string_view::npos) after_equals = std::string(word.substr(equals + 1));
  const bool is_long = word.starts_with("--");
  std::vector<Match> found;
  for (const Spelling& spelling : known) {
    if (!is_long && spelling.text == word.substr(0, 2)) {
      if (IsValueOfOldScripts(spelling, word)) continue;
      found.push_back(OptionMatch(spelling, std::string(word.substr(2)), false));
    } else if (spelling.is_abbreviable && head.size() > (is_long ? 2 : 1) &&
               spelling.is_long() == is_long && spelling.text.starts_with(head)) {
      found.push_back(OptionMatch(spelling, after_equals, after_equals.has_value()));
    }
  }
  return FromCandidates(std::move(found));
}

Match Classify(const Vocabulary& known, std::string_view word) {
  if (word.size() < 2 || word.front() != '-') return {};
  if (const Spelling* exact = FindExact(known, word))
    return OptionMatch(*exact, std::nullopt, false);
  const size_t equals = word.find('=');
  if (equals != std::string_view::npos) {
    if (const Spelling* exact = FindExact(known, word.substr(0, equals))) {
      return OptionMatch(*exact, std::string(word.substr(equals + 1)), true);
    }
  }
  if (Match match = MatchPrefix(known, word); match.kind != Match::Kind::kWord) return match;
  if (IsNegativeNumber(word) || word.find(' ') != std::string_view::npos) return {};
  Match unknown;
  unknown.kind = Match::Kind::kUnknown;
  return unknown;
}

Status UnknownOption(const CommandRow& command, const Vocabulary& known, std::string_view word) {
  std::string_view head = word.substr(0, word.find('='));
  std::string_view hint = command.is_launch ? HintForForeignOption(head) : "";
  if (command.name == "follow" && head == "--stop") hint = "hvdray stop ID";
  if (!hint.empty()) {
    return Status(ErrorCode::kUsage, fmt::format("unknown option '{}'", head), std::string(hint));
  }
  if (head.size() > 80) head = head.substr(0, 80);
  for (const OptionRow& row : OptionTable()) {
    if (row.group != OptionGroup::kDeveloper || head != fmt::format("--{}", row.name)) continue;
    return Status(ErrorCode::kUsage, fmt::format("unknown option '{}'", head),
                  HintForVariable(row));
  }
  std::vector<std::string_view> names;
  for (const Spelling& spelling : known) {
    if (spelling.is_hidden) continue;
    names.push_back(spelling.text);
    if (head.size() > 3 && !spelling.is_abbreviable && spelling.text.starts_with(head)) {
      return Status(ErrorCode::kUsage, fmt::format("unknown option '{}'", head),
                    fmt::format("write it in full: {}", spelling.text));
    }
  }
  // Every short option is near to a dash and a letter.
  const std::string nearest = head.size() > 2 ? Nearest(head, names) : "";
  return Status(ErrorCode::kUsage, fmt::format("unknown option '{}'", head),
                nearest.empty() ? fmt::format("see hvdray {} --help", command.name)
                                : fmt::format("did you mean {}?", nearest));
}

Status AmbiguousOption(std::string_view word, const std::vector<std::string_view>& candidates) {
  const std::string_view head = word.substr(0, word.find('='));
  return Status(
      ErrorCode::kUsage,
      fmt::format("option '{}' is ambiguous: it could be {}", head, fmt::join(candidates, ", ")),
      std::string(HintForForeignOption(head)));
}

size_t ValuesOf(OptionType type) {
  switch (type) {
    case OptionType::kAction:
    case OptionType::kFlag:
    case OptionType::kOptionalChoice:
      return 0;
    case OptionType::kIntPair:
      return 2;
    case OptionType::kText:
    case OptionType::kInt:
    case OptionType::kNumber:
    case OptionType::kDuration:
    case OptionType::kChoice:
    case OptionType::kList:
      return 1;
  }
  return 0;
}

/// Consumes words from the left.
class Parser {
 public:
  Parser(const CommandRow& command, const Vocabulary& known, std::span<const std::string> args)
      : command_(command), known_(known), args_(args) {}

  Result<ParsedArgv> Parse() {
    while (next_ < args_.size() && !is_done_) {
      const std::string& word = args_[next_];
      if (word == "--") {
        ++next_;
        break;
      }
      Match match = Classify(known_, word);
      if (match.kind == Match::Kind::kUnknown) return UnknownOption(command_, known_, word);
      if (match.kind == Match::Kind::kAmbiguous) return AmbiguousOption(word, match.candidates);
      if (match.kind == Match::Kind::kWord) {
        // No program is called -1 or "-x y": it is a slip.
        if (word.size() > 1 && word.front() == '-') return UnknownOption(command_, known_, word);
        if (command_.is_launch) break;
        parsed_.command.push_back(word);
        ++next_;
        continue;
      }
      ++next_;
      HVDRAY_RETURN_IF_ERROR(Consume(std::move(match), word));
    }
    if (!is_done_) {
      parsed_.command.insert(parsed_.command.end(), args_.begin() + next_, args_.end());
    }
    return std::move(parsed_);
  }

 private:
  /// One word of options, and the values that follow it.
  Status Consume(Match match, const std::string& word) {
    // -qx A=1: what is glued to a letter that takes no value is further letters.
    for (;;) {
      const OptionRow& row = *match.spelling.row;
      if (ValuesOf(row.type) > 0) return ConsumeValues(std::move(match));
      std::string rest;
      HVDRAY_RETURN_IF_ERROR(ConsumeFlag(match, &rest));
      if (is_done_ || rest.empty()) return {};
      const std::string letter = "-" + rest.substr(0, 1);
      const Spelling* exact = FindExact(known_, letter);
      if (exact == nullptr) {
        return Status(ErrorCode::kUsage,
                      fmt::format("unknown option '{}' in '{}'", letter, word.substr(0, 80)));
      }
      rest.erase(0, 1);
      const bool has_equals = rest.starts_with('=');
      if (has_equals) rest.erase(0, 1);
      std::optional<std::string> glued;
      if (has_equals || !rest.empty()) glued = std::move(rest);
      match = OptionMatch(*exact, std::move(glued), has_equals);
    }
  }

  Status ConsumeValues(Match match) {
    ParsedOption option = ToOption(match);
    const size_t wanted = ValuesOf(option.row->type);
    if (match.glued) {
      if (wanted > 1) {
        return Status(ErrorCode::kUsage, fmt::format("option {} takes {} values, as separate words",
                                                     option.spelling, wanted));
      }
      option.values.push_back(*std::move(match.glued));
    }
    while (option.values.size() < wanted) {
      if (next_ >= args_.size() || args_[next_] == "--" ||
          Classify(known_, args_[next_]).kind != Match::Kind::kWord) {
        return MissingValue(option, wanted);
      }
      option.values.push_back(args_[next_++]);
    }
    parsed_.options.push_back(std::move(option));
    return {};
  }

  /// `rest`: further letters of the same word.
  Status ConsumeFlag(const Match& match, std::string* rest) {
    ParsedOption option = ToOption(match);
    const OptionType type = option.row->type;
    if (match.glued) {
      const bool is_letter = option.spelling.size() == 2;
      if (match.has_equals && type == OptionType::kOptionalChoice) {
        option.values.push_back(*match.glued);
      } else if (match.has_equals || !is_letter) {
        return Status(ErrorCode::kUsage, fmt::format("option {} takes no value", option.spelling));
      } else {
        *rest = *match.glued;
      }
    }
    is_done_ = type == OptionType::kAction;
    parsed_.options.push_back(std::move(option));
    return {};
  }

  static ParsedOption ToOption(const Match& match) {
    return {match.spelling.row, match.spelling.is_negation, {}, std::string(match.spelling.text)};
  }

  Status MissingValue(const ParsedOption& option, size_t wanted) const {
    std::string message = wanted == 1
                              ? fmt::format("option {} needs a value", option.spelling)
                              : fmt::format("option {} needs {} values", option.spelling, wanted);
    std::string hint =
        wanted == 1 ? fmt::format("{} {}", option.spelling, option.row->value_name) : std::string();
    if (next_ < args_.size() && wanted == 1) {
      hint = fmt::format("write a value that begins with '-' as {}=VALUE", option.spelling);
    }
    return Status(ErrorCode::kUsage, std::move(message), std::move(hint));
  }

  const CommandRow& command_;
  const Vocabulary& known_;
  std::span<const std::string> args_;
  size_t next_ = 0;
  bool is_done_ = false;
  ParsedArgv parsed_;
};

}  // namespace

Result<ParsedArgv> ParseArgv(std::span<const std::string> args, std::string_view command) {
  const CommandRow& row = CommandNamed(command);
  return Parser(row, Spellings(row), args).Parse();
}

}  // namespace hvdray
