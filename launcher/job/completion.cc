// SPDX-License-Identifier: Apache-2.0
// The command and option tables as completion for bash, zsh and fish.
#include <fmt/format.h>

#include <algorithm>
#include <string>
#include <string_view>
#include <vector>

#include "base/text.h"
#include "launcher/job/help.h"
#include "launcher/job/option_table.h"

namespace hvdray {
namespace {

constexpr std::string_view kScriptHead =
    "# Generated from the option table by hvdray-gen-cli; do not edit.\n";

/// What follows an option of this row: words to choose from, a file, or nothing known.
std::string Completion(const OptionRow& row) {
  if (row.type == OptionType::kChoice) {
    return fmt::format("COMPREPLY=($(compgen -W '{}' -- \"$word\"))",
                       fmt::join(ChoicesOf(row), " "));
  }
  const bool is_directory = row.value_name == "DIR";
  if (is_directory || row.value_name.starts_with("FILE")) {
    // A line each: names may have blanks.
    return fmt::format("mapfile -t COMPREPLY < <(compgen {} -- \"$word\")",
                       is_directory ? "-d" : "-f");
  }
  return {};
}

/// A word after it is its value.
bool TakesWord(const OptionRow& row) {
  return row.type != OptionType::kFlag && row.type != OptionType::kAction &&
         row.type != OptionType::kOptionalChoice;
}

/// The visible ones, with a blank between.
std::string WordsOf(const std::vector<Spelling>& spellings, bool is_only_with_value) {
  std::string words;
  for (const Spelling& spelling : spellings) {
    if (spelling.is_hidden || (is_only_with_value && !TakesWord(*spelling.row))) continue;
    words += (words.empty() ? "" : " ") + std::string(spelling.text);
  }
  return words;
}

/// What the first argument may be instead of a file, with a blank between: "config migrate".
std::string VerbsOf(const CommandRow& command) {
  std::string verbs;
  for (const std::string_view word : BlankSeparated(command.arguments, " |")) {
    if (word.front() >= 'a' && word.front() <= 'z') {
      verbs += (verbs.empty() ? "" : " ") + std::string(word);
    }
  }
  return verbs;
}

/// A visible spelling, and the names of the commands that take it, with a blank between.
struct SharedSpelling {
  Spelling spelling;
  std::string commands;
};

/// Each once, in the order in which the commands have them.
std::vector<SharedSpelling> SharedSpellings() {
  std::vector<SharedSpelling> all;
  for (const CommandRow& command : CommandTable()) {
    if (command.arguments.empty()) continue;
    for (const Spelling& spelling : Spellings(command)) {
      if (spelling.is_hidden || spelling.row->group == OptionGroup::kDeveloper) continue;
      const auto same = std::ranges::find_if(all, [&](const SharedSpelling& other) {
        return other.spelling.row == spelling.row && other.spelling.text == spelling.text;
      });
      if (same == all.end()) {
        all.push_back({spelling, std::string(command.name)});
      } else {
        same->commands += fmt::format(" {}", command.name);
      }
    }
  }
  return all;
}

/// With a backslash before each of `special`.
std::string Escaped(std::string_view text, std::string_view special) {
  std::string escaped;
  for (const char c : text) {
    if (special.find(c) != special.npos) escaped += '\\';
    escaped += c;
  }
  return escaped;
}

/// As a word of the shell, which takes \' within quotes for a quote only if it is fish.
std::string ZshQuoted(std::string_view text) {
  std::string quoted = "'";
  for (const char c : text) {
    if (c == '\'') quoted += "'\\'";
    quoted += c;
  }
  return quoted + "'";
}

std::string FishQuoted(std::string_view text) { return fmt::format("'{}'", Escaped(text, "\\'")); }

/// The first sentence of an option's help.
std::string_view Gist(const OptionRow& row) {
  return row.help.substr(0, std::min(row.help.find(". "), row.help.find_last_not_of('.') + 1));
}

/// What _arguments of zsh takes for an option.
std::string ZshSpec(const Spelling& spelling) {
  const OptionRow& row = *spelling.row;
  const bool is_optional = row.type == OptionType::kOptionalChoice;
  const bool is_choice = is_optional || row.type == OptionType::kChoice;
  std::string spec = fmt::format("*{}", spelling.text);
  if (is_optional) spec += "=-";
  if (TakesWord(row) && spelling.is_long()) spec += '=';
  spec += fmt::format("[{}]", Escaped(Gist(row), "[]\\"));
  if (!TakesWord(row) && !is_optional) return spec;
  const auto value = [&](std::string_view name) {
    spec += fmt::format("{}{}:", is_optional ? "::" : ":", Escaped(name, ":\\"));
  };
  value(is_choice ? "value" : row.value_name);
  if (is_choice) return spec + fmt::format("({})", fmt::join(ChoicesOf(row), " "));
  if (row.value_name == "DIR") return spec + "_files -/";
  if (row.value_name.starts_with("FILE")) return spec + "_files";
  if (row.type == OptionType::kIntPair) value(row.value_name);
  return spec;
}

/// What `complete` of fish takes for an option.
std::string FishOption(const Spelling& spelling) {
  const OptionRow& row = *spelling.row;
  const std::string_view kind = spelling.is_long() ? "-l" : spelling.text.size() == 2 ? "-s" : "-o";
  const std::string_view name = spelling.text.substr(spelling.is_long() ? 2 : 1);
  std::string option = fmt::format("{} {} -d {}", kind, name, FishQuoted(Gist(row)));
  if (row.type == OptionType::kChoice || row.type == OptionType::kOptionalChoice) {
    option +=
        fmt::format(" {}-a '{}'", TakesWord(row) ? "-x " : "-f ", fmt::join(ChoicesOf(row), " "));
  } else if (row.value_name == "DIR") {
    option += " -x -a '(__fish_complete_directories)'";
  } else if (row.value_name.starts_with("FILE")) {
    option += " -r -F";
  } else if (TakesWord(row)) {
    option += " -x";
  }
  return option;
}

}  // namespace

std::string BashCompletion() {
  std::string names, of_people, cases;
  for (const CommandRow& command : CommandTable()) {
    names += fmt::format("{} ", command.name);
    if (command.arguments.empty()) continue;
    of_people += fmt::format("{}{}", of_people.empty() ? "" : " ", command.name);
    const std::string verbs = VerbsOf(command);
    cases += fmt::format("    {}) words='{}'{} ;;\n", command.name,
                         WordsOf(Spellings(command), /*is_only_with_value=*/false),
                         verbs.empty() ? "" : fmt::format(" verbs='{}'", verbs));
  }
  std::string script = fmt::format(
      R"bash(# Generated from the option table by hvdray-gen-cli; do not edit.
_hvdray_run() {{
  local word="${{COMP_WORDS[COMP_CWORD]}}" before="${{COMP_WORDS[COMP_CWORD-1]}}" i
  local first=1 command=run words verbs
  if [[ ${{COMP_WORDS[0]##*/}} == hvdray ]]; then
    first=2
    command=${{COMP_WORDS[1]}}
  fi
  if (( first == 2 && COMP_CWORD == 1 )); then
    COMPREPLY=($(compgen -W '{}help version' -- "$word"))
    return
  fi
  case "$command" in
    help) COMPREPLY=($(compgen -W '{}' -- "$word")); return ;;
{}    *) return ;;
  esac
  if [[ $command == explain && $word != -* ]]; then
    COMPREPLY=($(compgen -W "$("${{COMP_WORDS[0]}}" explain | cut -d' ' -f1)" -- "$word"))
    return
  fi
  case "$before" in
)bash",
      names, of_people, cases);
  for (const OptionRow& row : OptionTable()) {
    const std::string reply = Completion(row);
    if (reply.empty() || row.group == OptionGroup::kDeveloper) continue;
    std::string pattern;
    for (const Spelling& spelling : Spellings(row)) {
      if (!spelling.is_hidden) {
        pattern += (pattern.empty() ? "" : "|") + std::string(spelling.text);
      }
    }
    script += fmt::format("    {})\n      {}\n      return ;;\n", pattern, reply);
  }
  script += fmt::format(
      R"bash(  esac
  # After the first word that is neither an option nor its value, files belong to the command.
  local with_value=' {} '
  for (( i = first; i < COMP_CWORD; i++ )); do
    if [[ $command != run && $command != check ]]; then
      break
    elif [[ ${{COMP_WORDS[i]}} != -* && $with_value != *" ${{COMP_WORDS[i-1]}} "* ]] ||
       [[ ${{COMP_WORDS[i]}} == -- ]]; then
      mapfile -t COMPREPLY < <(compgen -f -- "$word")
      return
    fi
  done
  if [[ $word == -* ]]; then
    COMPREPLY=($(compgen -W "$words" -- "$word"))
  elif [[ $command == run || $command == check ]]; then
    mapfile -t COMPREPLY < <(compgen -c -f -- "$word")
  else
    (( COMP_CWORD == first )) || verbs=
    mapfile -t COMPREPLY < <(compgen -f -W "$verbs" -- "$word")
  fi
}}
complete -o filenames -F _hvdray_run hvdray horovodrun
)bash",
      WordsOf(Spellings(CommandNamed("check")), /*is_only_with_value=*/true));
  return script;
}

std::string ZshCompletion() {
  std::string names, options, with_verbs;
  for (const CommandRow& command : CommandTable()) {
    if (command.arguments.empty()) continue;
    names +=
        fmt::format("    {}\n", ZshQuoted(fmt::format("{}:{}", command.name, command.summary)));
    const std::string verbs = VerbsOf(command);
    if (verbs.empty()) continue;
    with_verbs += fmt::format("    {}) verbs='{}' ;|\n", command.name, verbs);
  }
  for (const auto& [spelling, commands] : SharedSpellings()) {
    options += fmt::format("  of '{}' {}\n", commands, ZshQuoted(ZshSpec(spelling)));
  }
  return fmt::format(
      R"zsh(#compdef hvdray horovodrun
{}_hvdray() {{
  local curcontext="$curcontext" state line command=run program=$words[1] verbs
  local -a specs hvdray_commands=(
{}  )
  local -A opt_args
  if [[ $service == hvdray ]]; then
    if (( CURRENT == 2 )) || [[ $words[2] == help ]]; then
      _describe -t commands command hvdray_commands
      return
    fi
    command=$words[2]
    shift words
    (( CURRENT-- ))
  fi
  if [[ $command == (run|check) && $words[2] == -- ]] && (( CURRENT > 2 )); then
    shift 2 words  # _arguments knows -- only after an option
    (( CURRENT -= 2 ))
    _normal
    return
  fi
  of() {{ [[ " $1 " == *" $command "* ]] && specs+=("$2") }}
{}  unfunction of
  case $command in
    run|check) specs+=('*:: : _normal') ;;  # ends the options
    explain) specs+=("*:error:($(_call_program errors $program explain | cut -d' ' -f1))") ;;
{}    *)
      specs+=("1:file:{{_alternative 'verbs:verb:($verbs)' 'files:file:_files'}}" '*:file:_files') ;;
  esac
  _arguments -S : $specs
}}
_hvdray "$@"
)zsh",
      kScriptHead, names, options, with_verbs);
}

std::string FishCompletion() {
  std::string names,
      script = fmt::format(
          R"fish({}# The words of the program of hvdray run and check; fails before it.
function __hvdray_program
    set -l with_value {}
    while set -q argv[1]
        switch $argv[1]
            case --
                string escape -- $argv[2..]
                return 0
            case '-*'
                contains -- $argv[1] $with_value; and set -e argv[1]
                set -e argv[1]
            case '*'
                string escape -- $argv
                return 0
        end
    end
    return 1
end
# The command of hvdray, and the words after it.
function __hvdray_words
    set -l words (commandline -opc)
    string match -q '*horovodrun' -- $words[1]; and set words[1] run; or set -e words[1]
    set -q words[1]; and printf "%s\n" $words  # string join fails with one
end
# Whether one of the given commands expects an option or an argument of its own.
function __hvdray_of
    set -l words (__hvdray_words)
    contains -- "$words[1]" $argv; or return
    not contains -- $words[1] run check; or not __hvdray_program $words[2..] >/dev/null
end
function __hvdray_errors
    set -l words (commandline -opc)
    $words[1] explain | string split -f 1 ' '
end
function __hvdray_complete_program
    set -l words (__hvdray_words)
    set -l line (string join ' ' -- (__hvdray_program $words[2..]) (commandline -ct))
    string match -q -- '-*' $line; or complete -C "$line"
end
)fish",
          kScriptHead, WordsOf(Spellings(CommandNamed("check")), /*is_only_with_value=*/true));
  for (const CommandRow& command : CommandTable()) {
    if (command.arguments.empty()) continue;
    names += fmt::format("{}{}", names.empty() ? "" : " ", command.name);
    script += fmt::format("complete -c hvdray -n 'not __hvdray_words' -f -a {} -d {}\n",
                          command.name, FishQuoted(command.summary));
    const std::string verbs = VerbsOf(command);
    if (verbs.empty()) continue;
    script += fmt::format(
        "complete -c hvdray -n '__hvdray_of {}; and test (count (__hvdray_words)) = 1' -a '{}'\n",
        command.name, verbs);
  }
  script += fmt::format(
      R"fish(complete -c hvdray -n '__hvdray_of help' -f -a '{}'
complete -c hvdray -n '__hvdray_of explain' -f -a '(__hvdray_errors)'
complete -c hvdray -c horovodrun -n 'contains -- (__hvdray_words)[1] run check' -f -a '(__hvdray_complete_program)'
)fish",
      names);
  for (const auto& [spelling, commands] : SharedSpellings()) {
    const bool is_of_run = commands.starts_with("run");
    script += fmt::format("complete -c hvdray{} -n '__hvdray_of {}' {}\n",
                          is_of_run ? " -c horovodrun" : "", commands, FishOption(spelling));
  }
  return script;
}

}  // namespace hvdray
