// The terminal's form of the option table.
#include "launcher/job/help.h"

#include <fmt/format.h>

#include <algorithm>

#include "launcher/job/help_text.h"

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
      "versions, clock, disk, limits, CPUs, memory, GPUs, network, working folder, command. "
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

}  // namespace hvdray
