// SPDX-License-Identifier: Apache-2.0
// Counts processes from outside, by a mark in their environment that they can't lose.
#ifndef HVDRAY_TESTS_UNIT_AGENT_PROCESS_SCAN_H_
#define HVDRAY_TESTS_UNIT_AGENT_PROCESS_SCAN_H_

#include <sys/types.h>

#include <functional>
#include <string>
#include <vector>

#include "base/loop.h"

namespace hvdray {

/// "HVDRAY_TEST_MARK=..." that no other test has.
std::string MakeMark();

/// Living processes (no zombies) whose environment has the entry `mark`.
std::vector<pid_t> FindMarked(const std::string& mark);

/// Runs the loop until `is_done` holds, looking every millisecond; false after a minute.
bool WaitFor(Loop& loop, const std::function<bool()>& is_done);

/// The same without a loop.
bool WaitFor(const std::function<bool()>& is_done);

}  // namespace hvdray

#endif  // HVDRAY_TESTS_UNIT_AGENT_PROCESS_SCAN_H_
