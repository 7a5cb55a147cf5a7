// SPDX-License-Identifier: Apache-2.0
// Runs a real Loop until a fact holds; a test that waits for something that never comes fails after
// a minute instead of hanging.
#ifndef HVDRAY_TESTS_FAKES_LOOP_RUNNER_H_
#define HVDRAY_TESTS_FAKES_LOOP_RUNNER_H_

#include <functional>

#include "base/loop.h"

namespace hvdray {

/// True once `is_done` holds; looked at between the callbacks of the loop.
inline bool RunUntil(Loop& loop, const std::function<bool()>& is_done) {
  bool is_late = false;
  const Watch limit = loop.After(std::chrono::seconds(60), [&] { is_late = true; });
  while (!is_done() && !is_late) {
    // Posted last, so everything that is due now runs first.
    const Watch turn = loop.After(Duration::zero(), [&loop] { loop.Stop(); });
    loop.Run();
  }
  return is_done();
}

/// Lets everything run that is due now, and what follows from it at once.
inline void Settle(Loop& loop) {
  int turns = 0;
  RunUntil(loop, [&turns] { return ++turns > 20; });
}

}  // namespace hvdray

#endif  // HVDRAY_TESTS_FAKES_LOOP_RUNNER_H_
