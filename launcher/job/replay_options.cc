// SPDX-License-Identifier: Apache-2.0
#include "launcher/job/replay_options.h"

#include <fmt/format.h>

#include "launcher/job/argv.h"
#include "launcher/job/help_text.h"

namespace hvdray {
namespace {

// clang-format off
constexpr OptionRow kReplayRows[] = {
    {.id = OptionId::kJson, .name = "json", .spellings = "--json", .type = OptionType::kFlag,
     .default_text = "off", .group = OptionGroup::kPlan,
     .help = "Print one JSON object (docs/replay.md) instead of text."},
    {.id = OptionId::kQuiet, .name = "quiet", .spellings = "-q --quiet", .type = OptionType::kFlag,
     .default_text = "off", .group = OptionGroup::kOutput,
     .help = "Print only what went wrong."},
    {.id = OptionId::kHelp, .name = "help", .spellings = "-h --help",
     .type = OptionType::kAction, .group = OptionGroup::kGeneral,
     .help = "Show this help and exit."},
    {.id = OptionId::kVersion, .name = "version", .spellings = "-v --version",
     .type = OptionType::kAction, .group = OptionGroup::kGeneral,
     .help = "Show the version and exit."},
};
// clang-format on

constexpr HelpExample kExamples[] = {
    {"what happened in that job", "hvdray replay job.record"},
    {"as a test: silent when all is well", "hvdray replay -q job.record"},
    {"for a program to read", "hvdray replay --json job.record"},
};

const std::vector<Spelling>& ReplaySpellings() {
  static const std::vector<Spelling> spellings = [] {
    std::vector<Spelling> all;
    for (const OptionRow& row : kReplayRows) {
      for (const Spelling& spelling : SpellingsOf(row)) all.push_back(spelling);
    }
    return all;
  }();
  return spellings;
}

void Take(const ParsedOption& option, ReplayRequest* request) {
  const OptionId id = option.row->id;
  request->is_json |= id == OptionId::kJson;
  request->is_quiet |= id == OptionId::kQuiet;
  request->wants_help |= id == OptionId::kHelp;
  request->wants_version |= id == OptionId::kVersion;
}

/// "\\-" is a minus to roff.
std::string Minus(std::string_view text) {
  std::string roff;
  for (const char c : text) roff += c == '-' ? std::string("\\-") : std::string(1, c);
  return roff;
}

}  // namespace

std::span<const OptionRow> ReplayOptionTable() { return kReplayRows; }

Result<ReplayRequest> ResolveReplay(std::span<const std::string> args) {
  constexpr std::string_view kUsage = "hvdray replay [OPTION...] FILE";
  ReplayRequest request;
  bool has_path = false;
  while (true) {
    HVDRAY_ASSIGN_OR_RETURN(const ParsedArgv argv, ParseWordsOf("replay", ReplaySpellings(), args));
    for (const ParsedOption& option : argv.options) Take(option, &request);
    if (request.wants_help || request.wants_version || argv.command.empty()) break;
    if (has_path) {
      return Status(ErrorCode::kUsage, fmt::format("one file, not '{}' too", argv.command.front()),
                    std::string(kUsage));
    }
    has_path = true;
    request.path = argv.command.front();
    args = args.last(argv.command.size() - 1);
  }
  if (request.wants_help || request.wants_version) return request;
  if (request.path.empty()) {
    return Status(ErrorCode::kUsage, "which recording?", std::string(kUsage));
  }
  return request;
}

std::string ReplayHelp() {
  std::string help =
      "usage: hvdray replay [OPTION...] FILE\n\n"
      "Runs the elastic driver over the recording of a job (hvdray run --record) in\n"
      "virtual time, prints what changed and when, and stops at the first broken rule.\n"
      "Starts nothing.\n\n"
      "Examples:\n";
  for (const HelpExample& example : kExamples) {
    help += fmt::format("  # {}\n  {}\n", example.text, example.command);
  }
  help += "\nOptions:\n";
  for (const OptionRow& row : kReplayRows) {
    help += fmt::format("  {}\n        {}\n", SpellingLine(row), row.help);
  }
  return help +
         "\nExit codes: 0 every rule held; 1 a rule was broken, or the job ends otherwise\n"
         "than it was recorded; 2 wrong usage or a file that is no recording.\n";
}

std::string ReplayMarkdown() {
  std::string page =
      "# hvdray replay\n\n"
      "    hvdray replay [OPTION...] FILE\n\n"
      "Runs the elastic driver over a recording in virtual time and holds it to its rules: "
      "[replay](replay.md).\n\n";
  for (const HelpExample& example : kExamples) {
    page += fmt::format("    {:<58}# {}\n", example.command, example.text);
  }
  page +=
      "\nExit codes: 0 every rule held; 1 a rule was broken, or the job ends otherwise than it was "
      "recorded; 2 wrong usage or a\nfile that is no recording.\n\n"
      "| option | meaning |\n|---|---|\n";
  for (const OptionRow& row : kReplayRows) {
    std::string cell;
    for (const Spelling& spelling : SpellingsOf(row)) {
      cell += fmt::format("{}`{}`", cell.empty() ? "" : ", ", spelling.text);
    }
    page += fmt::format("| {} | {} |\n", cell, row.help);
  }
  return page;
}

std::string ReplayManPage() {
  std::string page =
      ".\\\" Generated from the option table by hvdray-gen-cli; do not edit.\n"
      ".TH HVDRAY\\-REPLAY 1\n"
      ".SH NAME\n"
      "hvdray\\-replay \\- run an elastic job's recording again and check its rules\n"
      ".SH SYNOPSIS\n"
      ".B hvdray replay\n"
      "[OPTION...] FILE\n"
      ".SH DESCRIPTION\n"
      "Runs the elastic driver over the recording of a job in virtual time, prints what changed\n"
      "and when, and stops at the first broken rule. Starts nothing.\n"
      ".SH EXAMPLES\n";
  for (const HelpExample& example : kExamples) {
    page += fmt::format(".TP\n.B {}\n{}\n", Minus(example.command), Minus(example.text));
  }
  page += ".SH OPTIONS\n";
  for (const OptionRow& row : kReplayRows) {
    page += fmt::format(".TP\n.B {}\n{}\n", Minus(SpellingLine(row)), Minus(row.help));
  }
  return page +
         ".SH EXIT STATUS\n"
         "0 every rule held; 1 a rule was broken, or the job ends otherwise than it was recorded;\n"
         "2 wrong usage or a file that is no recording.\n";
}

std::string ReplayWords() {
  std::string words;
  for (const Spelling& spelling : ReplaySpellings()) {
    words += (words.empty() ? "" : " ") + std::string(spelling.text);
  }
  return words;
}

}  // namespace hvdray
