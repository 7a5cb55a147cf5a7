// SPDX-License-Identifier: Apache-2.0
#include "launcher/engine/elastic_observers.h"

#include <utility>

#include "launcher/engine/job_console.h"

namespace hvdray {

Status ElasticObservers::OpenEvents(const LaunchPlan& plan,
                                    std::function<void(const Json& line)> sink,
                                    const OnDamagedFn& on_damaged) {
  if (plan.spec.events_file->empty() && !sink) return {};
  EventLogOptions options = EventOptionsOf(plan);
  options.on_damaged = on_damaged;
  options.sink = std::move(sink);
  HVDRAY_ASSIGN_OR_RETURN(event_log_, EventLog::Open(loop_, std::move(options)));
  return {};
}

Status ElasticObservers::OpenRecord(const LaunchPlan& plan, const ElasticPolicy& policy,
                                    uint64_t seed, TimePoint began, const OnDamagedFn& on_damaged) {
  if (plan.spec.record_file->empty()) return {};
  RecordOptions options;
  options.path = *plan.spec.record_file;
  options.option = NamedBy(plan.spec.record_file, "record");
  options.header = {plan.build, plan.job_id, policy, seed};
  options.began = began;
  options.on_damaged = on_damaged;
  HVDRAY_ASSIGN_OR_RETURN(record_, RecordWriter::Open(loop_, std::move(options)));
  return {};
}

void ElasticObservers::OnEvent(const ElasticEvent& event, TimePoint now) {
  trace_.OnEvent(event, now);
  if (record_) record_->OnEvent(event, now);
  if (event_log_) event_log_->OnEvent(event, now);
}

void ElasticObservers::OnEffect(const ElasticEffect& effect, TimePoint now) {
  trace_.OnEffect(effect, now);
  if (event_log_) event_log_->OnEffect(effect, now);
  memberships_.OnEffect(effect, now);
}

void ElasticObservers::OnSynced(int host, const SyncStats& stats) {
  const Event synced = event::HostSynced{host, stats};
  trace_.OnEvent(synced, loop_.Now());
  if (event_log_) event_log_->OnEvent(synced, loop_.Now());
}

void ElasticObservers::OnConnectionsBroken(int host, Generation generation,
                                           const wire::ConnectionsBroken& broken) {
  memberships_.OnConnectionsBroken(generation, broken);
  if (event_log_) event_log_->OnConnectionsBroken(host, generation, broken, loop_.Now());
}

void ElasticObservers::OnWarmed(std::string_view host, Generation generation,
                                const wire::Warmed& warmed) {
  if (event_log_) event_log_->OnWarmed(host, generation, warmed, loop_.Now());
}

void ElasticObservers::OnReport(WorkerId worker, uint32_t number, const Json& metrics) {
  if (event_log_) event_log_->OnReport(worker, number, metrics, loop_.Now());
}

void ElasticObservers::OnEnd(const Verdict& verdict, const ElasticSnapshot& snapshot) {
  if (record_) record_->OnEnd(verdict, snapshot, loop_.Now());
}

}  // namespace hvdray
