// SPDX-License-Identifier: Apache-2.0
// One rank of `hvdray bench`: measures what the settings say, with the other ranks.
#ifndef HVDRAY_COLLECTIVE_BENCH_BENCH_RUN_H_
#define HVDRAY_COLLECTIVE_BENCH_BENCH_RUN_H_

#include <array>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/environ.h"
#include "base/result.h"
#include "collective/bench/runner.h"
#include "collective/bench/sweep.h"

namespace hvdray {

/// The name of stdout among the files.
inline constexpr std::string_view kBenchStdout = "-";

/// What is measured, and where the results go.
struct BenchSettings {
  Sweep sweep;
  BenchOptions options;
  std::string build;                  ///< "hvdray 0.1.0 (abc1234)"
  std::vector<std::string> backends;  ///< Values of HVDRAY_COLLECTIVE; empty: as it is.
  std::string json;                   ///< A path or kBenchStdout; empty: none.
  std::string csv;
  std::string tune;
  bool has_plot = false;
  std::string svg;  ///< Empty: the plot is for the terminal.
  /// Flags with their paths.
  std::array<std::pair<std::string_view, std::string_view>, 4> files() const {
    return {{{"--json", json}, {"--csv", csv}, {"--tune", tune}, {"--plot", svg}}};
  }
  bool is_stdout_taken() const {
    return json == kBenchStdout || csv == kBenchStdout || tune == kBenchStdout;
  }
};

/// The library alone knows the names of its backends, and reads them where there is a rendezvous.
/// `backend`: empty: `variable`, the value of HVDRAY_COLLECTIVE. Errors: kUsage.
Status CheckBenchBackend(const std::string& backend, const std::string& variable);

/// No file may be written twice, nor be one that the words of `hvdray run` or a variable name.
/// Errors: kUsage.
Status CheckBenchFiles(const BenchSettings& settings, const std::vector<std::string>& run_words,
                       const Environment& environment);

/// Measures all. Rank 0 writes the files and, unless stdout is taken, the table. Returns a line for
/// each row with wrong elements. Blocks. Errors: kOutputLost, kUsage, kOutOfResources, those of
/// MakeCommunicator() and of peers that are gone.
Result<std::vector<std::string>> RunBench(const BenchSettings& settings,
                                          const Environment& environment);

}  // namespace hvdray

#endif  // HVDRAY_COLLECTIVE_BENCH_BENCH_RUN_H_
