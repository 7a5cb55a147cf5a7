// SPDX-License-Identifier: Apache-2.0
// `hvdray explain`: the rows of docs/errors.md, for people at a terminal.
#ifndef HVDRAY_CMD_EXPLAIN_COMMAND_H_
#define HVDRAY_CMD_EXPLAIN_COMMAND_H_

#include <string>
#include <string_view>

#include "base/result.h"

namespace hvdray {

/// docs/errors.md as it was when this was built: the one source of what `explain` says.
std::string_view ErrorsPage();

/// What the page's table says about an error; `word`: "HVD-E0201", "E0201", "201" or its name.
/// Pure. Errors: kUsage with the nearest name.
Result<std::string> ExplainError(std::string_view page, std::string_view word);

/// All errors of the page, a line each: number, name, meaning. Pure.
std::string ListErrors(std::string_view page);

}  // namespace hvdray

#endif  // HVDRAY_CMD_EXPLAIN_COMMAND_H_
