// SPDX-License-Identifier: Apache-2.0
#include "base/screen.h"

#include <fmt/format.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>

#include "base/environ.h"
#include "base/text.h"

namespace hvdray {
namespace {

size_t CountCharacters(std::string_view text) {
  return static_cast<size_t>(std::count_if(
      text.begin(), text.end(), [](char c) { return (static_cast<unsigned>(c) & 0xC0U) != 0x80; }));
}

}  // namespace

bool IsScreen() {
  return ::isatty(STDOUT_FILENO) == 1 && Environment::FromProcess().GetOr("TERM", "dumb") != "dumb";
}

bool IsInForeground(int terminal) {
  // -1: not our controlling terminal, so no shell has jobs of ours there.
  const pid_t group = ::tcgetpgrp(terminal);
  return group == -1 || group == ::getpgrp();
}

ScreenSize SizeOfScreen() {
  winsize size{};
  if (::ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) != 0 || size.ws_col == 0 || size.ws_row == 0) {
    return {};
  }
  return {size.ws_col, size.ws_row};
}

std::string_view CutToWidth(std::string_view line, size_t columns) {
  size_t end = 0;
  for (; columns > 0 && end < line.size(); --columns) {
    end += std::max<size_t>(Utf8Length(line.substr(end)), 1);
  }
  return line.substr(0, end);
}

std::string DrawnLines(std::span<const std::string> lines, size_t columns) {
  std::string text;
  for (const std::string& line : lines) {
    if (!text.empty()) text += '\n';
    // Cleared first: at the end of a full line it would take the last character away.
    text += "\x1b[K";
    text += CutToWidth(line, columns);
  }
  return text;
}

std::string ScreenBlock::Draw(std::string_view text, std::span<const std::string> lines,
                              size_t columns) {
  std::string drawn;
  if (is_drawn()) {
    // A terminal that became narrower has wrapped them.
    size_t rows = 0;
    for (const size_t width : widths_) rows += width == 0 ? 1 : (width + columns - 1) / columns;
    drawn += fmt::format("\r\x1b[{}A", rows);
    // Otherwise drawn over, which does not flicker.
    if (!text.empty() || lines.empty()) drawn += "\x1b[J";
  }
  drawn += text;
  widths_.clear();
  if (lines.empty()) return drawn;
  for (const std::string& line : lines) {
    widths_.push_back(CountCharacters(CutToWidth(line, columns)));
  }
  // Over what the user typed, and without line wrap: a character may be two columns wide.
  return drawn + "\r\x1b[?7l" + DrawnLines(lines, columns) + "\n\x1b[?7h\x1b[J";
}

}  // namespace hvdray
