// How the driver of --ray-mode jobs hears of a second stop, which Ray tells nobody of: a named pipe
// beside its stream file, into which a tiny job of the client writes.
#ifndef HVDRAY_CMD_DRIVE_HURRY_PIPE_H_
#define HVDRAY_CMD_DRIVE_HURRY_PIPE_H_

#include <functional>
#include <string>

#include "base/fd.h"
#include "base/loop.h"

namespace hvdray {

/// Of its file among the driver's: DriveFile().
inline constexpr const char* kHurrySuffix = "now";

/// Threads: the loop's.
class HurryPipe {
 public:
  /// Makes the pipe, mode 0600. `on_hurry`: from the loop, each time. Errors: kSystem.
  Status Open(Loop& loop, const std::string& path, std::function<void()> on_hurry);
  /// Removes it.
  ~HurryPipe();
  HurryPipe() = default;
  HurryPipe(const HurryPipe&) = delete;
  HurryPipe& operator=(const HurryPipe&) = delete;

 private:
  void Read();

  std::string path_;
  UniqueFd fd_;
  std::function<void()> on_hurry_;
  Watch watch_;
};

/// Tells the driver that has `path` open. Waits some seconds for one that is just beginning.
/// Errors: kSystem: there is none.
Status HurryDriver(const std::string& path);

}  // namespace hvdray

#endif  // HVDRAY_CMD_DRIVE_HURRY_PIPE_H_
