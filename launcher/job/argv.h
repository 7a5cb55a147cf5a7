// SPDX-License-Identifier: Apache-2.0
// Splits the words after `hvdray COMMAND` into options and arguments, as Python's argparse does for
// horovodrun. Pure: knows the option table, but not what a value means.
#ifndef HVDRAY_LAUNCHER_JOB_ARGV_H_
#define HVDRAY_LAUNCHER_JOB_ARGV_H_

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "launcher/job/option_table.h"

namespace hvdray {

/// One option as given.
struct ParsedOption {
  const OptionRow* row = nullptr;
  bool is_negation = false;
  std::vector<std::string> values;  ///< As many as the type takes; kOptionalChoice: 0 or 1.
  std::string spelling;             ///< In full: "--slots-per-host" for "--slots".
};

/// A command line, split. Values are not checked yet; rows point into the option table.
struct ParsedArgv {
  std::vector<ParsedOption> options;  ///< In the order given; repeats kept.
  /// Of run and check: everything from the first positional word on, or after "--". Of other
  /// commands: the positional words; options may stand before, between and after them.
  std::vector<std::string> command;
};

/// Splits `args`, the words after the name of `command`. Accepts, besides `--name value`:
/// `--name=value`, `-np 4`, `-np=4`, `-p22`, `-Hlocalhost:2`, one-letter options in one word
/// (`-qx A=1`), unambiguous prefixes of Horovod's own options of run (never of ours), and negative
/// numbers and words with a blank as values. Stops at the first kAction option: nothing after it
/// matters.
/// Errors: kUsage with the nearest name, or the candidates of an ambiguous prefix.
/// Source: argparse of CPython 3.11 (_parse_optional, _get_option_tuples, consume_optional).
Result<ParsedArgv> ParseArgv(std::span<const std::string> args, std::string_view command = "run");

}  // namespace hvdray

#endif  // HVDRAY_LAUNCHER_JOB_ARGV_H_
