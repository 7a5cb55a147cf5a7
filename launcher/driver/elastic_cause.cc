#include "launcher/driver/elastic_cause.h"

#include <fmt/format.h>

#include "launcher/driver/gang_cause.h"
#include "launcher/job/exit_code.h"

namespace hvdray {
namespace {

constexpr int kNobodyToBlame = 1;
constexpr int kWrongSpec = 2;

ElasticCause From(ElasticEnd end, Cause cause) {
  return {.end = end,
          .exit_code = cause.exit_code,
          .origin = cause.origin,
          .error = std::move(cause.error)};
}

}  // namespace

ElasticCause EndBySuccess() { return {.end = ElasticEnd::kSuccess}; }

ElasticCause EndByPartialSuccess(const WorkerRecord& winner,
                                 const std::optional<WorkerRecord>& failed, int unfinished) {
  if (failed) {
    ElasticCause cause = From(ElasticEnd::kPartialSuccess, WorkerFailedCause(*failed, 0));
    cause.error = {
        cause.error.code(),
        fmt::format("{}, while {} ended with success", cause.error.message(), NameOf(winner)),
        "--success any takes one success for that of the job"};
    return cause;
  }
  return {.end = ElasticEnd::kPartialSuccess,
          .exit_code = kNobodyToBlame,
          .error = {ErrorCode::kPartialSuccess,
                    fmt::format("{} ended with success while {} other{} had not", NameOf(winner),
                                unfinished, unfinished == 1 ? "" : "s"),
                    "workers have to end together; --success any takes one success for that of "
                    "the job"}};
}

ElasticCause EndByFailure(const std::optional<WorkerRecord>& failed, const std::string& why,
                          uint32_t restarts) {
  if (failed && failed->status) {
    return From(ElasticEnd::kWorkerFailed, WorkerFailedCause(*failed, restarts));
  }
  return {
      .end = ElasticEnd::kNoSurvivor,
      .exit_code = kNobodyToBlame,
      .error = {ErrorCode::kStateLost,
                fmt::format("no worker is left to go on with{}{}", why.empty() ? "" : ": ", why),
                "the state was on these hosts only"}};
}

ElasticCause WhileConnecting(ElasticCause cause) {
  cause.error = {cause.error.code(),
                 fmt::format("{} while the gang connected", cause.error.message()),
                 "Horovod can't recover from a loss while its workers connect in hvd.init(): all "
                 "others of the gang ended with it; start again from the last checkpoint"};
  return cause;
}

ElasticCause EndByNoCommonHost() {
  return {.end = ElasticEnd::kNoSurvivor,
          .exit_code = kNobodyToBlame,
          // Horovod's words (spec 3.5).
          .error = {ErrorCode::kStateLost,
                    "No hosts from previous set remaining, unable to broadcast state.",
                    "the hosts that the job ran on are gone from discovery, or failed"}};
}

ElasticCause EndByResetLimit(uint32_t limit) {
  return {.end = ElasticEnd::kResetLimit,
          .exit_code = kNobodyToBlame,
          // Scripts look for it (spec appendix B).
          .error = {ErrorCode::kResetLimit,
                    fmt::format("Horovod was shutdown because number of resets during elastic job "
                                "exceeded limit: {}",
                                limit),
                    fmt::format("raise --reset-limit (now {})", limit)}};
}

ElasticCause EndByNoSlots(int needed, int found, Duration limit, bool can_come, bool is_first) {
  // What a job needs to start is -np; to go on, less.
  const std::string_view fewer = is_first ? "-np" : "--min-np";
  const std::string when =
      can_come ? fmt::format(" within {}", ShowDuration(limit)) : ", and no more can come";
  return {
      .end = ElasticEnd::kNoSlots,
      .exit_code = kHvdrayFailed,
      .error = {ErrorCode::kNoCapacity,
                fmt::format("{} of {} slots that the job needs were found{}", found, needed, when),
                can_come ? fmt::format("raise --elastic-timeout (now {}), or lower {}",
                                       ShowDuration(limit), fewer)
                         : fmt::format("give more hosts, lower {}, or let failed hosts come back "
                                       "(--blacklist-cooldown-range)",
                                       fewer)}};
}

ElasticCause EndByDiscovery(const Status& why) {
  Status error = why.ok() ? Status(ErrorCode::kNoCapacity, "host discovery failed") : why;
  // Nothing was started: what it said is wrong, as a host file's contents would be.
  const bool is_spec = error.code() == ErrorCode::kSpecInvalid;
  return {.end = ElasticEnd::kDiscoveryFailed,
          .exit_code = is_spec ? kWrongSpec : kHvdrayFailed,
          .error = error};
}

ElasticCause EndByTimeout(Duration limit) {
  return From(ElasticEnd::kTimeout, TimeoutCause(limit));
}

ElasticCause EndBySignal(int signo) {
  return From(ElasticEnd::kInterrupted, InterruptedCause(signo));
}

ElasticCause EndByReaderGone() { return From(ElasticEnd::kReaderGone, ReaderGoneCause()); }

ElasticCause EndByUnreported(Status error) {
  return {.end = ElasticEnd::kUnreported, .exit_code = kHvdrayFailed, .error = std::move(error)};
}

}  // namespace hvdray
