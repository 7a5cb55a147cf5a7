// SPDX-License-Identifier: Apache-2.0
// The observers of a job: its trace, --events, and of an elastic one --record and the report's
// table of memberships. They decide nothing.
#ifndef HVDRAY_LAUNCHER_ENGINE_JOB_OBSERVERS_H_
#define HVDRAY_LAUNCHER_ENGINE_JOB_OBSERVERS_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <vector>

#include "base/loop.h"
#include "launcher/driver/events.h"
#include "launcher/engine/launcher.h"
#include "launcher/job/elastic_policy.h"
#include "launcher/report/event_log.h"
#include "launcher/report/memberships.h"
#include "launcher/report/record_writer.h"

namespace hvdray {

/// Passes everything that happens to each observer. Owns the files. Threads: the loop's.
class JobObservers {
 public:
  /// `trace` outlives this.
  JobObservers(Loop& loop, Trace& trace) : loop_(loop), trace_(trace) {}

  using OnDamagedFn = std::function<void(Status)>;
  /// Opens --events, if the job asks for it or there is a `sink`. Errors: those of EventLog; later
  /// faults go to `on_damaged`.
  Status OpenEvents(const LaunchPlan& plan, std::function<void(const Json& line)> sink,
                    const OnDamagedFn& on_damaged);
  /// Opens --record, if the job asks for it. `began`, `seed`: the driver's. Errors: those of
  /// RecordWriter; later faults as above.
  Status OpenRecord(const LaunchPlan& plan, const ElasticPolicy& policy, uint64_t seed,
                    TimePoint began, const OnDamagedFn& on_damaged);

  void OnEvent(const Event& event, TimePoint now);
  void OnEffect(const Effect& effect, TimePoint now);
  /// `now`: exactly what the driver gets, or a replay would differ.
  void OnEvent(const ElasticEvent& event, TimePoint now);
  void OnEffect(const ElasticEffect& effect, TimePoint now);
  void OnSynced(int host, const SyncStats& stats);
  void OnConnectionsBroken(int host, Generation generation, const wire::ConnectionsBroken& broken);
  void OnWarmed(std::string_view host, Generation generation, const wire::Warmed& warmed);
  /// See EventLog.
  void OnReport(Generation generation, int rank, uint32_t number, const Json& metrics);
  void OnReport(WorkerId worker, uint32_t number, const Json& metrics);
  /// Call once; writes the last line of each file.
  void OnEnd(const Verdict& verdict, const ElasticSnapshot& snapshot);

  /// Another job begins.
  void Forget() { memberships_ = MembershipTable(); }
  const std::vector<MembershipRecord>& memberships() const { return memberships_.rows(); }

 private:
  Loop& loop_;
  Trace& trace_;
  std::unique_ptr<EventLog> event_log_;  // null: not asked for
  std::unique_ptr<RecordWriter> record_;
  MembershipTable memberships_;
};

}  // namespace hvdray

#endif  // HVDRAY_LAUNCHER_ENGINE_JOB_OBSERVERS_H_
