// Hosts that a command of the user's prints, asked again and again (--host-discovery-script).
#ifndef HVDRAY_CLUSTER_DISCOVERY_SCRIPT_H_
#define HVDRAY_CLUSTER_DISCOVERY_SCRIPT_H_

#include <cstddef>
#include <functional>
#include <memory>
#include <string>

#include "base/loop.h"
#include "cluster/host_source.h"

namespace hvdray {

struct DiscoveryScriptOptions {
  std::string command;  ///< For /bin/sh -c, so it may have arguments and need no first line.
  Duration interval{std::chrono::seconds(1)};  ///< From the end of one run to the next start.
  /// A run that takes longer is killed with its process group and counts as failed.
  Duration limit{std::chrono::seconds(30)};
  size_t max_output_bytes = size_t{8} << 20;  ///< More is a failure, and the run is killed.
  ParseHosts parse;
  /// Each line of its stderr; must not end the source. Empty: its stderr is ours.
  std::function<void(std::string line)> on_stderr;
};

/// Runs it one at a time, the first time at once. A run fails by any end but exit code 0, by the
/// limits, and by output that `parse` does not take: kSpecInvalid, kDeadlineExceeded; the message
/// names the script and the last line of its stderr. Warnings of `parse` are logged.
/// Start(): as CheckDiscoveryCommand(). Stop() kills a run that goes on. The loop outlives it.
/// Source: Horovod spec 3.2.
std::unique_ptr<HostSource> MakeDiscoveryScript(Loop& loop, DiscoveryScriptOptions options);

/// What can be known of the command without running it: its first word, where that is a path
/// without anything that the shell would expand. Errors: kUsage for an empty command, a folder, a
/// file that is not executable; kFileUnreadable for a file that is not there.
Status CheckDiscoveryCommand(const std::string& command);

}  // namespace hvdray

#endif  // HVDRAY_CLUSTER_DISCOVERY_SCRIPT_H_
