// SPDX-License-Identifier: Apache-2.0
// Finds the worker that failed first. Weighs all evidence, since in a gang the first worker to end
// is often not the first to fail: a worker that raises an error shuts Horovod down in all others,
// which may exit before it does. Pure. docs/adr/0005-gang-driver.md.
#ifndef HVDRAY_LAUNCHER_DRIVER_CULPRIT_H_
#define HVDRAY_LAUNCHER_DRIVER_CULPRIT_H_

#include <span>
#include <string>
#include <vector>

#include "launcher/driver/verdict.h"

namespace hvdray {

/// What FindCulprit() concludes, by value.
struct Culprit {
  int index = -1;           ///< Into the span of workers; -1: none of them failed.
  bool is_own = false;      ///< Its error is its own; false: every failed worker blames a peer.
  bool is_certain = false;  ///< All evidence agrees.
  std::vector<std::string> evidence;  ///< For and against, half a line each; empty when certain.
};

/// `workers`: all of one generation. Workers without a status, and workers that were stopped before
/// they showed an error, are not suspects. `preferred`: the index reported first, as a tie-breaker;
/// -1: unknown.
Culprit FindCulprit(std::span<const WorkerRecord> workers, int preferred = -1);

/// The worker was killed by SIGKILL, or died silently of a signal that another worker's error never
/// causes. Such a crash needs no comparison with the others.
bool IsPlainCrash(const WorkerRecord& worker);

}  // namespace hvdray

#endif  // HVDRAY_LAUNCHER_DRIVER_CULPRIT_H_
