// SPDX-License-Identifier: Apache-2.0
// Which characters beyond ASCII must not reach a terminal or a reader as they are, since they
// change how the text around them is shown. Decides only; base/text.h and base/json.h escape them.
#ifndef HVDRAY_BASE_TERMINAL_CONTROL_H_
#define HVDRAY_BASE_TERMINAL_CONTROL_H_

#include <string_view>

namespace hvdray {

/// A character of more than one byte that a terminal obeys (U+0080 to U+009F) or that reorders the
/// text around it (bidirectional marks, embeddings and isolates, line and paragraph separators).
/// Pure. For what base/text.h does not show: files and JSON, where it can be escaped.
bool IsTerminalControl(std::string_view character);

}  // namespace hvdray

#endif  // HVDRAY_BASE_TERMINAL_CONTROL_H_
