// SPDX-License-Identifier: Apache-2.0
// What the launcher has a host do before workers start: try and measure the network to other hosts,
// and take copies of directories.
//
// What always holds: after End(), no socket of it is open and no unfinished file is left, and it
// answers nothing that was asked before.
#ifndef HVDRAY_AGENT_PREPARATION_H_
#define HVDRAY_AGENT_PREPARATION_H_

#include <cstdint>
#include <memory>

#include "agent/directory_receiver.h"
#include "agent/measurer.h"
#include "agent/prober.h"
#include "base/loop.h"
#include "wire/link.h"
#include "wire/message.h"

namespace hvdray {

/// Answers over the link. Threads: the loop's.
class Preparation {
 public:
  /// Loop and link outlive it.
  Preparation(Loop& loop, wire::Link& link) : loop_(loop), link_(link) {}

  /// Opens a port that other hosts may probe until End(). 0: there is none.
  uint16_t Listen();
  /// For a generation that has not begun. Drop and count what asks for too much at a time. Errors:
  /// kProtocolError.
  Status On(Generation generation, wire::Probe&& probe);
  Status On(Generation generation, wire::DirectoryList&& list);
  Status On(Generation generation, wire::File&& file);
  /// Workers are about to start, or the agent leaves.
  void End();

  uint64_t stale_requests() const { return stale_requests_; }

 private:
  void Measure(Generation generation, const wire::Probe& probe);

  Loop& loop_;
  wire::Link& link_;
  uint64_t stale_requests_ = 0;
  std::unique_ptr<ProbeListener> listener_;
  std::unique_ptr<Prober> prober_;  // Kept after its answer: a host probes once before End().
  std::unique_ptr<MeasureServer> measure_server_;
  std::unique_ptr<Measurer> measurer_;
  std::unique_ptr<DirectoryReceiver> receiver_;
};

}  // namespace hvdray

#endif  // HVDRAY_AGENT_PREPARATION_H_
