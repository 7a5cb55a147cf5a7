// Who failed first, of all that have failed. Looks at everything that is known, since in a gang the
// first to end is often not the first to fail: a worker that raises an error shuts Horovod down in
// all others, and these may be gone before it. Pure. docs/adr/0005.
#ifndef HVDRAY_LAUNCHER_DRIVER_CULPRIT_H_
#define HVDRAY_LAUNCHER_DRIVER_CULPRIT_H_

#include <span>
#include <string>
#include <vector>

#include "launcher/driver/verdict.h"

namespace hvdray {

struct Culprit {
  int index = -1;           ///< Into the workers that were looked at; -1: none of them failed.
  bool is_own = false;      ///< Its error is its own; else all that failed blame a peer.
  bool is_certain = false;  ///< All evidence agrees.
  std::vector<std::string> evidence;  ///< Unless certain; half a line each.
};

/// `workers`: of one generation. Those without a status, and those that were stopped and had shown
/// no error before, are no suspects. `preferred`: who was heard of first, for where nothing else
/// tells two apart; -1: not known.
Culprit FindCulprit(std::span<const WorkerRecord> workers, int preferred = -1);

/// Killed by SIGKILL, or died without a word of a signal that no error of another brings about:
/// that needs no look at the others.
bool IsPlainCrash(const WorkerRecord& worker);

}  // namespace hvdray

#endif  // HVDRAY_LAUNCHER_DRIVER_CULPRIT_H_
