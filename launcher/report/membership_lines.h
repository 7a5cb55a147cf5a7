// What the terminal says at the end of an elastic job about its generations. Pure.
#ifndef HVDRAY_LAUNCHER_REPORT_MEMBERSHIP_LINES_H_
#define HVDRAY_LAUNCHER_REPORT_MEMBERSHIP_LINES_H_

#include <span>
#include <string>
#include <vector>

#include "launcher/report/memberships.h"

namespace hvdray {

/// Each change was said as it happened, so one line sums them up, and none is there for a job that
/// never changed. With is_verbose a table follows, of the last 20 generations at most; its times
/// count from `began`.
std::vector<std::string> MembershipLines(std::span<const MembershipRecord> rows, TimePoint began,
                                         bool is_verbose);

}  // namespace hvdray

#endif  // HVDRAY_LAUNCHER_REPORT_MEMBERSHIP_LINES_H_
