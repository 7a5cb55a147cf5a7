// SPDX-License-Identifier: Apache-2.0
// `hvdray check` on a terminal and as JSON. Pure.
#ifndef HVDRAY_LAUNCHER_REPORT_CHECK_TEXT_H_
#define HVDRAY_LAUNCHER_REPORT_CHECK_TEXT_H_

#include <span>
#include <string>

#include "launcher/report/check_findings.h"
#include "launcher/report/network_matrix.h"

namespace hvdray {

/// "schema" of the JSON.
inline constexpr char kCheckSchema[] = "hvdray.check/1";

/// Equal hosts in one block, then what they measured, the findings and a summary line.
std::string CheckText(const CheckFacts& facts, std::span<const Finding> findings,
                      Shades shades = Shades::kNone);

/// One object; schema in docs/check.md, "JSON".
std::string CheckJson(const CheckFacts& facts, std::span<const Finding> findings);

}  // namespace hvdray

#endif  // HVDRAY_LAUNCHER_REPORT_CHECK_TEXT_H_
