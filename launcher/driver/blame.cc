// SPDX-License-Identifier: Apache-2.0
#include "launcher/driver/blame.h"

#include <algorithm>
#include <csignal>

namespace hvdray {

// std::terminate; 134 is a shell's report of it. docs/elastic.md, "The model".
bool Blame::IsAbort(const wire::ExitStatus& status) {
  return status.signal == SIGABRT || (status.signal == 0 && status.exit_code == 128 + SIGABRT);
}

WorkerId Blame::NoteFailed(WorkerRoster& roster, WorkerId worker, bool was_broken,
                           bool is_together) {
  const WorkerRecord& record = roster.Of(worker).record;
  const bool is_abort = IsAbort(*record.status);
  if (is_abort && was_broken) {
    roster.MarkVictim(worker);
    return kNoWorker;
  }
  // Nobody crashes because a peer aborted; an exception may come of that.
  const bool is_cause = !is_abort && (is_together || IsPlainCrash(record));
  const WorkerId forgiven = is_cause ? ForgiveAborted(roster) : kNoWorker;
  if (!first_failure_) {
    first_failure_ = record;
    first_failed_ = worker;
  }
  return forgiven;
}

WorkerId Blame::ForgiveAborted(WorkerRoster& roster) {
  if (!first_failure_ || !IsAbort(*first_failure_->status)) return kNoWorker;
  roster.MarkVictim(first_failed_);
  first_failure_.reset();
  return first_failed_;
}

// The members, without errors of earlier generations, which they survived.
std::vector<WorkerRecord> Blame::Suspects(const WorkerRoster& roster,
                                          std::span<const WorkerId> members) const {
  std::vector<WorkerRecord> records = roster.Records(members);
  for (WorkerRecord& record : records) {
    if (!record.erred || *record.erred >= begun_) continue;
    record.erred.reset();
    record.error = {};
  }
  return records;
}

void Blame::Weigh(WorkerRoster& roster, std::span<const WorkerId> members) {
  const std::vector<WorkerRecord> records = Suspects(roster, members);
  const bool has_words = std::any_of(records.begin(), records.end(), [](const WorkerRecord& one) {
    return one.error != LastError();
  });
  if (!has_words || !first_failure_) return;
  culprit_ = FindCulprit(records);
  if (culprit_.index < 0) return;
  const auto index = static_cast<size_t>(culprit_.index);
  first_failure_ = records[index];
  first_failed_ = members[index];
  for (size_t i = 0; i < records.size(); ++i) {
    const bool has_fallen = i != index && !records[i].error.peer_words.empty();
    if (has_fallen) roster.MarkVictim(members[i]);
  }
}

void Blame::BeginMoment(TimePoint now, Duration length) {
  if (moment_by_ || !to_evict_.empty()) return;
  failing_since_ = now;
  moment_by_ = now + length;
}

bool Blame::EndMoment(const WorkerRoster& roster, std::span<const WorkerId> members, TimePoint now,
                      Duration length) {
  const Culprit culprit = FindCulprit(Suspects(roster, members));
  const bool is_known = culprit.index >= 0 && culprit.is_own;
  const bool is_any_erring =
      std::any_of(members.begin(), members.end(), [&roster](WorkerId worker) {
        const WorkerRoster::Process* process = roster.Living(worker);
        return process != nullptr && process->record.error.is_own();
      });
  const bool may_wait = !is_known || is_any_erring;
  if (may_wait && now < failing_since_ + kLongestMoment) {
    moment_by_ = now + length;
    return false;
  }
  moment_by_.reset();
  return true;
}

}  // namespace hvdray
