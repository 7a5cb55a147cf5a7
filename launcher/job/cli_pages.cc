// The manual page and the completion for bash.
#include <fmt/format.h>

#include "launcher/job/help.h"
#include "launcher/job/help_text.h"
#include "launcher/job/replay_options.h"

namespace hvdray {
namespace {

/// Text as roff prints it unchanged: a line must not begin with '.' or '\'', '-' is a minus.
std::string Roff(std::string_view text) {
  std::string roff;
  for (const char c : text) {
    if (c == '\\') {
      roff += "\\e";
    } else if (c == '-') {
      roff += "\\-";
    } else {
      roff += c;
    }
  }
  if (roff.starts_with('.') || roff.starts_with('\'')) roff.insert(0, "\\&");
  return roff;
}

/// What follows an option of this row: words to choose from, a file, or nothing known.
std::string CompletionOf(const OptionRow& row) {
  if (row.type == OptionType::kChoice) {
    std::string words;
    for (const std::string_view choice : ChoicesOf(row)) {
      words += (words.empty() ? "" : " ") + std::string(choice);
    }
    return fmt::format("COMPREPLY=($(compgen -W '{}' -- \"$word\"))", words);
  }
  if (row.value_name == "FOLDER") return "COMPREPLY=($(compgen -d -- \"$word\"))";
  if (row.value_name.starts_with("FILE")) return "COMPREPLY=($(compgen -f -- \"$word\"))";
  return {};
}

std::string Words(bool is_only_with_value) {
  std::string words;
  for (const Spelling& spelling : AllSpellings()) {
    const OptionType type = spelling.row->type;
    const bool takes_value = type != OptionType::kFlag && type != OptionType::kAction &&
                             type != OptionType::kOptionalChoice;
    if (spelling.is_hidden || (is_only_with_value && !takes_value)) continue;
    words += (words.empty() ? "" : " ") + std::string(spelling.text);
  }
  return words;
}

/// What check has beside these.
std::string CheckWords() {
  std::string words;
  for (const OptionRow& row : CheckOptionTable()) {
    for (const Spelling& spelling : SpellingsOf(row)) {
      words += (words.empty() ? "" : " ") + std::string(spelling.text);
    }
  }
  return words;
}

}  // namespace

std::string RunManPage() {
  std::string page =
      ".\\\" Generated from the option table by hvdray-gen-cli; do not edit.\n"
      ".TH HVDRAY\\-RUN 1\n"
      ".SH NAME\n"
      "hvdray\\-run \\- start a command on many slots and report what happened\n"
      ".SH SYNOPSIS\n"
      ".B hvdray run\n"
      "[OPTION...] [\\-\\-] COMMAND [ARGUMENT...]\n"
      ".SH DESCRIPTION\n"
      "Starts COMMAND once for each slot, gives every worker its rank by Horovod's and torchrun's\n"
      "variables, shows their output, and ends when they end.\n"
      ".SH EXAMPLES\n";
  for (const HelpExample& example : kRunExamples) {
    page += fmt::format(".TP\n.B {}\n{}\n", Roff(example.command), Roff(example.text));
  }
  page += ".SH OPTIONS\n";
  for (const OptionGroup group : kGroupOrder) {
    page += fmt::format(".SS {}\n", Roff(TitleOf(group)));
    for (const OptionRow* row : RowsOf(group)) {
      page += fmt::format(".TP\n.B {}\n{}\n", Roff(SpellingLine(*row)), Roff(row->help));
      if (!row->default_text.empty())
        page += fmt::format("Default: {}.\n", Roff(row->default_text));
    }
  }
  page +=
      ".SH EXIT STATUS\n"
      "The code of the worker that failed first, 128+n if signal n killed it; 2 wrong usage, "
      "nothing\n"
      "was started; 124 \\-\\-timeout; 125 hvdray could not do its part; 126 command not "
      "executable;\n"
      "127 command not found; 129, 130, 131, 143 hvdray got SIGHUP, SIGINT, SIGQUIT, SIGTERM; 141 "
      "the\n"
      "reader of the output went away. SIGUSR1 and SIGUSR2 are passed on to the workers.\n"
      ".SH FILES\n"
      ".TP\n"
      ".I $XDG_CONFIG_HOME/hvdray/config.yaml\n"
      "Defaults of the user, with the long option names as keys.\n";
  return page;
}

std::string CheckManPage() {
  std::string page =
      ".\\\" Generated from the option table by hvdray-gen-cli; do not edit.\n"
      ".TH HVDRAY\\-CHECK 1\n"
      ".SH NAME\n"
      "hvdray\\-check \\- say whether a job would start, and what its hosts are like\n"
      ".SH SYNOPSIS\n"
      ".B hvdray check\n"
      "[OPTION...] [[\\-\\-] COMMAND [ARGUMENT...]]\n"
      ".SH DESCRIPTION\n"
      "Starts agents on the hosts of a job as hvdray\\-run(1) does, but no worker, and tells of\n"
      "versions, clocks, disks, limits, CPUs, memory, GPUs, network, working folder and command.\n"
      "Each finding says how to mend it. Nothing is left running.\n"
      ".SH EXAMPLES\n";
  for (const HelpExample& example : kCheckExamples) {
    page += fmt::format(".TP\n.B {}\n{}\n", Roff(example.command), Roff(example.text));
  }
  page +=
      ".SH OPTIONS\n"
      "All of hvdray\\-run(1); these make a difference:\n";
  for (const OptionRow* row : RowsOfCheck()) {
    page += fmt::format(".TP\n.B {}\n{}\n", Roff(SpellingLine(*row)), Roff(row->help));
    if (!row->default_text.empty()) page += fmt::format("Default: {}.\n", Roff(row->default_text));
  }
  page +=
      ".SH EXIT STATUS\n"
      "0 a job would start, maybe with warnings; else what hvdray\\-run(1) would return: 2 wrong\n"
      "usage or too few slots, 125 hosts or network, 126 command not executable, 127 not found;\n"
      "129, 130, 131, 143 stopped by SIGHUP, SIGINT, SIGQUIT, SIGTERM.\n";
  return page;
}

std::string BashCompletion() {
  std::string script =
      "# Generated from the option table by hvdray-gen-cli; do not edit.\n"
      "_hvdray_run() {\n"
      "  local word=\"${COMP_WORDS[COMP_CWORD]}\" before=\"${COMP_WORDS[COMP_CWORD-1]}\" i\n"
      "  local first=1\n"
      "  [[ ${COMP_WORDS[0]##*/} == hvdray ]] && first=2\n"
      "  if (( first == 2 && COMP_CWORD == 1 )); then\n"
      "    COMPREPLY=($(compgen -W 'run check replay follow status jobs slots rendezvous "
      "explain agent help version' -- \"$word\"))\n"
      "    return\n"
      "  fi\n"
      "  if [[ $first == 2 && ${COMP_WORDS[1]} == replay ]]; then\n"
      "    if [[ $word == -* ]]; then\n"
      "      COMPREPLY=($(compgen -W '" +
      ReplayWords() +
      "' -- \"$word\"))\n"
      "    else\n"
      "      COMPREPLY=($(compgen -f -- \"$word\"))\n"
      "    fi\n"
      "    return\n"
      "  fi\n"
      "  if [[ $first == 2 && ${COMP_WORDS[1]} == @(help|explain) ]]; then\n"
      "    local names='run check replay follow status jobs slots rendezvous explain'\n"
      "    [[ ${COMP_WORDS[1]} == explain ]] && names=$(\"${COMP_WORDS[0]}\" explain | cut -d' ' "
      "-f1)\n"
      "    COMPREPLY=($(compgen -W \"$names\" -- \"$word\"))\n"
      "    return\n"
      "  fi\n"
      "  # These say themselves which options they have.\n"
      "  if [[ $first == 2 && ${COMP_WORDS[1]} == @(follow|status|jobs|slots|rendezvous) ]]; then\n"
      "    if [[ $word == -* ]]; then\n"
      "      local said=$(\"${COMP_WORDS[0]}\" \"${COMP_WORDS[1]}\" --help 2>/dev/null)\n"
      "      said=$(grep -oE -- '(^|[ ,])--?[A-Za-z][a-z-]*' <<<\"$said\" | tr -d ' ,')\n"
      "      COMPREPLY=($(compgen -W \"$said\" -- \"$word\"))\n"
      "    else\n"
      "      COMPREPLY=($(compgen -f -- \"$word\"))\n"
      "    fi\n"
      "    return\n"
      "  fi\n"
      "  [[ $first == 2 && ${COMP_WORDS[1]} != run && ${COMP_WORDS[1]} != check ]] && return\n"
      "  case \"$before\" in\n";
  for (const OptionRow& row : OptionTable()) {
    const std::string reply = CompletionOf(row);
    if (reply.empty()) continue;
    std::string pattern;
    for (const Spelling& spelling : SpellingsOf(row)) {
      if (!spelling.is_hidden) {
        pattern += (pattern.empty() ? "" : "|") + std::string(spelling.text);
      }
    }
    script += fmt::format("    {})\n      {}\n      return ;;\n", pattern, reply);
  }
  script += fmt::format(
      "  esac\n"
      "  # Behind the first word that is neither an option nor its value, files belong to the "
      "command.\n"
      "  local with_value=' {} '\n"
      "  for (( i = first; i < COMP_CWORD; i++ )); do\n"
      "    if [[ ${{COMP_WORDS[i]}} != -* && $with_value != *\" ${{COMP_WORDS[i-1]}} \"* ]] ||\n"
      "       [[ ${{COMP_WORDS[i]}} == -- ]]; then\n"
      "      COMPREPLY=($(compgen -f -- \"$word\"))\n"
      "      return\n"
      "    fi\n"
      "  done\n"
      "  local words='{}'\n"
      "  [[ $first == 2 && ${{COMP_WORDS[1]}} == check ]] && words+=' {}'\n"
      "  if [[ $word == -* ]]; then\n"
      "    COMPREPLY=($(compgen -W \"$words\" -- \"$word\"))\n"
      "  else\n"
      "    COMPREPLY=($(compgen -c -f -- \"$word\"))\n"
      "  fi\n"
      "}}\n"
      "complete -o filenames -F _hvdray_run hvdray horovodrun\n",
      Words(true), Words(false), CheckWords());
  return script;
}

}  // namespace hvdray
