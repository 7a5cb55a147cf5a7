// SPDX-License-Identifier: Apache-2.0
// `hvdray explain`: the rows of docs/errors.md, at a terminal.
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <string>
#include <string_view>
#include <vector>

#include "base/text.h"
#include "cmd/commands.h"
#include "launcher/job/exit_code.h"

namespace hvdray {

/// docs/errors.md as it was at build time: the only source of what `explain` says.
std::string_view ErrorsPage();

namespace {

constexpr std::string_view kErrorLabel = "HVD-E";
constexpr size_t kErrorDigits = 4;

/// Number, name, again?, exit, meaning, what to do.
using ErrorRow = std::array<std::string, 6>;

/// A cell of the table as plain text.
std::string PlainCell(std::string_view cell) {
  std::string text;
  for (const char c : cell) {
    if (c != '`') text += c;
  }
  const size_t first = std::min(text.find_first_not_of(' '), text.size());
  return text.substr(first, text.find_last_not_of(' ') + 1 - first);
}

std::vector<ErrorRow> ErrorRows(std::string_view page) {
  constexpr std::string_view kBegin = "\n| HVD-E";
  std::vector<ErrorRow> rows;
  for (size_t at = page.find(kBegin); at != std::string_view::npos;
       at = page.find(kBegin, at + 1)) {
    std::string_view line = page.substr(at + 2);
    line = line.substr(0, line.find('\n'));
    ErrorRow row;
    for (std::string& cell : row) {
      const size_t end = std::min(line.find('|'), line.size());
      cell = PlainCell(line.substr(0, end));
      line.remove_prefix(std::min(end + 1, line.size()));
    }
    rows.push_back(std::move(row));
  }
  return rows;
}

/// "HVD-E0201" for "hvd-e0201", "E201" and "201"; other words as they are.
std::string ErrorWord(std::string_view word) {
  std::string name;
  for (const char c : word) name += c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c;
  std::string_view digits = name;
  for (const std::string_view prefix : {"hvd-", "e"}) {
    if (digits.starts_with(prefix)) digits.remove_prefix(prefix.size());
  }
  const bool is_number = !digits.empty() && digits.size() <= kErrorDigits &&
                         digits.find_first_not_of("0123456789") == std::string_view::npos;
  return is_number ? fmt::format("{}{:0>{}}", kErrorLabel, digits, kErrorDigits) : name;
}

/// What the page says about an error. `word`: "HVD-E0201", "E0201", "201" or its name. Errors:
/// kUsage with the nearest name.
Result<std::string> ExplainError(std::string_view page, std::string_view word) {
  const std::string wanted = ErrorWord(word);
  const std::vector<ErrorRow> rows = ErrorRows(page);
  std::vector<std::string_view> names;
  for (const ErrorRow& row : rows) {
    names.push_back(row[1]);
    if (row[0] != wanted && row[1] != wanted) continue;
    return fmt::format(
        "{} {}: {}\n  what to do: {}\n  the same command may succeed later: {}\n"
        "  exit code: {}\n",
        row[0], row[1], row[4], row[5], row[2],
        row[3] == "worker"   ? "the worker's own"
        : row[3] == "signal" ? "128 + the signal that hvdray got"
                             : row[3]);
  }
  const std::string meant = DidYouMean(wanted, names);
  return Status(ErrorCode::kUsage, fmt::format("unknown error '{}'", ShownText(word)),
                meant.empty() ? "hvdray explain lists all errors" : meant);
}

/// All errors of the page, a line each: number, name, meaning.
std::string ListErrors(std::string_view page) {
  std::string list;
  for (const ErrorRow& row : ErrorRows(page)) {
    list += fmt::format("{}  {:<23} {}\n", row[0], row[1], row[4]);
  }
  return list;
}

}  // namespace

int ExplainCommand(const CommandLine& line) {
  CommandRequest request;
  if (const auto code = ResolveCommandLine("explain", line, &request)) return *code;
  std::string text;
  for (const std::string& word : request.arguments) {
    Result<std::string> one = ExplainError(ErrorsPage(), word);
    if (!one.ok()) return Fail("explain", one.status());
    text += (text.empty() ? "" : "\n") + *one;
  }
  return PrintOut("explain", text.empty() ? ListErrors(ErrorsPage()) : text);
}

}  // namespace hvdray
