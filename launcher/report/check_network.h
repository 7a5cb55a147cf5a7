// Which hosts do not reach which, in as few lines as that takes. Pure; part of check_findings.h.
#ifndef HVDRAY_LAUNCHER_REPORT_CHECK_NETWORK_H_
#define HVDRAY_LAUNCHER_REPORT_CHECK_NETWORK_H_

#include <vector>

#include "launcher/report/check_findings.h"

namespace hvdray {

/// Adds what the closed ways of `facts` mean: an agent without an answer, a host that no other one
/// reaches, one that reaches no other, two that do not see each other, one way that is closed.
void JudgeNetwork(const CheckFacts& facts, std::vector<Finding>& findings);

}  // namespace hvdray

#endif  // HVDRAY_LAUNCHER_REPORT_CHECK_NETWORK_H_
