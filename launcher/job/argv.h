// SPDX-License-Identifier: Apache-2.0
// The words after `hvdray run`, taken apart as Python's argparse does for horovodrun. Pure: knows
// the option table, reads no value's meaning.
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

struct ParsedArgv {
  std::vector<ParsedOption> options;  ///< In the order given; repeats kept.
  std::vector<std::string> command;   ///< From the first positional word on, or after "--".
};

/// Takes `args` apart. Accepted beside `--name value`: `--name=value`, `-np 4`, `-np=4`, `-p22`,
/// `-Hlocalhost:2`, one-letter options in one word (`-qx A=1`), unambiguous prefixes of Horovod's
/// own options (never of ours), negative numbers and words with a blank as values. Parsing ends at
/// the first kAction option: nothing behind it matters then.
/// Errors: kUsage with the nearest name, or the candidates of an ambiguous prefix.
/// Source: argparse of CPython 3.11 (_parse_optional, _get_option_tuples, consume_optional).
Result<ParsedArgv> ParseArgv(std::span<const std::string> args);

/// The same for the words after `hvdray check`, which has options of its own as well.
Result<ParsedArgv> ParseCheckArgv(std::span<const std::string> args);

/// The same for a `command` that knows other words alone: `known`.
Result<ParsedArgv> ParseWordsOf(std::string_view command, const std::vector<Spelling>& known,
                                std::span<const std::string> args);

}  // namespace hvdray

#endif  // HVDRAY_LAUNCHER_JOB_ARGV_H_
