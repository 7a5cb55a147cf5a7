// SPDX-License-Identifier: Apache-2.0
// Why a job ends: exit code, error and message for each reason. Pure. Exit codes: docs/errors.md,
// "Exit codes".
#ifndef HVDRAY_LAUNCHER_DRIVER_CAUSE_H_
#define HVDRAY_LAUNCHER_DRIVER_CAUSE_H_

#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/status.h"
#include "base/types.h"
#include "launcher/driver/events.h"
#include "launcher/driver/verdict.h"

namespace hvdray {

/// Reason of the end. kNone: the job still runs.
enum class CauseKind : uint8_t {
  kNone,
  kSuccess,          ///< All workers succeeded, or some did and --success any accepts that.
  kPartialSuccess,   ///< Elastic: some workers succeeded, others did not.
  kWorkerFailed,     ///< Elastic: and no worker is left to continue, or no restart.
  kHostLost,         ///< Of a job of fixed size.
  kNoSurvivor,       ///< Elastic: no host that has the state is left.
  kResetLimit,       ///< --reset-limit reached.
  kNoSlots,          ///< Elastic: too few slots in time, or for good.
  kDiscoveryFailed,  ///< The first call of host discovery failed.
  kStartTimeout,     ///< --start-timeout reached.
  kTimeout,          ///< --timeout reached.
  kInterrupted,      ///< hvdray got a stop signal.
  kDismissed,        ///< The client of `hvdray serve` needs the gang no more.
  kReaderGone,       ///< The reader of our stdout closed it.
  kStopTimeout,      ///< A host never confirmed that its workers ended.
};

/// An end with its exit code and error. `error` is ok only for success, and for a gang that was
/// dismissed.
struct Cause {
  CauseKind kind = CauseKind::kNone;
  int exit_code = 0;
  ExitOrigin origin = ExitOrigin::kHvdray;
  Status error;
  /// No later cause replaces it. Success becomes final only once every host has reported.
  bool is_final() const { return kind != CauseKind::kNone && kind != CauseKind::kSuccess; }
};

/// `next` ends the job although `now` is ending it already: a client that needs its gang no more
/// gives it any grace, but does not decide about the user's signal, the limit of the job, or hosts
/// that never report.
bool IsStricter(CauseKind next, CauseKind now);

/// What becomes of a session without workers that ends for that cause.
Verdict ToVerdict(const Cause& cause, TimePoint started, TimePoint ended);

/// A job's way to its end, the same for every driver.
struct Ending {
  Cause cause;
  TimePoint since;    ///< Of the first order to stop.
  TimePoint kill_by;  ///< Of the last one: when its grace ends.
  Status output_damage;
  bool is_output_blocked = false;
  bool is_timed_out = false;  ///< --timeout has passed.
  int signals = 0;            ///< Stop signals from the user.
  uint32_t swept = 0;

  /// Keeps the first damage; returns the line for the user, empty for later ones.
  std::string NoteDamage(const Status& why);
  /// While a job that is stopping by itself waits for a slow reader, no limit counts.
  bool IsDrainUnlimited() const;
  /// How long hosts may take to stop their workers and report it.
  Duration StopLimit(Duration grace, Duration margin) const;
  /// Damaged output makes a success a failure.
  void Close();
};

Cause SuccessCause();
/// `worker.status` is set and not a success. `restarts`: how many came before.
Cause WorkerFailedCause(const WorkerRecord& worker, uint32_t restarts);
/// `error`: not ok, as GroupLosses() words it.
Cause HostLostCause(Status error);
/// `hosts`: those that were late. `what`: "become ready" or "start all workers".
Cause StartTimeoutCause(std::span<const std::string> hosts, const char* what, Duration limit);
Cause TimeoutCause(Duration limit);
Cause InterruptedCause(int signo);
/// True if `signo` to hvdray stops workers by SIGINT first, with a grace period before SIGTERM, so
/// that Python raises KeyboardInterrupt.
bool IsSigintFirst(int signo);
/// How workers are stopped: "SIGINT, after 5 s SIGTERM, after 5 s SIGKILL".
std::string WayOfStop(bool is_sigint_first, Duration grace);
/// The line that tells the user what that signal does, and what a second one would do.
std::string StopNotice(int signo, Duration grace);
/// The same where a stop was under way that would have lasted longer.
std::string HurriedStopNotice(int signo, Duration grace);
Cause DismissedCause();
Cause ReaderGoneCause();
/// A host did not report the end of a generation.
Cause StopTimeoutCause(std::span<const std::string> hosts, Duration waited);

// Ends that only elastic jobs have.

/// `winner` exited with 0. `failed`: the first failure of its generation, if any. `unfinished`:
/// members that had not ended with 0.
Cause PartialSuccessCause(const WorkerRecord& winner, const std::optional<WorkerRecord>& failed,
                          int unfinished);
/// `failed`: the first failure of the last generation; nullopt: hosts were lost, and `why` names
/// the reason.
Cause LossCause(const std::optional<WorkerRecord>& failed, const std::string& why,
                uint32_t restarts);
/// Rewords `cause` for a loss while the others connected in hvd.init(), which ended them too.
Cause WhileConnecting(Cause cause);
/// All members that wait for a rank are on hosts that left the job.
Cause NoCommonHostCause();
Cause ResetLimitCause(uint32_t limit);
/// `limit`: how long the job waited. `can_come` false: no host can ever bring the missing slots.
/// `is_first`: the slots were for the first generation. `last_loss`: the host that was lost last
/// and why; may be empty.
Cause NoSlotsCause(int needed, int found, Duration limit, bool can_come, bool is_first,
                   const std::string& last_loss);
Cause DiscoveryCause(const Status& why);
/// A host never reported the end of its workers: it was lost or given up; `error` has the reason.
Cause UnreportedCause(Status error);

/// "rank 3 on host b".
std::string Name(const WorkerRecord& worker);

// Faults after the driver is done, while the last output is still being written: they turn success
// into failure, and never hide an earlier failure. Pure.

/// ReaderGone and OutputDamaged count; other events have no effect.
void AddLateFault(Verdict& verdict, const Event& event);

/// `drained`: result of writing the last output. ok: no change.
void AddDrainFault(Verdict& verdict, Status drained);

// Hosts lost for the same reason are reported once, however many there are. Pure.

/// Groups equal losses, each of one host, in the order of their first host. Equal: the same code,
/// and the same message without the host's own name and all addresses. A loss of one host keeps its
/// message; in a group, HOST replaces the name and ADDRESS the addresses that differ. At most
/// `max_kinds` reasons are spelled out; one more entry counts the others and names their hosts.
std::vector<HostLoss> GroupLosses(std::span<const HostLoss> lost, size_t max_kinds = 5);

/// `why` with the host's name in its message.
Status ErrorOfHost(const std::string& name, const Status& why);

/// `hosts`: at least one. The entry for hosts that had neither become ready nor failed when the
/// others' failure ended the job.
HostLoss SilentHosts(std::vector<std::string> hosts);

}  // namespace hvdray

#endif  // HVDRAY_LAUNCHER_DRIVER_CAUSE_H_
