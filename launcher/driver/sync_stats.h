// What --sync sent to a host.
#ifndef HVDRAY_LAUNCHER_DRIVER_SYNC_STATS_H_
#define HVDRAY_LAUNCHER_DRIVER_SYNC_STATS_H_

#include <cstdint>

#include "base/types.h"

namespace hvdray {

struct SyncStats {
  uint64_t files = 0;  ///< Files that were sent and links that were made, all folders together.
  uint64_t bytes = 0;  ///< Of the files.
  Duration time{};     ///< From the first list to the last file in its place.
  bool operator==(const SyncStats&) const = default;
};

}  // namespace hvdray

#endif  // HVDRAY_LAUNCHER_DRIVER_SYNC_STATS_H_
