// What comes before the workers of a generation: interfaces are chosen, folders copied (--sync),
// neighbours probed. One after the other, the last two before the first generation only.
#ifndef HVDRAY_LAUNCHER_ENGINE_START_SEQUENCE_H_
#define HVDRAY_LAUNCHER_ENGINE_START_SEQUENCE_H_

#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/loop.h"
#include "launcher/engine/folder_sync.h"
#include "launcher/engine/launcher.h"
#include "launcher/engine/neighbour_probe.h"
#include "launcher/job/nic_select.h"
#include "launcher/report/trace.h"

namespace hvdray {

/// Each may call Drop().
struct StartSequenceHandlers {
  std::function<void(int host, wire::Body body)> send;
  /// Nothing was started there, and nothing will be: Drop() is next.
  std::function<void(int host, Status why)> on_failed;
  std::function<void(bool is_active)> on_copying;
  std::function<void(int host, const SyncStats& stats)> on_synced;
  /// The workers may start.
  std::function<void(const std::vector<NicChoice>& nics)> on_ready;
};

/// Threads: the loop's. Loop, trace and plan outlive it.
class StartSequence {
 public:
  StartSequence(Loop& loop, Trace& trace, const LaunchPlan& plan, StartSequenceHandlers handlers);

  /// facts: of each host of the plan.
  void Begin(Generation generation, std::span<const wire::HostFacts> facts);
  /// True: the message belongs to what goes on here, or did once.
  bool OnMessage(int host, const wire::Message& message);
  /// Whatever was to come does not come. Does nothing when nothing goes on.
  void Drop();

  /// Where the workers of each host start because their folder was copied there; empty: as without.
  std::span<const std::string> worker_folders() const { return worker_folders_; }

 private:
  void Copy();
  void OnHostCopied(int host, const SyncStats& stats, const std::vector<std::string>& roots);
  void OnCopied();
  void Probe();
  void OnProbed(std::optional<ProbeFailure> failure);

  Loop& loop_;
  Trace& trace_;
  const LaunchPlan& plan_;
  const StartSequenceHandlers handlers_;
  Generation generation_ = 0;
  std::vector<wire::HostFacts> facts_;
  std::vector<NicChoice> nics_;
  std::vector<std::string> worker_folders_;
  std::unique_ptr<FolderSync> sync_;       // while it runs
  std::unique_ptr<NeighbourProbe> probe_;  // while it runs
};

}  // namespace hvdray

#endif  // HVDRAY_LAUNCHER_ENGINE_START_SEQUENCE_H_
