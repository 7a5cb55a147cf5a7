// SPDX-License-Identifier: Apache-2.0
// What CLI11 checks about values, without its own words for it in help. For declarations.
#ifndef HVDRAY_CMD_CLI_VALUES_H_
#define HVDRAY_CMD_CLI_VALUES_H_

#include <CLI/CLI.hpp>
#include <map>
#include <string>

namespace hvdray {

/// Seconds, or a number with a unit: 0.5, 200ms, 2m.
inline CLI::Validator DurationValue() {
  CLI::Validator value = CLI::AsNumberWithUnit(
      std::map<std::string, double>{{"ms", 0.001}, {"s", 1}, {"m", 60}, {"h", 3600}},
      CLI::AsNumberWithUnit::CASE_SENSITIVE);
  value.description("");
  return value;
}

inline CLI::Validator Within(double least, double most) {
  CLI::Validator range = CLI::Range(least, most);
  range.description("");
  return range;
}

}  // namespace hvdray

#endif  // HVDRAY_CMD_CLI_VALUES_H_
