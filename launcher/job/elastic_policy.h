// SPDX-License-Identifier: Apache-2.0
// What an elastic job may do and for how long it waits: the settings of ElasticDriver, each with
// unit, default and source. Values only.
#ifndef HVDRAY_LAUNCHER_JOB_ELASTIC_POLICY_H_
#define HVDRAY_LAUNCHER_JOB_ELASTIC_POLICY_H_

#include <cstdint>
#include <optional>

#include "base/status.h"
#include "base/types.h"

namespace hvdray {

/// Who the workers are. kHorovod: hvd.elastic scripts, whose processes live through a change.
/// kGang: anything else; every change stops all workers and starts them anew (torchrun's meaning).
enum class ElasticMode : uint8_t { kHorovod, kGang };

/// When a worker ends with success while others of its generation have not, the job is over in both
/// cases (Horovod spec 3.5). kAll: it has failed. kAny: it has succeeded.
enum class SuccessRule : uint8_t { kAll, kAny };

/// kWarm: newcomers start and import while the old gang trains (spec 3.10.2). kTogether: the gang
/// is called first and waits for them, one reset for a loss and its replacement (Horovod).
enum class JoinMode : uint8_t { kWarm, kTogether };

/// How long a host that failed is left out, doubled at each failure, with jitter (spec 3.4).
struct CooldownRange {
  Duration lower = std::chrono::seconds(1);     ///< At least 1 s.
  Duration upper = std::chrono::seconds(3600);  ///< At most 3600 s, and not below `lower`.
  bool operator==(const CooldownRange&) const = default;
};

struct ElasticPolicy {
  ElasticMode mode = ElasticMode::kHorovod;  ///< --elastic-mode

  // How many. Workers; range [1, kMaxRanks].
  int np = 1;                 ///< -np: needed for the first generation.
  int min_np = 1;             ///< --min-np: needed to go on. Default of the option: -np.
  std::optional<int> max_np;  ///< --max-np: never more. Default: no limit (spec 3.1).

  // Failures.
  /// --reset-limit: how many times the gang may change after its first generation. Default: no
  /// limit. Not counted: a round that only brings back what failures took, and hosts that leave
  /// with notice. Horovod mode only.
  std::optional<uint32_t> reset_limit;
  uint32_t max_restarts = 0;  ///< --max-restarts: after failures. Gang mode only (torchrun).
  /// --blacklist-cooldown-range. nullopt, the default: a host that failed never comes back.
  std::optional<CooldownRange> cooldown;
  SuccessRule success = SuccessRule::kAll;  ///< --success. Default: spec 3.7.
  /// How often a newcomer that ends before it has arrived, or a member before all have met, is
  /// started again, before its host is blamed. Default 1 (spec 3.6: best keep the plan and start
  /// the dead slot again).
  int join_retries = 1;
  /// --no-break-connections clears it: after a loss, survivors are freed at once (spec 3.10.1).
  bool breaks_connections = true;
  /// Who dies in hvd.init() before anybody has seen its addresses is started again in its place
  /// (docs/elastic.md). Horovod mode; the launcher sets it. Default false: what recordings mean
  /// that were made before it was there.
  bool repairs_barriers = false;

  // Joining.
  JoinMode join = JoinMode::kWarm;  ///< --join
  /// How often the notice to rank 0 is repeated until the gang comes. Default 1 s: timestamps of
  /// notices are whole seconds and must rise (spec 3.9).
  Duration notice_interval = std::chrono::seconds(1);
  /// Seconds since the epoch when the job began: notices carry wall clock time. Default 0.
  int64_t began_epoch_s = 0;

  // Waiting. Zero means without limit where "or none" is said.
  /// --elastic-timeout: each wait for slots, and the longest that a newcomer may take to arrive.
  /// Default 600 s (spec 3.1).
  Duration elastic_timeout = std::chrono::seconds(600);
  /// --start-timeout: from the first dial of a host to its agent's Hello. Default 30 s.
  Duration start_timeout = std::chrono::seconds(30);
  /// --straggler-timeout, or none (default): how long a gang in which one has come waits for those
  /// that have not, before they are stopped and their hosts blamed (spec 3.11 row 7).
  Duration straggler_timeout = Duration::zero();
  Duration grace = std::chrono::seconds(5);  ///< --grace: SIGTERM to SIGKILL.
  Duration timeout = Duration::zero();       ///< --timeout of the whole job, or none. Exit 124.
  /// Beyond the grace: how long a host may take to report the end of workers that it was told to
  /// stop, before it is given up. Default 10 s.
  Duration stop_margin = std::chrono::seconds(10);
  /// How long workers that have been told to leave may take to end by themselves. Default 10 s.
  Duration leave_limit = std::chrono::seconds(10);
  /// Once np slots are ready: how long hosts whose agents are still starting are waited for, since
  /// to come a little later costs a reset. Default 2 s.
  Duration settle = std::chrono::seconds(2);
  /// Where a failure ends the job, or in a gang: how long the others may go on ending by themselves
  /// before they are stopped, as GangPolicy has it; as there, longer while nobody's error is its
  /// own. Default 0, what recordings mean that were made before it was there; the launcher sets it.
  Duration moment = Duration::zero();

  uint16_t master_port = 0;  ///< Gang mode; 0: a fresh one of rank 0's agent, each generation.
};

/// What of this can't be, in the words of the options: kSpecInvalid. Durations are not checked
/// beyond the cooldown range.
Status CheckElasticPolicy(const ElasticPolicy& policy);

}  // namespace hvdray

#endif  // HVDRAY_LAUNCHER_JOB_ELASTIC_POLICY_H_
