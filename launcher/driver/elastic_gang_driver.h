// SPDX-License-Identifier: Apache-2.0
// An elastic job of any other workers: each change restarts all of them, as torchrun does. Pure.
// docs/elastic.md, "Gangs: scripts without hvd.elastic".
#ifndef HVDRAY_LAUNCHER_DRIVER_ELASTIC_GANG_DRIVER_H_
#define HVDRAY_LAUNCHER_DRIVER_ELASTIC_GANG_DRIVER_H_

#include <optional>
#include <string>
#include <vector>

#include "launcher/driver/elastic_driver.h"

namespace hvdray {

/// Always: a generation starts only when nothing of the one before is left, and all its workers are
/// new; a worker's failure costs one of --max-restarts, any other change may count against
/// --reset-limit, none both. Threads: one caller at a time.
class ElasticGangDriver final : public ElasticDriver {
 public:
  using ElasticDriver::ElasticDriver;

  std::vector<ElasticEffect> Handle(const ElasticEvent& event, TimePoint now) override;

 private:
  // Such workers never meet; what they say all the same is only recorded.
  using ElasticDriver::On;
  void On(const event::WorkerArrived& e) { Count(roster_.MarkArrived(e.worker)); }
  void On(const event::WorkerMet& /*e*/) { Count(false); }
  void On(const event::WorkerConnected& /*e*/) { Count(false); }
  void On(const event::RankAsked& e) { Count(roster_.MarkParked(e.worker)); }
  void On(const event::AddressesRegistered& e) { Count(roster_.MarkRegistered(e.worker)); }
  void AdvanceRunning() override;
  void ProcessEnded(WorkerId worker) override;
  std::optional<TimePoint> NextRunning() const override { return grow_at_; }
  uint32_t restarts() const override { return restarts_; }

  void AdvanceGang();
  void AdvanceRestarting();
  void Restart();
  bool IsDueForChange();
  bool CountChange();

  std::optional<TimePoint> grow_at_;  // When new slots have been listed for long.
  std::string told_failure_;          // Printed with the restart; need not be repeated.
  bool is_change_counted_ = false;    // Of a gang that is being restarted.
};

}  // namespace hvdray

#endif  // HVDRAY_LAUNCHER_DRIVER_ELASTIC_GANG_DRIVER_H_
