// SPDX-License-Identifier: Apache-2.0
// What an elastic job may do and how long it waits: the settings of ElasticDriver, each with its
// unit and default. docs/elastic.md describes what they do. Values only. The words of a choice, in
// the order of its enum, are those of the options, of a spec in JSON and of recordings.
#ifndef HVDRAY_LAUNCHER_JOB_ELASTIC_POLICY_H_
#define HVDRAY_LAUNCHER_JOB_ELASTIC_POLICY_H_

#include <array>
#include <chrono>
#include <cstdint>
#include <optional>
#include <string_view>

#include "base/status.h"
#include "base/types.h"

namespace hvdray {

/// What the workers run. kHorovod: hvd.elastic scripts, whose processes outlive a change. kGang:
/// anything else; every change restarts all workers, as torchrun does.
enum class ElasticMode : uint8_t { kHorovod, kGang };
inline constexpr std::array<std::string_view, 2> kElasticModeWords = {"horovod", "gang"};

/// The verdict when some workers of the last generation succeed and others fail; either way the job
/// ends, as in Horovod. kAll: it has failed. kAny: it has succeeded.
enum class SuccessRule : uint8_t { kAll, kAny };
inline constexpr std::array<std::string_view, 2> kSuccessRuleWords = {"all", "any"};

/// How newcomers join. kWarm: they start and import while the old gang trains. kTogether: the gang
/// stops first and waits for them, so that a loss and its replacement cost one reset (Horovod's
/// way).
enum class JoinMode : uint8_t { kWarm, kTogether };
inline constexpr std::array<std::string_view, 2> kJoinModeWords = {"warm", "together"};

/// How long a failed host is left out: `lower` at first, doubled with each failure up to `upper`,
/// with jitter.
struct CooldownRange {
  Duration lower = std::chrono::seconds(1);     ///< At least 1 s.
  Duration upper = std::chrono::seconds(3600);  ///< At most 3600 s, and not below `lower`.
  bool operator==(const CooldownRange&) const = default;
};

/// The settings of one elastic job. A plain value.
struct ElasticPolicy {
  ElasticMode mode = ElasticMode::kHorovod;  ///< --elastic-mode

  // Numbers of workers; range [1, kMaxRanks].
  int np = 1;                 ///< -np: needed for the first generation.
  int min_np = 1;             ///< --min-np: needed to continue. Default of the option: -np.
  std::optional<int> max_np;  ///< --max-np: at most. Default: no limit.

  // Failures.
  /// --reset-limit: how many times the gang may change after its first generation. Default: no
  /// limit. A round that only restores what failures took does not count, nor do hosts that leave
  /// with notice, nor, in gang mode, restarts after a worker's failure.
  std::optional<uint32_t> reset_limit;
  uint32_t max_restarts = 0;  ///< --max-restarts: after failures. Gang mode only.
  /// --blacklist-cooldown-range. nullopt, the default: a failed host never comes back.
  std::optional<CooldownRange> cooldown;
  SuccessRule success = SuccessRule::kAll;  ///< --success
  /// How often a slot is restarted when its worker ends before it has arrived (a newcomer) or
  /// before all have met (a member); then its host is blamed. Default 1: restarting the slot is
  /// cheaper than a new plan.
  int join_retries = 1;
  /// After a loss, break the survivors' connections so that they notice at once.
  /// --no-break-connections clears it.
  bool breaks_connections = true;
  /// Restart a worker in its place if it dies in hvd.init() before any peer has seen its addresses
  /// (docs/elastic.md). Horovod mode; the launcher sets it. Default false, the meaning of
  /// recordings older than this setting.
  bool repairs_barriers = false;

  // Joining.
  JoinMode join = JoinMode::kWarm;  ///< --join
  /// How often the notice to rank 0 is repeated until the gang stops. Default 1 s: a worker ignores
  /// a notice whose timestamp, in whole seconds, is not above the last one's.
  Duration notice_interval = std::chrono::seconds(1);
  /// When the job began, in seconds since the epoch: notices carry wall-clock time. Default 0.
  int64_t began_epoch_s = 0;

  // Waiting. Zero means no limit where "or none" is said.
  /// --elastic-timeout: limits each wait for slots, and the time that a newcomer takes to arrive.
  /// Default 600 s.
  Duration elastic_timeout = std::chrono::seconds(600);
  /// --start-timeout: from the first dial of a host to its agent's Hello. Default 30 s.
  Duration start_timeout = std::chrono::seconds(30);
  /// --straggler-timeout, or none (default): once the first worker of a gang has arrived, how long
  /// it waits for the others before they are stopped and their hosts blamed.
  Duration straggler_timeout = Duration::zero();
  Duration grace = std::chrono::seconds(30);  ///< --grace: SIGTERM to SIGKILL.
  Duration timeout = Duration::zero();        ///< --timeout of the whole job, or none. Exit 124.
  /// How long beyond the grace a host may take to report the end of workers that it must stop; then
  /// it counts as lost. Default 10 s.
  Duration stop_margin = std::chrono::seconds(10);
  /// How long workers that were told to leave may take to end by themselves. Default 10 s.
  Duration leave_limit = std::chrono::seconds(10);
  /// How long to wait, once np slots are ready, for hosts whose agents are still starting: joining
  /// a little later would cost a reset. Default 2 s.
  Duration settle = std::chrono::seconds(2);
  /// --settle: gang mode: how long the source must have listed slots before a gang that could go on
  /// is restarted for them: a host that flaps would restart it each time. Default 0, the meaning of
  /// recordings older than this setting; the launcher sets it.
  Duration list_settle = Duration::zero();
  /// When a failure ends the job, or in a gang: how long the other workers may take to end by
  /// themselves before they are stopped; longer while no error is a worker's own, as in GangPolicy.
  /// Default 0, the meaning of recordings older than this setting; the launcher sets it.
  Duration moment = Duration::zero();

  /// Gang mode. 0: rank 0's agent chooses a new one for each generation.
  uint16_t master_port = 0;

  // Of a job on agents that had others before: their numbers go on.
  Generation last_generation = 0;  ///< The first one is the next. Default 0.
  uint32_t first_worker = 0;       ///< The number of its first process. Default 0.
};

/// Checks the numbers of workers and the cooldown range; no other durations. Errors: kSpecInvalid,
/// in the words of the options. Pure.
Status CheckElasticPolicy(const ElasticPolicy& policy);

}  // namespace hvdray

#endif  // HVDRAY_LAUNCHER_JOB_ELASTIC_POLICY_H_
