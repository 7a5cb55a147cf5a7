// SPDX-License-Identifier: Apache-2.0
// The command and option tables as help, man pages, docs/cli.md and completion.
#include "launcher/job/help.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <vector>

#include "base/status.h"

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

/// Groups in the order in which they are shown.
constexpr std::array kGroupOrder = {
    OptionGroup::kJob,      OptionGroup::kHosts,    OptionGroup::kFailure,
    OptionGroup::kOutput,   OptionGroup::kPlan,     OptionGroup::kNetwork,
    OptionGroup::kElastic,  OptionGroup::kRay,      OptionGroup::kTunables,
    OptionGroup::kAutotune, OptionGroup::kTimeline, OptionGroup::kStallCheck,
    OptionGroup::kLibrary,  OptionGroup::kLogging,  OptionGroup::kController,
    OptionGroup::kGeneral};

/// The command whose options are those of the table, shown by group.
bool IsRun(const CommandRow& command) { return command.options.empty(); }

/// One visible spelling with its value, as one types it.
std::string WithValue(const Spelling& spelling) {
  const OptionRow& row = *spelling.row;
  if (row.type == OptionType::kOptionalChoice) {
    return fmt::format("{}[={}]", spelling.text, row.value_name);
  }
  return row.value_name.empty() ? std::string(spelling.text)
                                : fmt::format("{} {}", spelling.text, row.value_name);
}

/// "-np N, --num-proc N": the visible spellings with their value.
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

/// Calls `use` for each option in the order of help; for run, `title` before each group.
template <typename Title, typename Use>
void ForEachOption(const CommandRow& command, const Title& title, const Use& use) {
  if (IsRun(command)) {
    for (const OptionGroup group : kGroupOrder) {
      title(TitleOf(group));
      for (const OptionRow* row : RowsOf(group)) use(*row);
    }
    return;
  }
  for (const OptionRow& row : OptionsOf(command)) use(row);
}

std::string HelpOf(const CommandRow& command, const OptionRow& row) {
  std::string text(row.help);
  // As LayerOfVariables() reads them; those of run and check have one each.
  if (!command.is_launch && row.group == OptionGroup::kRay) {
    std::string key(row.name);
    std::ranges::replace(key, '-', '_');
    text += fmt::format(" Also set by {}.", VariableOfKey(key));
  }
  if (!row.default_text.empty() && row.default_text != "off" && row.default_text != "on") {
    text += fmt::format(" [{}]", row.default_text);
  }
  return text;
}

/// Text as roff prints it unchanged: a line must not begin with '.' or '\'', '-' is a minus, '"'
/// quotes arguments.
std::string Roff(std::string_view text) {
  std::string roff;
  for (const char c : text) {
    const bool is_first = roff.empty() || roff.back() == '\n';
    if (is_first && (c == '.' || c == '\'')) roff += "\\&";
    if (c == '\\') {
      roff += "\\e";
    } else if (c == '-') {
      roff += "\\-";
    } else if (c == '"') {
      roff += "\\(dq";
    } else {
      roff += c;
    }
  }
  return roff;
}

constexpr std::string_view kManHead =
    ".\\\" Generated from the option table by hvdray-gen-cli; do not edit.\n";
constexpr size_t kManWidth = 90;
constexpr size_t kMarkdownWidth = 118;

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

/// The visible ones, with a blank between.
std::string WordsOf(const std::vector<Spelling>& spellings, bool is_only_with_value) {
  std::string words;
  for (const Spelling& spelling : spellings) {
    const OptionType type = spelling.row->type;
    const bool takes_value = type != OptionType::kFlag && type != OptionType::kAction &&
                             type != OptionType::kOptionalChoice;
    if (spelling.is_hidden || (is_only_with_value && !takes_value)) continue;
    words += (words.empty() ? "" : " ") + std::string(spelling.text);
  }
  return words;
}

constexpr std::string_view kIntroduction =
    R"(# hvdray run

Generated from the option table (`launcher/job/option_table.cc`) by `hvdray-gen-cli`; do not edit.

    hvdray run [OPTION...] [--] COMMAND [ARGUMENT...]

Starts COMMAND once per slot, tells every worker its rank in Horovod's and torchrun's variables, shows
the workers' output, and exits when they exit. Called as `horovodrun`, the program does the same.

)";

constexpr std::string_view kRules = R"(
## Command-line syntax

* Options end at the first word that is not an option, or at `--`; the rest is the command.
* A value is the next word, follows `=`, or directly follows a single-letter option: `-np 4`, `-np=4`,
  `-p22`. Write a value that begins with `-` as `--option=-value`; negative numbers and values that contain
  a space need no `=`.
* Horovod's long options may be abbreviated as long as only one of them matches (`--slots 4`); hvdray's own
  may not, so that a new one never breaks an old script.
* Of a repeated option the last one counts; `-x` and `--network-interface` accumulate; two different files of
  `-f` or `--cluster` are an error.
* Times are in seconds or have a unit: `0.5`, `200ms`, `2m`, `1.5h`.

## Where values come from

The first of these that sets an option wins; `hvdray run --print-config` shows each value with its origin:

1. flags;
2. `HVDRAY_<LONG_NAME>` in the environment (`HVDRAY_NUM_PROC=4`; flags as `1` or `0`; lists with commas),
   then `HOROVOD_START_TIMEOUT` and `HOROVOD_ELASTIC_TIMEOUT`;
3. the job file of `-f`;
4. the section `hvdray: {run: ...}` of the file of `--cluster`;
5. Horovod's `--config-file`, which holds tunables only;
6. the user file, `$XDG_CONFIG_HOME/hvdray/config.yaml` or `~/.config/hvdray/config.yaml`;
7. the default.

Of `-x` all sources accumulate, and for the same name the higher one wins. An unknown or repeated key in a file
is an error; an unknown `HVDRAY_*` variable is a warning. In paths on this machine `~` and `~user` are home
directories, wherever they are written.

## Naming hosts

`-H` takes hosts separated by commas, a host file one host per line:

| `-H` | host file | meaning |
|---|---|---|
| `node1:4` | `node1 slots=4`, `node1:4` | four slots on node1 |
| `alice@node1:4` | `alice@node1 slots=4`, `node1 slots=4 user=alice` | log in as alice |
| `ssh://node1:2222:4` | `ssh://node1:2222 slots=4`, `node1 slots=4 port=2222` | SSH port 2222 instead of that of `-p` |
| `[fe80::1]:4` | `[fe80::1] slots=4` | an IPv6 address; with a zone `[fe80::1%eth0]` |
| `node[01-32]:4` | `node[01-32] slots=4` | node01, node02, ... with four slots each |
| `r[1-2]n[1,3,5-8]:4` | `r[1-2]n[1,3,5-8] slots=4` | lists and several brackets; the last one varies fastest |

* The number after a plain host is always its slots, as for horovodrun.
* Slots may be 0. `-H` needs them; a host file may omit them: then `--slots-per-host N` counts, else 1, but no
  more than Open MPI's `max_slots=M`, and a line that is a name alone may be repeated, once for each slot. Other
  `key=value` words are ignored, except for typos (`slot=4`). `#` begins a comment.
* A padded range keeps its zeros. A list has at most 100,000 hosts. Quote brackets in a shell:
  `-H 'node[01-32]:4'`.
* No other host may appear twice, not even with another user or port, or in two ranges. Names that differ only by
  case or by a dot at the end are one host.
* Workers see their host's plain name (`HOROVOD_HOSTNAME`); an IPv6 address, which Horovod would cut, in its shortest
  form with `-` for `:`: `fe80--1` for `fe80::1`, `0--1` for `::1`, `fe80--1_eth0` for `fe80::1%eth0`.

If no flag, variable or file names hosts, `run`, `check`, `bench` and `serve` take those of the batch system they run
under, from the first of these variables that is set, and say so on stderr. `-H localhost:N` stays on this machine, as do
the Python package and, except under LSF, `horovodrun`.

| variable | slots |
|---|---|
| `SLURM_STEP_NODELIST`, within a step (`srun`) of this job that is not the shell of `salloc` | `SLURM_STEP_TASKS_PER_NODE`, else as below |
| `SLURM_JOB_NODELIST` | `SLURM_TASKS_PER_NODE`, else `SLURM_NTASKS_PER_NODE`, else `SLURM_JOB_CPUS_PER_NODE`, else, for one host, `SLURM_CPUS_ON_NODE` |
| `PBS_NODEFILE` | one per line of the file |
| `LSB_HOSTS` | one per word |
| `LSB_MCPU_HOSTS` | the number after each host |

A variable that does not parse is an error. So is `srun hvdray run` with several tasks, each of which would start a whole
job (exit 2): leave out `srun`.

## The job file

Keys are the long option names with `_`. `command` is a list of words, or one string for `/bin/sh -c`.

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

The environment of `hvdray`, minus

* `HVDRAY_*` (except what [collectives](collective.md) read), `BASH_FUNC_*`, `OLDPWD`, `_HOROVOD_SECRET_KEY`;
* Horovod's and torchrun's variables of another job (`RANK`, `TORCHELASTIC_*`, `PET_*`);
* without `--keep-rank-variables`, the rank of `hvdray` itself under `srun`, `mpirun` and the like (`SLURM_PROCID`,
  `SLURM_LOCALID`, `SLURM_NTASKS`, `OMPI_COMM_WORLD_*`, `PMIX_RANK`, `PMI_*`, `PALS_*`, `FLUX_TASK_*`, ...); what describes
  the whole batch job stays (`SLURM_JOB_ID`);
* on other hosts `*CUDA_VISIBLE_DEVICES`, `HIP_VISIBLE_DEVICES`, `ROCR_VISIBLE_DEVICES`, `SSH_*`, `XDG_*`, `DBUS_*`,
  `DISPLAY`, `XAUTHORITY` and `TMPDIR`.

With `--clean-env` only `PATH`, `HOME`, `LANG`, `HOROVOD_*` and `NCCL_*` are inherited. Tunables are added next, then
`-x`, then the worker's own rank variables. `-x` of one of those is refused (exit 2), except that it wins for
`NCCL_SOCKET_IFNAME`, `GLOO_SOCKET_IFNAME` and `HOROVOD_GLOO_IFACE`, and that with `--no-torch-env` torchrun's variables
are yours.

Where `OMP_NUM_THREADS` is not set, `OMP_NUM_THREADS`, `MKL_NUM_THREADS` and `OPENBLAS_NUM_THREADS` are the CPUs of the
host (of its affinity mask) divided by the workers there, at least 1; `--omp-threads N` or `inherit` overrides that.

)";

constexpr std::string_view kExitCodes = R"(Exit codes: [errors](errors.md#exit-codes).
)";

constexpr std::string_view kTableHead = "| option | meaning |\n|---|---|\n";

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

std::string OptionOfRunCell(const OptionRow& row) {
  return OptionCell(row) + (row.is_horovod && row.worker_variable.empty() ? "°" : "");
}

std::string GroupTable(OptionGroup group) {
  const CommandRow& run = CommandNamed("run");
  std::string table = fmt::format("### {}\n\n", TitleOf(group));
  const std::vector<const OptionRow*> rows = RowsOf(group);
  const bool is_tunable = std::any_of(
      rows.begin(), rows.end(), [](const OptionRow* row) { return !row->worker_variable.empty(); });
  table += is_tunable ? "| option | meaning | worker variable | config file |\n|---|---|---|---|\n"
                      : std::string(kTableHead);
  for (const OptionRow* row : rows) {
    table += fmt::format("| {} | {} |", OptionOfRunCell(*row), Cell(HelpOf(run, *row)));
    if (is_tunable) {
      table += row->worker_variable.empty() ? " |" : fmt::format(" `{}` |", row->worker_variable);
      table += row->config_key.empty() ? " |" : fmt::format(" `{}` |", row->config_key);
    }
    table += "\n";
  }
  return table + "\n";
}

/// The options that the section of `command` in docs/cli.md names: those that check shares with
/// run are in the tables of run.
std::vector<OptionRow> RowsOfSection(const CommandRow& command) {
  std::vector<OptionRow> rows;
  if (IsRun(command)) return rows;
  for (const OptionRow& row : OptionsOf(command)) {
    if (!command.is_launch || row.id >= OptionId::kJson) rows.push_back(row);
  }
  return rows;
}

std::string TableLine(const CommandRow& command, const OptionRow& row) {
  return fmt::format("| {} | {} |\n", OptionCell(row), Cell(HelpOf(command, row)));
}

/// "`--tmux`, `--screen`": long spellings, of which none has two meanings.
void AddName(const OptionRow& row, std::string* names) {
  const std::vector<Spelling> spellings = SpellingsOf(row);
  const auto name = std::ranges::find_if(
      spellings, [](const Spelling& one) { return one.is_long() && !one.is_hidden; });
  HVDRAY_CHECK(name != spellings.end());
  *names += fmt::format("{}`{}`", names->empty() ? "" : ", ", name->text);
}

/// The lines that would stand, word for word, in the sections of several commands, in their order.
class SharedLines {
 public:
  SharedLines() {
    const CommandRow& run = CommandNamed("run");
    std::vector<std::string> of_run, seen;
    for (const OptionRow& row : OptionTable()) of_run.push_back(TableLine(run, row));
    for (const CommandRow& command : CommandTable()) {
      for (const OptionRow& row : RowsOfSection(command)) {
        const std::string line = TableLine(command, row);
        const bool is_of_run = std::ranges::find(of_run, line) != of_run.end();
        if (Has(line)) continue;
        if (is_of_run) {
          AddName(row, &names_of_run_);
          shared_.push_back(line);
        } else if (std::ranges::find(seen, line) == seen.end()) {
          seen.push_back(line);
        } else {
          shared_.push_back(line);
          table_ += line;
        }
      }
    }
  }

  bool Has(const std::string& line) const {
    return std::ranges::find(shared_, line) != shared_.end();
  }

  std::string Section() const {
    return fmt::format(
        "# Options that several commands take\n\n{}\n{}{}",
        Wrap(fmt::format("As for [run](#options): {}.", names_of_run_), 0, kMarkdownWidth),
        kTableHead, table_);
  }

 private:
  std::vector<std::string> shared_;
  std::string names_of_run_;  ///< Of those that stand in the tables of run.
  std::string table_;         ///< The others.
};

/// The options of `command`: its own as a table, the shared ones by name.
std::string OptionsInMarkdown(const CommandRow& command, const SharedLines& shared) {
  std::string own, others;
  for (const OptionRow& row : RowsOfSection(command)) {
    const std::string line = TableLine(command, row);
    if (!shared.Has(line)) {
      own += line;
    } else {
      AddName(row, &others);
    }
  }
  if (!own.empty()) own = "\n" + std::string(kTableHead) + own;
  if (others.empty()) return own;
  constexpr std::string_view kLink = "[Shared options](#options-that-several-commands-take)";
  return fmt::format("{}\n{}", own, Wrap(fmt::format("{}: {}.", kLink, others), 0, kMarkdownWidth));
}

std::string RunInMarkdown(const std::string& examples) {
  std::string page = std::string(kIntroduction) + examples + std::string(kRules) +
                     "## Options\n\nIn brackets: the default. °: horovodrun has it, too.\n\n";
  for (const OptionGroup group : kGroupOrder) page += GroupTable(group);
  return page + std::string(kExitCodes);
}

std::string MarkdownOf(const CommandRow& command, const SharedLines& shared) {
  std::string examples;
  for (const HelpExample& example : command.examples) examples += ExampleLine(example);
  if (IsRun(command)) return RunInMarkdown(examples) + "\n" + shared.Section();
  std::string page = fmt::format("# hvdray {}\n\n    hvdray {} {}\n\n", command.name, command.name,
                                 command.arguments);
  page += Wrap(fmt::format("{} {}{}{}", command.description, command.notes,
                           command.notes.empty() ? "" : " ", command.see),
               0, kMarkdownWidth);
  page += "\n" + examples + "\n";
  page += Wrap(fmt::format("Exit codes: {}", command.exit_codes), 0, kMarkdownWidth);
  return page + OptionsInMarkdown(command, shared);
}

/// submit's options are for the head, where its own files count.
bool HasUserFile(const CommandRow& command) {
  return command.is_launch && command.name != "submit";
}

constexpr std::string_view kUserFile =
    "Defaults of yours: ~/.config/hvdray/config.yaml (or $XDG_CONFIG_HOME/hvdray/config.yaml), "
    "with "
    "the long option names as keys.";

}  // namespace

std::string Help(const CommandRow& command, size_t width) {
  width = std::max<size_t>(width, 60);
  std::string help = fmt::format("usage: hvdray {} {}\n\n", command.name, command.arguments);
  help += Wrap(command.description, 0, width) + "\nExamples:\n";
  for (const HelpExample& example : command.examples) {
    help += fmt::format("  # {}\n  {}\n", example.text, example.command);
  }
  if (!IsRun(command)) help += "\nOptions:\n";
  ForEachOption(
      command, [&](std::string_view title) { help += fmt::format("\n{}:\n", title); },
      [&](const OptionRow& row) {
        help += fmt::format("  {}\n", SpellingLine(row)) + Wrap(HelpOf(command, row), 8, width);
      });
  if (!command.notes.empty()) help += "\n" + Wrap(command.notes, 0, width);
  if (HasUserFile(command)) help += "\n" + Wrap(kUserFile, 0, width);
  return help + "\n" + Wrap(fmt::format("Exit codes: {}", command.exit_codes), 0, width);
}

std::string OverviewHelp() {
  std::string help =
      "hvdray starts data-parallel training: unmodified Horovod scripts, torch.distributed\n"
      "scripts, or any command that reads its rank from the environment.\n\n"
      "  hvdray run -np 4 -- python train.py\n"
      "  hvdray run --cluster configs/quickstart.yaml\n\n"
      "Commands:\n";
  for (const CommandRow& command : CommandTable()) {
    help += fmt::format("  {:<16}{}\n", command.name, command.summary);
  }
  return help +
         "\nhvdray COMMAND --help shows a command's options; ~/.config/hvdray/config.yaml holds "
         "your "
         "defaults.\nExit codes: docs/errors.md\n";
}

// Manual pages.

std::string ManPage(const CommandRow& command) {
  std::string title = VariableOfKey(command.name);
  title.replace(title.find('_'), 1, "-");
  std::string page = fmt::format(
      "{}.TH {} 1\n.SH NAME\nhvdray\\-{} \\- {}\n.SH SYNOPSIS\n.B hvdray {}\n{}\n"
      ".SH DESCRIPTION\n{}.SH EXAMPLES\n",
      kManHead, Roff(title), command.name, command.summary, command.name, Roff(command.arguments),
      Roff(Wrap(command.description, 0, kManWidth)));
  for (const HelpExample& example : command.examples) {
    page += fmt::format(".TP\n.B {}\n{}\n", Roff(example.command), Roff(example.text));
  }
  page += ".SH OPTIONS\n";
  ForEachOption(
      command, [&](std::string_view group) { page += fmt::format(".SS {}\n", Roff(group)); },
      [&](const OptionRow& row) {
        page += fmt::format(".TP\n.B {}\n{}", Roff(SpellingLine(row)),
                            Roff(Wrap(HelpOf(command, row), 0, kManWidth)));
      });
  if (!command.notes.empty()) page += ".SH NOTES\n" + Roff(Wrap(command.notes, 0, kManWidth));
  page += ".SH EXIT STATUS\n" + Roff(Wrap(command.exit_codes, 0, kManWidth));
  if (HasUserFile(command)) {
    page +=
        ".SH FILES\n.TP\n.I $XDG_CONFIG_HOME/hvdray/config.yaml\n"
        "User defaults, with the long option names as keys.\n";
  }
  return page + ".SH SEE ALSO\nhvdray(1)\n";
}

std::string OverviewManPage() {
  std::string page(kManHead);
  page +=
      ".TH HVDRAY 1\n.SH NAME\n"
      "hvdray \\- start data\\-parallel training on one host, many hosts or a Ray cluster\n"
      ".SH SYNOPSIS\n.B hvdray\nCOMMAND [OPTION...]\n"
      ".SH DESCRIPTION\n"
      "Starts unmodified Horovod scripts, torch.distributed scripts, or any command that reads\n"
      "its rank from the environment, and reports the result. Called as horovodrun, it is\n"
      "hvdray\\-run(1).\n"
      ".SH COMMANDS\n";
  std::string pages;
  for (const CommandRow& command : CommandTable()) {
    page += fmt::format(".TP\n.B {}\n{}\n", command.name, Roff(command.summary));
    if (command.arguments.empty()) continue;
    pages += fmt::format("{}hvdray\\-{}(1)", pages.empty() ? "" : ",\n", command.name);
  }
  return page +
         ".SH EXIT STATUS\n"
         "The command's; 2 for an unknown command.\n"
         ".SH SEE ALSO\n" +
         pages + "\n";
}

// docs/cli.md. Sentences that no row holds stand here, once.

std::string CliMarkdown() {
  const SharedLines shared;
  std::string page;
  for (const CommandRow& command : CommandTable()) {
    if (command.arguments.empty()) continue;
    page += (page.empty() ? "" : "\n") + MarkdownOf(command, shared);
  }
  return page;
}

// Completion for bash.

std::string BashCompletion() {
  std::string names, of_people, cases;
  for (const CommandRow& command : CommandTable()) {
    names += fmt::format("{} ", command.name);
    if (command.arguments.empty()) continue;
    of_people += fmt::format("{}{}", of_people.empty() ? "" : " ", command.name);
    cases += fmt::format("    {}) words='{}' ;;\n", command.name,
                         WordsOf(SpellingsOf(command), /*is_only_with_value=*/false));
  }
  std::string script = fmt::format(
      R"bash(# Generated from the option table by hvdray-gen-cli; do not edit.
_hvdray_run() {{
  local word="${{COMP_WORDS[COMP_CWORD]}}" before="${{COMP_WORDS[COMP_CWORD-1]}}" i
  local first=1 command=run words
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
      R"bash(  esac
  # After the first word that is neither an option nor its value, files belong to the command.
  local with_value=' {} '
  for (( i = first; i < COMP_CWORD; i++ )); do
    if [[ $command != run && $command != check ]]; then
      break
    elif [[ ${{COMP_WORDS[i]}} != -* && $with_value != *" ${{COMP_WORDS[i-1]}} "* ]] ||
       [[ ${{COMP_WORDS[i]}} == -- ]]; then
      COMPREPLY=($(compgen -f -- "$word"))
      return
    fi
  done
  if [[ $word == -* ]]; then
    COMPREPLY=($(compgen -W "$words" -- "$word"))
  elif [[ $command == run || $command == check ]]; then
    COMPREPLY=($(compgen -c -f -- "$word"))
  else
    COMPREPLY=($(compgen -f -- "$word"))
  fi
}}
complete -o filenames -F _hvdray_run hvdray horovodrun
)bash",
      WordsOf(SpellingsOf(CommandNamed("check")), /*is_only_with_value=*/true));
  return script;
}

}  // namespace hvdray
