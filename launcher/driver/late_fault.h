// What goes wrong after the driver is done, while the last output is still being written: it makes
// a good job a bad one, and never hides how a bad one ended. Pure.
#ifndef HVDRAY_LAUNCHER_DRIVER_LATE_FAULT_H_
#define HVDRAY_LAUNCHER_DRIVER_LATE_FAULT_H_

#include "launcher/driver/events.h"

namespace hvdray {

/// ReaderGone and OutputDamaged count; all else does nothing any more.
void AddLateFault(Verdict& verdict, const Event& event);

/// How the last output came out. ok: nothing changes.
void AddDrainFault(Verdict& verdict, Status drained);

}  // namespace hvdray

#endif  // HVDRAY_LAUNCHER_DRIVER_LATE_FAULT_H_
