// SPDX-License-Identifier: Apache-2.0
// A file system in memory and short words for the tests of launcher/job.
#ifndef HVDRAY_TESTS_UNIT_SPEC_SPEC_TEST_SUPPORT_H_
#define HVDRAY_TESTS_UNIT_SPEC_SPEC_TEST_SUPPORT_H_

#include <functional>
#include <map>
#include <optional>
#include <set>
#include <sstream>
#include <string>
#include <utility>
#include <vector>

#include "launcher/job/options_resolver.h"
#include "tests/fakes/fault_catalogue.h"

namespace hvdray {

/// Splits at blanks: "-np 4 ./train" as the shell would.
inline std::vector<std::string> Words(const std::string& line) {
  std::istringstream in(line);
  std::vector<std::string> words;
  for (std::string word; in >> word;) words.push_back(word);
  return words;
}

/// Environment has two constructors that take braces.
inline Environment Env(std::map<std::string, std::string> values) {
  return Environment(std::move(values));
}

/// The files, variables and clusters that one ResolveRun() sees.
struct SpecWorld {
  std::map<std::string, std::string> files;
  std::set<std::string> executables;
  std::map<std::string, ClusterHosts> clusters;
  Environment environment;
  /// What the search for the Ray of a cluster finds; not set: there is no search.
  std::optional<Result<std::string>> ray = {};

  ResolverFiles Files() const {
    return {[this](const std::string& path) -> Result<std::optional<std::string>> {
              const auto found = files.find(path);
              if (found == files.end()) return std::optional<std::string>();
              return std::optional<std::string>(found->second);
            },
            [this](const std::string& path) { return executables.contains(path); },
            [this](const std::string& path) -> Result<ClusterHosts> {
              const auto found = clusters.find(path);
              if (found != clusters.end()) return found->second;
              return Status(ErrorCode::kFileUnreadable, "no cluster file " + path);
            },
            !ray ? std::function<Result<std::string>(const ClusterHosts&, const JobSpec&)>()
                 : [this](const ClusterHosts&, const JobSpec&) { return *ray; }};
  }

  Result<RunRequest> Resolve(const std::vector<std::string>& args) const {
    return ResolveRun(args, environment, Files());
  }
  Result<RunRequest> Resolve(const std::string& line) const { return Resolve(Words(line)); }
  /// Status of a line; ok when it resolves.
  Status ToStatus(const std::string& line) const { return Resolve(line).status(); }

  /// The line and the job file, for the catalogue of faults.
  std::string InputOf(const std::string& line) const {
    const auto file = files.find("job.yaml");
    return file == files.end() ? line : line + " | " + file->second;
  }
  /// Expects that the line is refused, naming `origin`. Returns the hint.
  std::string ExpectRefused(const std::string& line, std::string_view origin,
                            ErrorCode code = ErrorCode::kUsage) const {
    const Status status = ToStatus(line);
    ExpectFault(InputOf(line), status, code, origin);
    return status.hint();
  }
  /// Expects that the line resolves with one warning for each of `origins`.
  void ExpectWarned(const std::string& line, const std::vector<std::string>& origins) const {
    const Result<RunRequest> request = Resolve(line);
    EXPECT_TRUE(request.ok()) << request.status().ToString();
    if (request.ok()) ExpectWarnings(InputOf(line), request->warnings, origins);
  }
};

}  // namespace hvdray

#endif  // HVDRAY_TESTS_UNIT_SPEC_SPEC_TEST_SUPPORT_H_
