// SPDX-License-Identifier: Apache-2.0
// What the commands that only look at a Ray cluster have in common: the words that say which one
// and how it is reached, and a look at it. Names and variables are those of `hvdray run`.
#ifndef HVDRAY_CMD_RAY_WORDS_H_
#define HVDRAY_CMD_RAY_WORDS_H_

#include <CLI/CLI.hpp>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "cluster/ray/dashboard_client.h"
#include "cluster/ray/ray_report.h"
#include "cmd/ray_of_cluster.h"
#include "cmd/ray_options.h"

namespace hvdray {

struct RayWords : RayOptions {
  RayOfCluster found;  ///< The way to the Ray of a cluster file.
};

/// nullopt: parsed, and the command goes on; else the exit code: help was printed (0), or what is
/// wrong (2).
std::optional<int> ParseRayWords(CLI::App& app, std::string_view command,
                                 std::span<const std::string> args);

/// Where the cluster is and what it asks for. Says on stderr what was assumed. Reads files. Errors:
/// kUsage without --ray, address and cluster file, those of RayOfCluster::FindIn(),
/// ResolveRayAddress(), ResolveRayHeaders(), FindRayToken().
Result<RayAccess> ResolveRayAccess(std::string_view command, RayWords& words);

}  // namespace hvdray

#endif  // HVDRAY_CMD_RAY_WORDS_H_
