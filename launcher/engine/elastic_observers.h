// Those who watch an elastic job: its trace, its --events, its --record and the report's table of
// memberships. They are told, and decide nothing.
#ifndef HVDRAY_LAUNCHER_ENGINE_ELASTIC_OBSERVERS_H_
#define HVDRAY_LAUNCHER_ENGINE_ELASTIC_OBSERVERS_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <vector>

#include "base/loop.h"
#include "launcher/driver/elastic_events.h"
#include "launcher/engine/launcher.h"
#include "launcher/job/elastic_policy.h"
#include "launcher/report/event_log.h"
#include "launcher/report/memberships.h"
#include "launcher/report/record_writer.h"

namespace hvdray {

/// Threads: the loop's.
class ElasticObservers {
 public:
  /// `trace` outlives this.
  ElasticObservers(Loop& loop, Trace& trace) : loop_(loop), trace_(trace) {}

  /// Opens the files that the job wants. `seed`: the driver's, which a replay needs. Errors: as
  /// EventLog and RecordWriter have them; what breaks later goes to `on_damaged`.
  Status Open(const LaunchPlan& plan, const ElasticPolicy& policy, uint64_t seed, TimePoint began,
              const std::function<void(Status)>& on_damaged);

  /// `now`: what the driver is told, to the nanosecond, or a replay goes another way.
  void OnEvent(const ElasticEvent& event, TimePoint now);
  void OnEffect(const ElasticEffect& effect, TimePoint now);
  void OnSynced(int host, const SyncStats& stats);
  void OnConnectionsBroken(int host, Generation generation, const wire::ConnectionsBroken& broken);
  void OnEnd(const Verdict& verdict, const ElasticSnapshot& snapshot);

  const std::vector<MembershipRecord>& memberships() const { return memberships_.rows(); }

 private:
  Loop& loop_;
  Trace& trace_;
  std::unique_ptr<EventLog> event_log_;  // null: not wanted
  std::unique_ptr<RecordWriter> record_;
  MembershipTable memberships_;
};

}  // namespace hvdray

#endif  // HVDRAY_LAUNCHER_ENGINE_ELASTIC_OBSERVERS_H_
