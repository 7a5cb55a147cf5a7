// A file of a job's driver on Ray that is written here while the job runs: its events.
#ifndef HVDRAY_LAUNCHER_RAY_RAY_LIVE_FILE_H_
#define HVDRAY_LAUNCHER_RAY_RAY_LIVE_FILE_H_

#include <memory>
#include <string>

#include "base/fd.h"
#include "launcher/ray/ray_attach.h"
#include "launcher/ray/ray_stream.h"

namespace hvdray {

/// Threads: the loop's, which outlives it; the pool does, too. Writes blocking.
class RayLiveFile {
 public:
  RayLiveFile(Loop& loop, BlockingPool& pool, RayAccess access, const std::string& job_id,
              RayWantedFile file);

  /// The driver's node.
  void Follow(const std::string& node);
  /// What was wanted, and how much of it is here: the rest is to be fetched. Errors:
  /// kFileUnwritable; kOutputLost: what came could not be written.
  Result<RayWantedFile> End();

 private:
  void OnBytes(const std::string& bytes);

  RayWantedFile file_;
  RayStream stream_;
  Status lost_;
};

}  // namespace hvdray

#endif  // HVDRAY_LAUNCHER_RAY_RAY_LIVE_FILE_H_
