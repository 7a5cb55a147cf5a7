// `hvdray check` on a terminal and as JSON. Pure.
#ifndef HVDRAY_LAUNCHER_REPORT_CHECK_TEXT_H_
#define HVDRAY_LAUNCHER_REPORT_CHECK_TEXT_H_

#include <span>
#include <string>

#include "launcher/report/check_facts.h"
#include "launcher/report/check_findings.h"

namespace hvdray {

inline constexpr char kCheckSchema[] = "hvdray.check/1";

/// Hosts of one kind in one block, then the findings and one line that sums up.
std::string CheckText(const CheckFacts& facts, std::span<const Finding> findings);

/// One object, as docs/check.md has it.
std::string CheckJson(const CheckFacts& facts, std::span<const Finding> findings);

}  // namespace hvdray

#endif  // HVDRAY_LAUNCHER_REPORT_CHECK_TEXT_H_
