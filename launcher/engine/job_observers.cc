// SPDX-License-Identifier: Apache-2.0
#include "launcher/engine/job_observers.h"

#include <utility>

#include "launcher/engine/job_console.h"

namespace hvdray {

Status JobObservers::OpenEvents(const LaunchPlan& plan, std::function<void(const Json& line)> sink,
                                const OnDamagedFn& on_damaged) {
  if (plan.spec.events_file->empty() && !sink) return {};
  EventLogOptions options = EventOptions(plan);
  options.on_damaged = on_damaged;
  options.sink = std::move(sink);
  HVDRAY_ASSIGN_OR_RETURN(event_log_, EventLog::Open(loop_, std::move(options)));
  return {};
}

Status JobObservers::OpenRecord(const LaunchPlan& plan, const ElasticPolicy& policy, uint64_t seed,
                                TimePoint began, const OnDamagedFn& on_damaged) {
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

void JobObservers::OnEvent(const Event& event, TimePoint now) {
  trace_.OnEvent(event, now);
  if (event_log_) event_log_->OnEvent(event, now);
}

void JobObservers::OnEffect(const Effect& effect, TimePoint now) {
  trace_.OnEffect(effect, now);
  if (event_log_) event_log_->OnEffect(effect, now);
}

void JobObservers::OnEvent(const ElasticEvent& event, TimePoint now) {
  trace_.OnEvent(event, now);
  if (record_) record_->OnEvent(event, now);
  if (event_log_) event_log_->OnEvent(event, now);
}

void JobObservers::OnEffect(const ElasticEffect& effect, TimePoint now) {
  trace_.OnEffect(effect, now);
  if (event_log_) event_log_->OnEffect(effect, now);
  memberships_.OnEffect(effect, now);
}

void JobObservers::OnSynced(int host, const SyncStats& stats) {
  OnEvent(Event(event::HostSynced{host, stats}), loop_.Now());
}

void JobObservers::OnConnectionsBroken(int host, Generation generation,
                                       const wire::ConnectionsBroken& broken) {
  memberships_.OnConnectionsBroken(generation, broken);
  if (event_log_) event_log_->OnConnectionsBroken(host, generation, broken, loop_.Now());
}

void JobObservers::OnWarmed(std::string_view host, Generation generation,
                            const wire::Warmed& warmed) {
  if (event_log_) event_log_->OnWarmed(host, generation, warmed, loop_.Now());
}

void JobObservers::OnReport(Generation generation, int rank, uint32_t number, const Json& metrics) {
  if (event_log_) event_log_->OnReport(generation, rank, number, metrics, loop_.Now());
}

void JobObservers::OnReport(WorkerId worker, uint32_t number, const Json& metrics) {
  if (event_log_) event_log_->OnReport(worker, number, metrics, loop_.Now());
}

void JobObservers::OnEnd(const Verdict& verdict, const ElasticSnapshot& snapshot) {
  if (record_) record_->OnEnd(verdict, snapshot, loop_.Now());
}

}  // namespace hvdray
