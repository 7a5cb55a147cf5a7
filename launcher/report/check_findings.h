// SPDX-License-Identifier: Apache-2.0
// What is wrong with the hosts of a job, and how to fix it. Pure. docs/check.md.
#ifndef HVDRAY_LAUNCHER_REPORT_CHECK_FINDINGS_H_
#define HVDRAY_LAUNCHER_REPORT_CHECK_FINDINGS_H_

#include <span>
#include <vector>

#include "launcher/report/check_facts.h"

namespace hvdray {

/// Judges the facts. Errors first; a problem that several hosts share is one finding.
std::vector<Finding> FindFindings(const CheckFacts& facts);

/// What `hvdray run` would return: 0 without errors, 2 if the request itself is wrong, 125 for
/// hosts and network, 126 or 127 for the command, 127 for its script; 1 for a module.
int ExitCode(std::span<const Finding> findings);

/// Which hosts can't reach which, in as few lines as possible: adds the findings from
/// `facts.closed_ways`: an agent that does not answer, a host that no other reaches, one that
/// reaches no other, two that can't reach each other, one failed direction.
void JudgeNetwork(const CheckFacts& facts, std::vector<Finding>& findings);

}  // namespace hvdray

#endif  // HVDRAY_LAUNCHER_REPORT_CHECK_FINDINGS_H_
