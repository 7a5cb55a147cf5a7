// SPDX-License-Identifier: Apache-2.0
// What a shell line of a cluster file does with Ray, as far as its text tells. Pure.
#ifndef HVDRAY_CLUSTER_UP_START_LINE_H_
#define HVDRAY_CLUSTER_UP_START_LINE_H_

#include <optional>
#include <string>
#include <string_view>

namespace hvdray {

/// The line with `true` instead of each command that is `ray stop`: by a path, behind others
/// (`conda activate ml && ray stop`), with others before it (`sudo`, `conda run -n ml`), in a
/// `bash -c '…'` or a `$(…)`. A line without one is returned as it is. What cannot be read from the
/// text, such as a script, stays.
std::string WithoutRayStop(std::string_view line);

/// Only stops Ray, whether that works or not: `ray stop --force || true`.
bool IsRayStop(std::string_view line);

/// How a line reaches the Ray that it starts.
struct RayReach {
  std::string before;  ///< Shell lines that change where it is: `export PATH=…`, `conda activate`.
  std::string program;     ///< A word of the shell: "ray", "~/ml/bin/ray".
  bool is_certain = true;  ///< Nothing else of the line can change that.
};
/// nullopt: the line has no `ray start`, or reaches it by another program.
std::optional<RayReach> ReachOfRay(std::string_view line);

}  // namespace hvdray

#endif  // HVDRAY_CLUSTER_UP_START_LINE_H_
