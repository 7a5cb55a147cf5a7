// Why an elastic job ends: exit code, error and words for each reason. Pure. Exit codes: style 5.
#ifndef HVDRAY_LAUNCHER_DRIVER_ELASTIC_CAUSE_H_
#define HVDRAY_LAUNCHER_DRIVER_ELASTIC_CAUSE_H_

#include <optional>
#include <string>

#include "launcher/driver/verdict.h"
#include "launcher/job/elastic_policy.h"

namespace hvdray {

enum class ElasticEnd : uint8_t {
  kNone,
  kSuccess,         ///< Everybody succeeded, or somebody did and that is enough.
  kPartialSuccess,  ///< Somebody succeeded, others did not.
  kWorkerFailed,    ///< Nobody is left to go on with; or, of a gang, no restart is left.
  kNoSurvivor,      ///< None of the hosts that have the state is left.
  kResetLimit,
  kNoSlots,          ///< Not in time, or never any more.
  kDiscoveryFailed,  ///< At its first call.
  kTimeout,
  kInterrupted,
  kReaderGone,
  kUnreported,
};

struct ElasticCause {
  ElasticEnd end = ElasticEnd::kNone;
  int exit_code = 0;
  ExitOrigin origin = ExitOrigin::kHvdray;
  Status error;
  /// A later cause does not take its place. Success is final only when every host has reported.
  bool is_final() const { return end != ElasticEnd::kNone && end != ElasticEnd::kSuccess; }
};

ElasticCause EndBySuccess();
/// `winner` has exited 0. `failed`: the first of its generation that failed, if one did.
ElasticCause EndByPartialSuccess(const WorkerRecord& winner,
                                 const std::optional<WorkerRecord>& failed, int unfinished);
/// `failed`: the first of the last generation. nullopt: hosts were lost, `why` says how.
ElasticCause EndByFailure(const std::optional<WorkerRecord>& failed, const std::string& why,
                          uint32_t restarts);
/// The same, where the loss came while the others connected in hvd.init(), which ended them too.
ElasticCause WhileConnecting(ElasticCause cause);
/// Members wait for a rank, but on hosts that are gone.
ElasticCause EndByNoCommonHost();
ElasticCause EndByResetLimit(uint32_t limit);
/// `can_come` false: no host will ever bring the missing slots. is_first: for the first generation.
ElasticCause EndByNoSlots(int needed, int found, Duration limit, bool can_come, bool is_first);
ElasticCause EndByDiscovery(const Status& why);
ElasticCause EndByTimeout(Duration limit);
ElasticCause EndBySignal(int signo);
ElasticCause EndByReaderGone();
/// Some host did not report the end of its workers: it was lost or given up, as `error` says.
ElasticCause EndByUnreported(Status error);

}  // namespace hvdray

#endif  // HVDRAY_LAUNCHER_DRIVER_ELASTIC_CAUSE_H_
