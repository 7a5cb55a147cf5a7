// SPDX-License-Identifier: Apache-2.0
// Clusters of providers that only Ray knows: the real `ray` command does what was asked of ours.
#ifndef HVDRAY_CLUSTER_ACCESS_RAY_PASSTHROUGH_H_
#define HVDRAY_CLUSTER_ACCESS_RAY_PASSTHROUGH_H_

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "cluster/file/cluster_spec.h"
#include "launcher/job/options_resolver.h"

namespace hvdray {

/// Whether hvdray leaves this file to Ray: a provider other than local and aws, or a coordinator.
bool IsLeftToRay(const ClusterSpec& file);

/// The words of Ray's command for `command` ("up") with the options that were said, spelled as
/// Ray's, and `path` instead of the request's first argument. Pure. Errors: kUsage for an option
/// that Ray's command lacks; kNotSupported when Ray has no such command.
Result<std::vector<std::string>> RayWords(std::string_view command, const CommandRequest& request,
                                          const std::string& path);

/// nullopt: hvdray does it itself. Otherwise runs Ray's command in the foreground, says so on
/// stderr, and returns its exit code; 2 where there is no `ray` on PATH, or for what RayWords()
/// refuses. Ray gets the file itself, or, if it has a section `hvdray`, a private copy without
/// it that is removed afterwards. Blocks.
std::optional<int> PassToRay(std::string_view command, const CommandRequest& request,
                             const ClusterSpec& file);

}  // namespace hvdray

#endif  // HVDRAY_CLUSTER_ACCESS_RAY_PASSTHROUGH_H_
