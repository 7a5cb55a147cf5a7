// SPDX-License-Identifier: Apache-2.0
// The command and option tables as help and man pages.
#include "launcher/job/help.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <vector>

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
  for (const Spelling& spelling : Spellings(row)) {
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

/// Calls `use` for each command, and `title` before each group.
template <typename Title, typename Use>
void ForEachCommand(const Title& title, const Use& use) {
  for (size_t group = 0; group < kCommandGroupTitles.size(); ++group) {
    title(kCommandGroupTitles[group]);
    for (const CommandRow& command : CommandTable()) {
      if (command.group == static_cast<CommandGroup>(group)) use(command);
    }
  }
}

std::string HelpOf(const CommandRow& command, const OptionRow& row) {
  std::string text(row.help);
  // As LayerOfVariables() reads them; those of run and check have one each.
  if (!command.is_launch && row.group == OptionGroup::kRay) {
    text += fmt::format(" Also set by {}.", VariableOfKey(OptionKeyOf(row.name)));
  }
  const std::string usual = DefaultText(row);
  if (!usual.empty() && usual != "off") text += fmt::format(" [{}]", usual);
  if (!row.worker_variable.empty()) text += fmt::format(" Sets {}", row.worker_variable);
  if (!row.config_key.empty()) text += fmt::format("; in --config-file: {}", row.config_key);
  if (!row.worker_variable.empty()) text += '.';
  return text;
}

/// Text as roff prints it unchanged, wherever it is wrapped: a line must not begin with '.' or
/// '\'', '-' is a minus, '"' quotes arguments.
std::string Roff(std::string_view text) {
  std::string roff;
  for (const char c : text) {
    const bool is_first = roff.empty() || roff.back() == ' ';
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
      "  hvdray run --cluster configs/quickstart.yaml\n";
  ForEachCommand([&](std::string_view title) { help += fmt::format("\n{}:\n", title); },
                 [&](const CommandRow& command) {
                   help += fmt::format("  {:<16}{}\n", command.name, command.summary);
                 });
  return help +
         "\nhvdray COMMAND --help shows a command's options; ~/.config/hvdray/config.yaml holds "
         "your "
         "defaults.\nExit codes: docs/errors.md\n";
}

// Manual pages.

std::string NewestRelease(std::string_view changelog) {
  constexpr std::string_view kHeading = "\n## [";  // "## [0.1.0] - 2026-11-23"
  for (size_t at = changelog.find(kHeading); at != changelog.npos;
       at = changelog.find(kHeading, at + 1)) {
    const std::string_view line = changelog.substr(at + 5, changelog.find('\n', at + 1) - at - 5);
    const size_t split = line.find("] - ");
    if (split != line.npos) {
      return fmt::format("{} \"hvdray {}\"", line.substr(split + 4), line.substr(0, split));
    }
  }
  return {};
}

std::string ManTitle(std::string_view name, int section, std::string_view release) {
  std::string title(name);
  std::ranges::transform(title, title.begin(), [](char c) {
    return c >= 'a' && c <= 'z' ? static_cast<char>(c - 'a' + 'A') : c;
  });
  return fmt::format(
      ".\\\" Generated from the option table by hvdray-gen-cli; do not edit.\n.TH {} {} {}\n",
      Roff(title), section, release);
}

std::string RoffText(std::string_view text) { return Wrap(Roff(text), 0, 80); }

std::string ManPage(const CommandRow& command, std::string_view release) {
  std::string page = fmt::format(
      "{}.SH NAME\n{}.SH SYNOPSIS\n.B hvdray {}\n{}\n"
      ".SH DESCRIPTION\n{}.SH EXAMPLES\n",
      ManTitle(fmt::format("hvdray-{}", command.name), 1, release),
      Wrap(fmt::format("hvdray\\-{} \\- {}", command.name, command.summary), 0, 80), command.name,
      Roff(command.arguments), RoffText(command.description));
  for (const HelpExample& example : command.examples) {
    page += fmt::format(".TP\n.B {}\n{}\n", Roff(example.command), Roff(example.text));
  }
  page += ".SH OPTIONS\n";
  ForEachOption(
      command, [&](std::string_view group) { page += fmt::format(".SS {}\n", Roff(group)); },
      [&](const OptionRow& row) {
        page +=
            fmt::format(".TP\n.B {}\n{}", Roff(SpellingLine(row)), RoffText(HelpOf(command, row)));
      });
  if (!command.notes.empty()) page += ".SH NOTES\n" + RoffText(command.notes);
  page += ".SH EXIT STATUS\n" + RoffText(command.exit_codes);
  if (HasUserFile(command)) {
    page +=
        ".SH FILES\n.TP\n.I $XDG_CONFIG_HOME/hvdray/config.yaml\n"
        "User defaults, with the long option names as keys.\n";
  }
  return page + ".SH SEE ALSO\nhvdray(1)\n";
}

std::string OverviewManPage(std::string_view release) {
  std::string page = ManTitle("hvdray", 1, release);
  page +=
      ".SH NAME\n"
      "hvdray \\- start data\\-parallel training on one host, many hosts or a Ray cluster\n"
      ".SH SYNOPSIS\n.B hvdray\nCOMMAND [OPTION...]\n"
      ".SH DESCRIPTION\n"
      "Starts unmodified Horovod scripts, torch.distributed scripts, or any command\n"
      "that reads its rank from the environment, and reports the result. Called as\n"
      "horovodrun, it is hvdray\\-run(1).\n"
      ".SH COMMANDS\n";
  std::string pages;
  ForEachCommand([&](std::string_view title) { page += fmt::format(".SS {}\n", title); },
                 [&](const CommandRow& command) {
                   page += fmt::format(".TP\n.B {}\n{}\n", command.name, Roff(command.summary));
                   if (command.arguments.empty()) return;
                   pages +=
                       fmt::format("{}hvdray\\-{}(1)", pages.empty() ? "" : ",\n", command.name);
                 });
  return page +
         ".SH EXIT STATUS\n"
         "The command's; 2 for an unknown command.\n"
         ".SH SEE ALSO\n" +
         pages + "\n";
}

}  // namespace hvdray
