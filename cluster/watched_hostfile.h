// A host file that may change while the job runs.
#ifndef HVDRAY_CLUSTER_WATCHED_HOSTFILE_H_
#define HVDRAY_CLUSTER_WATCHED_HOSTFILE_H_

#include <cstdint>
#include <memory>
#include <string>

#include "base/loop.h"
#include "cluster/host_source.h"

namespace hvdray {

struct WatchedHostfileOptions {
  /// kPolling: for tests of what a network file system gives.
  enum class Watching : uint8_t { kEventsAndPolling, kPolling };
  std::string path;
  ParseHosts parse;
  /// The file is looked at this often too, for file systems that tell nothing of other machines'
  /// writes; it is read once it has looked the same twice.
  Duration poll_interval{std::chrono::seconds(1)};
  /// Quiet time behind the last event: a shell that appends line by line is one change.
  Duration settle{std::chrono::milliseconds(100)};
  Watching watching = Watching::kEventsAndPolling;
};

/// Says the list when the file has been written and closed, replaced by rename, or when a link on
/// the way to it leads elsewhere. A file that is gone or can't be read or parsed is a failure
/// (kFileUnreadable, kSpecInvalid), after which the last list goes on to count; the best way to
/// change it is to write another and rename it. Warnings of `parse` are logged.
/// Start(): the same errors for the file as it is now. Blocks for the read. The loop outlives it.
std::unique_ptr<HostSource> MakeWatchedHostfile(Loop& loop, WatchedHostfileOptions options);

}  // namespace hvdray

#endif  // HVDRAY_CLUSTER_WATCHED_HOSTFILE_H_
