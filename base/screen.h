// SPDX-License-Identifier: Apache-2.0
// Drawing on the terminal behind stdout: its size, lines cut to its width, and a block of lines
// that stays below text that scrolls. Makes text; the caller writes it. The cursor is never hidden,
// so that a killed process leaves nothing to repair.
#ifndef HVDRAY_BASE_SCREEN_H_
#define HVDRAY_BASE_SCREEN_H_

#include <cstddef>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace hvdray {

struct ScreenSize {
  size_t columns = 200;
  size_t rows = 50;
};

/// stdout is a terminal that takes cursor movements.
bool IsScreen();
/// What a terminal shows is this process's to change: no other job of its shell is in the
/// foreground. `terminal`: a descriptor; true if it is no terminal of ours.
bool IsInForeground(int terminal);
/// Asks the terminal; generous where it does not say.
ScreenSize SizeOfScreen();

/// The first `columns` characters of a line in UTF-8; a view into it.
std::string_view CutToWidth(std::string_view line, size_t columns);
/// Each line cut, and in place of what the screen has there. Without the last one's end.
std::string DrawnLines(std::span<const std::string> lines, size_t columns);

/// A block of lines with the cursor on the row below them. Pure.
class ScreenBlock {
 public:
  /// What to write, so that `text` (whole lines; may be empty) takes the block's place and `lines`
  /// are the block below it. Without `lines`, there is none.
  std::string Draw(std::string_view text, std::span<const std::string> lines, size_t columns);
  bool is_drawn() const { return !widths_.empty(); }

 private:
  std::vector<size_t> widths_;  // of the lines drawn
};

}  // namespace hvdray

#endif  // HVDRAY_BASE_SCREEN_H_
