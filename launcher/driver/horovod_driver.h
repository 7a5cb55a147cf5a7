// SPDX-License-Identifier: Apache-2.0
// An elastic job of hvd.elastic workers, which outlive a change: which of them are in which
// generation, when newcomers start, and when the others are called, released or freed. Pure.
// docs/adr/0008-elastic-driver.md.
#ifndef HVDRAY_LAUNCHER_DRIVER_HOROVOD_DRIVER_H_
#define HVDRAY_LAUNCHER_DRIVER_HOROVOD_DRIVER_H_

#include <optional>
#include <vector>

#include "launcher/driver/elastic_driver.h"
#include "launcher/driver/next_generation.h"
#include "launcher/driver/notice_schedule.h"

namespace hvdray {

/// Always: a generation is published only once each old process is parked or reaped, with a rank 0
/// that has the state; newcomers start while the others train, and are let in only at the place
/// that they were promised; a member that dies before any peer saw its addresses is replaced, and
/// no member waits for one that will not come. Threads: one caller at a time.
class HorovodDriver final : public ElasticDriver {
 public:
  using ElasticDriver::ElasticDriver;

  std::vector<ElasticEffect> Handle(const ElasticEvent& event, TimePoint now) override;

 private:
  using ElasticDriver::On;
  void On(const event::WorkerArrived& e);
  void On(const event::WorkerMet& e);
  void On(const event::WorkerConnected& e);
  void On(const event::RankAsked& e);
  void On(const event::AddressesRegistered& e);
  void AdvanceRunning() override;
  void ProcessEnded(WorkerId worker) override;
  void MembersLost() override;
  void ExpireProcess(WorkerId worker) override;
  void ExpireRunning() override;
  void ExpireOthers() override;
  std::optional<TimePoint> NextRunning() const override;

  // From one generation to the next.
  void AdvanceTraining();
  void AbandonJoin();
  void BeginMeeting();
  void CloseRound();
  void Regroup();
  void StartMissingWorkers();
  bool IsNextMet() const { return next_.IsMet(roster_, generation_ + 1); }
  void Publish(HostPlan plan);
  void SendNotice();
  void EndByDone();

  // Losses.
  void MemberFailed(WorkerId worker);
  void NewcomerDied(WorkerId worker);
  void BreakConnections();
  void StopStragglers();

  // The init barrier of a generation.
  bool Rejoin(WorkerId dead);
  /// A gang has left hvd.init(): there is a state.
  bool has_begun() const { return was_published_ || round_.was_through(); }
  bool CanBeginAgain() const;
  void BeginAgain();
  void EndByLostBarrier();
  void ExpireBarrier();

  NextGeneration next_;
  NoticeSchedule notices_{policy_.notice_interval, begun_, policy_.began_epoch_s};
  std::optional<TimePoint> straggler_deadline_;
  Generation broken_generation_ = 0;  // The last one that BreakConnections was sent for.
  /// hvd.init() has a barrier at which who dies is replaced. No longer where members came through
  /// without meeting there.
  bool has_barrier_ = policy_.repairs_barriers;
  bool was_published_ = false;    // A generation after the first.
  bool was_begun_again_ = false;  // Restarted before any state existed.
};

}  // namespace hvdray

#endif  // HVDRAY_LAUNCHER_DRIVER_HOROVOD_DRIVER_H_
