// SPDX-License-Identifier: Apache-2.0
// The terminal's form of the option table.
#include "launcher/job/help.h"

#include <fmt/format.h>

#include <algorithm>

#include "launcher/job/help_text.h"
#include "launcher/job/replay_options.h"

namespace hvdray {
namespace {

/// Columns of UTF-8 text: continuation bytes take none.
size_t Columns(std::string_view text) {
  return static_cast<size_t>(std::count_if(text.begin(), text.end(), [](char c) {
    return (static_cast<unsigned char>(c) & 0xC0) != 0x80;
  }));
}

/// Words of `text` in lines of at most `width` columns, each after `indent` blanks.
std::string Wrap(std::string_view text, size_t indent, size_t width) {
  std::string lines(indent, ' ');
  size_t column = indent;
  bool is_first = true;
  while (!text.empty()) {
    const size_t end = std::min(text.find(' '), text.size());
    const std::string_view word = text.substr(0, end);
    text.remove_prefix(std::min(end + 1, text.size()));
    if (word.empty()) continue;
    const size_t columns = Columns(word);
    if (!is_first && column + 1 + columns > width) {
      lines += "\n" + std::string(indent, ' ');
      column = indent;
      is_first = true;
    }
    if (!is_first) {
      lines += ' ';
      ++column;
    }
    lines += word;
    column += columns;
    is_first = false;
  }
  return lines + "\n";
}

std::string HelpOf(const OptionRow& row) {
  std::string text(row.help);
  if (!row.default_text.empty() && row.default_text != "off" && row.default_text != "on") {
    text += fmt::format(" [{}]", row.default_text);
  }
  return text;
}

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
  if (row.value_name == "DIR") return "COMPREPLY=($(compgen -d -- \"$word\"))";
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

constexpr std::string_view kIntroduction =
    R"(# hvdray run

Generated from the option table (`launcher/job/option_table.cc`) by `hvdray-gen-cli`; do not edit.

    hvdray run [OPTION...] [--] COMMAND [ARGUMENT...]

Starts COMMAND once for each slot, gives every worker its rank by Horovod's and torchrun's variables,
shows their output, and ends when they end. Called under the name `horovodrun` the program does the same.

)";

constexpr std::string_view kRules = R"(
## How words are read

* Options end at the first word that is none, or at `--`; the rest is the command.
* A value follows as the next word, after `=`, or glued to a single letter: `-np 4`, `-np=4`, `-p22`,
  `-Hlocalhost:2`. A value that begins with `-` is written `--option=-value`; negative numbers and words
  with a blank need no `=`.
* Horovod's long options may be shortened as long as one of *Horovod's* options fits (`--slots 4`).
  Options that only hvdray has are written in full, so a new one never breaks an old script.
* A repeated option: the last one counts; `-x` and `--network-interface` add up.
* Times are seconds or have a unit: `0.5`, `200ms`, `2m`, `1.5h`.
* Without `-np`, a job on named hosts takes all their slots.

## Where values come from

The first of these that names an option decides:

1. flags;
2. `HVDRAY_<LONG_NAME>` in the environment (`HVDRAY_NUM_PROC=4`; flags as `1` or `0`; lists with commas),
   then `HOROVOD_START_TIMEOUT` and `HOROVOD_ELASTIC_TIMEOUT`;
3. the job file of `-f`;
4. the section `hvdray: {run: ...}` of the file of `--cluster`;
5. Horovod's `--config-file`, which holds tunables only;
6. the user file, `$XDG_CONFIG_HOME/hvdray/config.yaml` or `~/.config/hvdray/config.yaml`;
7. the default.

`hvdray run --print-config` shows each value with its origin. `-x` is different: all levels add up, and
the higher one wins for the same name. An unknown or repeated key in a file is an error with its place
and the nearest name; an unknown `HVDRAY_*` variable is a warning.

## Naming hosts

`-H` takes items with a comma between, a host file takes a host a line; both stand for the same:

| `-H` | host file | meaning |
|---|---|---|
| `node1:4` | `node1 slots=4`, `node1:4` | four slots on node1 |
| `alice@node1:4` | `alice@node1 slots=4`, `node1 slots=4 user=alice` | log in as alice |
| `ssh://node1:2222:4` | `ssh://node1:2222 slots=4`, `node1 slots=4 port=2222` | SSH port 2222; else that of `-p` |
| `[fe80::1]:4` | `[fe80::1] slots=4` | an IPv6 address; with a zone `[fe80::1%eth0]` |
| `node[01-32]:4` | `node[01-32] slots=4` | node01, node02, ... with four slots each |
| `r[1-2]n[1,3,5-8]:4` | `r[1-2]n[1,3,5-8] slots=4` | lists and several brackets; the last one runs fastest |

* The number behind a plain host is always its slots, as for horovodrun; only behind `ssh://` the first
  number is a port.
* Slots may be 0, but not left out. Of Open MPI's `max_slots=M` hvdray only checks that the slots do not
  exceed it; other `key=value` words of a host file are ignored, but for slips (`slot=4`). `#` begins a comment.
* A padded range keeps its zeros. A list has 100,000 hosts at most. Shells want brackets quoted:
  `-H 'node[01-32]:4'`.
* No host may come twice, not even with another user or port, nor through two ranges.
* Workers know their host by its plain name (`HOROVOD_HOSTNAME`), without user and port. Horovod cuts such
  names at colons, so that of an IPv6 address is its shortest form with `-` for `:`: `fe80--1` for
  `fe80::1`, `0--1` for `::1`, `fe80--1_eth0` for `fe80::1%eth0`.

A job for which no flag, variable or file names hosts takes those of the batch system it runs under, the
first of:

| variable | slots |
|---|---|
| `SLURM_STEP_NODELIST`, within a step (`srun`) of this job that is not the shell of `salloc` | `SLURM_STEP_TASKS_PER_NODE`, else as below |
| `SLURM_JOB_NODELIST` | `SLURM_TASKS_PER_NODE`, else `SLURM_NTASKS_PER_NODE`, else `SLURM_JOB_CPUS_PER_NODE`, else, for one host, `SLURM_CPUS_ON_NODE` |
| `PBS_NODEFILE` | a line of the file for each |
| `LSB_HOSTS` | a word for each |
| `LSB_MCPU_HOSTS` | the number behind each host |

`-H localhost:N` leaves the batch system aside. A variable that does not parse is an error.

## The job file

Keys are the long option names with `_`. `command` is a list of words, or one text for `/bin/sh -c`.

```yaml
command: [python, train.py, --epochs, "3"]
num_proc: 8
hosts: [node1:4, "node[2-9]:4"]
env:
  OMP_NUM_THREADS: 2
  MY_TOKEN:          # no value: taken from the environment of hvdray
timeout: 2h
cycle_time_ms: 3.5
```

## What a worker inherits

The environment of `hvdray`, less `HVDRAY_*`, `BASH_FUNC_*`, `OLDPWD`, `_HOROVOD_SECRET_KEY` and the rank
variables of Horovod and torchrun that belong to another job. On other hosts also less
`*CUDA_VISIBLE_DEVICES`, `HIP_VISIBLE_DEVICES`, `ROCR_VISIBLE_DEVICES`, `SSH_*`, `XDG_*`, `DBUS_*`,
`DISPLAY`, `XAUTHORITY` and `TMPDIR`. With `--clean-env` only `PATH`, `HOME`, `LANG`, `HOROVOD_*` and
`NCCL_*` are inherited. Tunables come on top, then `-x`, then the variables of the worker's own place,
which always win.

)";

constexpr std::string_view kExitCodes = R"(## Exit codes

| code | meaning |
|---|---|
| 0 | every worker ended with 0 |
| the worker's | the code of the worker that failed first, 128+n if signal n killed it |
| 1 | an elastic job ended without success and no worker is to blame |
| 2 | wrong usage or a wrong file; nothing was started |
| 124 | `--timeout` was reached |
| 125 | hvdray could not do its part; the report's `error.code` says which, `HVD-Ennnn` (docs/errors.md) |
| 126, 127 | the command cannot be executed; it was not found on the worker's host |
| 129, 130, 131, 143 | hvdray got SIGHUP, SIGINT, SIGQUIT, SIGTERM; SIGUSR1 and SIGUSR2 go on to the workers |
| 141 | the reader of hvdray's output went away |
)";

constexpr std::string_view kCheckIntroduction = R"(# hvdray check

    hvdray check [OPTION...] [[--] COMMAND [ARGUMENT...]]

Says whether a job would start, and what its hosts are like: [check](check.md). Takes every option of `hvdray run`,
with the same meaning: put `check` in the place of `run`. The command may be left out, and so may `-np`. `--dry-run`,
`--print-plan` and `--print-config` are refused.

)";

constexpr std::string_view kCheckRules = R"(
Exit codes: 0 a job would start, maybe with warnings; else what `run` would return: 2, 125, 126, 127. 129, 130,
131, 143: stopped by a signal.

| option of check alone | meaning |
|---|---|
)";

/// Table cells: '|' separates columns.
std::string Cell(std::string_view text) {
  std::string cell;
  for (const char c : text) {
    if (c == '|') cell += '\\';
    cell += c;
  }
  return cell;
}

/// A command with its comment behind it, or above it where it is too long for that.
std::string ExampleLine(const HelpExample& example) {
  constexpr size_t kWidth = 66;
  if (example.command.size() >= kWidth) {
    return fmt::format("    # {}\n    {}\n", example.text, example.command);
  }
  return fmt::format("    {:<{}}# {}\n", example.command, kWidth, example.text);
}

std::string OptionCell(const OptionRow& row) {
  std::string cell;
  for (const Spelling& spelling : SpellingsOf(row)) {
    if (spelling.is_hidden) continue;
    cell += fmt::format("{}`{}`", cell.empty() ? "" : ", ", Cell(WithValue(spelling)));
  }
  return cell;
}

std::string GroupTable(OptionGroup group) {
  std::string table = fmt::format("### {}\n\n", TitleOf(group));
  const std::vector<const OptionRow*> rows = RowsOf(group);
  const bool is_tunable = std::any_of(
      rows.begin(), rows.end(), [](const OptionRow* row) { return !row->worker_variable.empty(); });
  table += is_tunable ? "| option | meaning | default | worker variable | config file |\n"
                        "|---|---|---|---|---|\n"
                      : "| option | meaning | default | of horovodrun |\n|---|---|---|---|\n";
  for (const OptionRow* row : rows) {
    table += fmt::format("| {} | {} | {} | ", OptionCell(*row), Cell(row->help),
                         Cell(row->default_text));
    if (is_tunable) {
      table += row->worker_variable.empty() ? "" : fmt::format("`{}`", row->worker_variable);
      table += " | ";
      table += row->config_key.empty() ? "" : fmt::format("`{}`", row->config_key);
    } else {
      table += row->is_horovod ? "yes" : "";
    }
    table += " |\n";
  }
  return table + "\n";
}

}  // namespace

std::string WithValue(const Spelling& spelling) {
  const OptionRow& row = *spelling.row;
  if (row.type == OptionType::kOptionalChoice) {
    return fmt::format("{}[={}]", spelling.text, row.value_name);
  }
  return row.value_name.empty() ? std::string(spelling.text)
                                : fmt::format("{} {}", spelling.text, row.value_name);
}

std::string SpellingLine(const OptionRow& row) {
  std::string line;
  for (const Spelling& spelling : SpellingsOf(row)) {
    if (spelling.is_hidden) continue;
    line += (line.empty() ? "" : ", ") + WithValue(spelling);
  }
  return line;
}

std::vector<const OptionRow*> RowsOf(OptionGroup group) {
  std::vector<const OptionRow*> rows;
  for (const OptionRow& row : OptionTable()) {
    if (row.group == group) rows.push_back(&row);
  }
  return rows;
}

std::vector<const OptionRow*> RowsOfCheck() {
  std::vector<const OptionRow*> rows;
  for (const OptionRow& row : CheckOptionTable()) rows.push_back(&row);
  for (const OptionId id : kCheckOptions) rows.push_back(&RowOf(id));
  return rows;
}

std::string CheckHelp(size_t width) {
  width = std::max<size_t>(width, 60);
  std::string help = "usage: hvdray check [OPTION...] [[--] COMMAND [ARGUMENT...]]\n\n";
  help += Wrap(
      "Says whether a job would start on these hosts, and what each of them is like: reachable, "
      "versions, clock, disk, limits, CPUs, memory, GPUs, network, working directory, command. "
      "Starts agents as run does, but no worker, and leaves nothing running. Each finding says "
      "how to mend it.",
      0, width);
  help += "\nExamples:\n";
  for (const HelpExample& example : kCheckExamples) {
    help += fmt::format("  # {}\n  {}\n", example.text, example.command);
  }
  help += "\nOptions:\n";
  for (const OptionRow* row : RowsOfCheck()) {
    help += fmt::format("  {}\n", SpellingLine(*row));
    help += Wrap(HelpOf(*row), 8, width);
  }
  help += "\n";
  help += Wrap(
      "All other options of run are taken as well, so that the words of a job can be checked as "
      "they are; they make no difference here.",
      0, width);
  help += "\n";
  help += Wrap(
      "Exit codes: 0 a job would start, maybe with warnings; else what run would return: 2 wrong "
      "usage or too few slots, 125 hosts or network, 126 command not executable, 127 not found. "
      "129, 130, 131, 143: stopped by a signal.",
      0, width);
  return help;
}

std::string RunHelp(size_t width) {
  width = std::max<size_t>(width, 60);
  std::string help = "usage: hvdray run [OPTION...] [--] COMMAND [ARGUMENT...]\n\n";
  help += Wrap(
      "Starts COMMAND once for each slot, gives every worker its rank by Horovod's and "
      "torchrun's variables, shows their output, and ends when they end.",
      0, width);
  help += "\nExamples:\n";
  for (const HelpExample& example : kRunExamples) {
    help += fmt::format("  # {}\n  {}\n", example.text, example.command);
  }
  for (const OptionGroup group : kGroupOrder) {
    help += fmt::format("\n{}:\n", TitleOf(group));
    for (const OptionRow* row : RowsOf(group)) {
      help += fmt::format("  {}\n", SpellingLine(*row));
      help += Wrap(HelpOf(*row), 8, width);
    }
  }
  help += "\n";
  help += Wrap(
      "Options end at the first word that is none, or at --. Each option is also a key of "
      "the job file (num_proc) and an environment variable (HVDRAY_NUM_PROC); flags win, "
      "then the environment, then files. Horovod's own options may be shortened "
      "(--slots for --slots-per-host). Times are seconds or have a unit: 0.5, 200ms, 2m.",
      0, width);
  help += "\n";
  help += Wrap(
      "Exit codes: the code of the worker that failed first (128+n for signal n); 2 wrong "
      "usage, nothing was started; 124 --timeout; 125 hvdray could not do its part; 126 "
      "command not executable; 127 not found. All of them: docs/cli.md.",
      0, width);
  return help;
}

// The manual page and the completion for bash.

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
      "versions, clocks, disks, limits, CPUs, memory, GPUs, network, working directory and "
      "command.\n"
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

// docs/cli.md. Sentences that no row holds stand here, once.

std::string RunMarkdown() {
  std::string page(kIntroduction);
  for (const HelpExample& example : kRunExamples) {
    page += ExampleLine(example);
  }
  page += kRules;
  page += "## Options\n\n";
  for (const OptionGroup group : kGroupOrder) page += GroupTable(group);
  page += kExitCodes;
  return page + "\n" + CheckMarkdown() + "\n" + ReplayMarkdown();
}

std::string CheckMarkdown() {
  std::string page(kCheckIntroduction);
  for (const HelpExample& example : kCheckExamples) {
    page += ExampleLine(example);
  }
  page += kCheckRules;
  for (const OptionRow& row : CheckOptionTable()) {
    page += fmt::format("| {} | {} |\n", OptionCell(row), Cell(row.help));
  }
  return page;
}

}  // namespace hvdray
