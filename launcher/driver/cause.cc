// SPDX-License-Identifier: Apache-2.0
#include "launcher/driver/cause.h"

#include <arpa/inet.h>
#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <cerrno>
#include <csignal>
#include <cstring>
#include <map>
#include <string_view>
#include <utility>

#include "base/error_code.h"
#include "launcher/job/hostfile.h"
#include "launcher/job/value_text.h"

namespace hvdray {
namespace {

std::string Hosts(std::span<const std::string> hosts) {
  return fmt::format("{} {}", hosts.size() == 1 ? "host" : "hosts", CompressHostList(hosts));
}

ErrorCode CodeOf(const wire::ExitStatus& status) {
  if (status.stage == wire::ExecStage::kNone) return ErrorCode::kWorkerFailed;
  if (status.stage != wire::ExecStage::kExec) return ErrorCode::kWorkerStartFailed;
  return ExitCode(status) == 127 ? ErrorCode::kCommandNotFound : ErrorCode::kCommandNotExecutable;
}

std::string Hint(const wire::ExitStatus& status) {
  if (status.stage != wire::ExecStage::kDirectory) return {};
  // The agent's errno for a directory that other users can fill.
  if (status.error == EPERM) {
    return "start where nobody else can write: --sync .:TARGET, or --cwd DIR";
  }
  return "copy your directory to the hosts: --sync ., or name one that all have: --cwd DIR";
}

constexpr int kNobodyToBlame = 1;
constexpr int kWrongSpec = 2;

constexpr std::string_view kHost = "HOST";  // as in hints
constexpr std::string_view kAddress = "ADDRESS";
constexpr std::string_view kContext = "host HOST: ";  // redundant with the list of hosts

bool IsWordChar(char c) {
  return std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '-' || c == '_';
}

// Ignores case: ssh prints names in lower case. A domain after the name does not count: hosts of
// one site share it.
bool StartsWithName(std::string_view text, std::string_view name) {
  if (name.empty() || text.size() < name.size()) return false;
  if (text.size() > name.size() && IsWordChar(text[name.size()])) return false;
  return std::equal(name.begin(), name.end(), text.begin(), [](unsigned char a, unsigned char b) {
    return std::tolower(a) == std::tolower(b);
  });
}

bool IsAddress(int family, std::string_view text) {
  in6_addr parsed;
  return ::inet_pton(family, std::string(text).c_str(), &parsed) == 1;
}

// Length of the IPv4 or IPv6 address that `text` begins with; 0: none. A port may follow.
size_t AddressLength(std::string_view text) {
  const size_t run = std::min(text.find_first_not_of("0123456789abcdefABCDEF.:"), text.size());
  const size_t end = text.substr(0, run).find_last_not_of(".:");
  if (end == std::string_view::npos) return 0;
  const std::string_view whole = text.substr(0, end + 1);
  if (IsAddress(AF_INET6, whole)) return whole.size();
  const std::string_view before_port = whole.substr(0, whole.find(':'));
  return IsAddress(AF_INET, before_port) ? before_port.size() : 0;
}

enum class Addresses : uint8_t { kKept, kMasked };

std::string Masked(std::string_view text, std::string_view name, Addresses addresses) {
  std::string masked;
  masked.reserve(text.size());
  for (size_t at = 0; at < text.size();) {
    const std::string_view rest = text.substr(at);
    const size_t address = addresses == Addresses::kMasked ? AddressLength(rest) : 0;
    if (StartsWithName(rest, name)) {
      masked += kHost;
      at += name.size();
    } else if (address > 0) {
      masked += kAddress;
      at += address;
    } else {
      const auto word_end = std::find_if_not(rest.begin(), rest.end(), IsWordChar);
      const size_t length = std::max<size_t>(1, static_cast<size_t>(word_end - rest.begin()));
      masked += rest.substr(0, length);
      at += length;
    }
  }
  return masked;
}

struct Kind {
  Status why;        ///< Of its first host.
  std::string text;  ///< The message that all of them share.
  std::vector<std::string> hosts;
};

Status ErrorOf(const Kind& kind) {
  const Status& why = kind.why;
  const std::string& first = kind.hosts.front();
  if (kind.hosts.size() == 1) return ErrorOfHost(first, why);
  std::string_view text = kind.text;
  if (text.starts_with(kContext)) text.remove_prefix(kContext.size());
  return {why.code(), fmt::format("hosts {}: {}", CompressHostList(kind.hosts), text),
          Masked(why.hint(), first, Addresses::kKept)};
}

Status AsOutputFault(const Status& why) {
  return why.code() == ErrorCode::kReaderGone ? why : Status(why).WithCode(ErrorCode::kOutputLost);
}

int CodeOfOutputFault(const Status& fault) {
  return fault.code() == ErrorCode::kReaderGone ? 128 + SIGPIPE : kHvdrayFailed;
}

HostLoss Others(std::span<Kind> kinds) {
  std::vector<std::string> hosts;
  for (Kind& kind : kinds) {
    hosts.insert(hosts.end(), std::make_move_iterator(kind.hosts.begin()),
                 std::make_move_iterator(kind.hosts.end()));
  }
  const std::string count =
      kinds.size() == 1 ? "another reason" : fmt::format("{} other reasons", kinds.size());
  Status error(kinds.front().why.code(),
               fmt::format("{} {}: lost for {}", hosts.size() == 1 ? "host" : "hosts",
                           CompressHostList(hosts), count),
               "--events FILE records the reason of each host");
  return {std::move(error), std::move(hosts)};
}

}  // namespace

bool IsStricter(CauseKind next, CauseKind now) {
  return now == CauseKind::kDismissed &&
         (next == CauseKind::kInterrupted || next == CauseKind::kReaderGone ||
          next == CauseKind::kTimeout || next == CauseKind::kStopTimeout);
}

Verdict ToVerdict(const Cause& cause, TimePoint started, TimePoint ended) {
  return {.exit_code = cause.exit_code,
          .origin = cause.origin,
          .error = cause.error,
          .started = started,
          .ended = ended};
}

std::string Ending::NoteDamage(const Status& why) {
  if (!output_damage.ok()) return {};
  output_damage = why.ok() ? Status(ErrorCode::kOutputLost, "output was not written whole")
                           : AsOutputFault(why);
  return fmt::format("{}; the job continues without it", output_damage.message());
}

bool Ending::IsDrainUnlimited() const {
  return is_output_blocked && signals == 0 && !is_timed_out && cause.kind != CauseKind::kReaderGone;
}

Duration Ending::StopLimit(Duration grace, Duration margin) const {
  const bool is_asked = cause.kind == CauseKind::kInterrupted && grace > Duration::zero();
  const int graces = is_asked && IsSigintFirst(cause.exit_code - 128) ? 2 : 1;
  return graces * grace + margin;
}

void Ending::Close() {
  if (cause.kind != CauseKind::kSuccess || output_damage.ok()) return;
  cause.exit_code = CodeOfOutputFault(output_damage);
  cause.error = output_damage;
}

Cause SuccessCause() { return {.kind = CauseKind::kSuccess}; }

Cause WorkerFailedCause(const WorkerRecord& worker, uint32_t restarts) {
  const wire::ExitStatus& status = worker.status.value();
  std::string text = fmt::format("{} {}", Name(worker), DescribeFailure(worker));
  if (restarts > 0) {
    text += fmt::format(" (after {} {})", restarts, restarts == 1 ? "restart" : "restarts");
  }
  const bool has_run = status.stage == wire::ExecStage::kNone;
  return {.kind = CauseKind::kWorkerFailed,
          .exit_code = ExitCode(worker),
          .origin = has_run ? ExitOrigin::kWorker : ExitOrigin::kHvdray,
          .error = {CodeOf(status), std::move(text), Hint(status)}};
}

Cause HostLostCause(Status error) {
  return {.kind = CauseKind::kHostLost, .exit_code = kHvdrayFailed, .error = std::move(error)};
}

Cause StartTimeoutCause(std::span<const std::string> hosts, const char* what, Duration limit) {
  return {.kind = CauseKind::kStartTimeout,
          .exit_code = kHvdrayFailed,
          .error = {ErrorCode::kDeadlineExceeded,
                    fmt::format("{} did not {} within {}", Hosts(hosts), what, ShowDuration(limit)),
                    fmt::format("look at what {} doing, or raise --start-timeout (now {})",
                                hosts.size() == 1 ? "this host is" : "these hosts are",
                                ShowDuration(limit))}};
}

Cause TimeoutCause(Duration limit) {
  return {.kind = CauseKind::kTimeout,
          .exit_code = 124,
          .error = {ErrorCode::kTimeout,
                    fmt::format("the job did not end within {}", ShowDuration(limit)),
                    fmt::format("raise --timeout (now {})", ShowDuration(limit))}};
}

Cause InterruptedCause(int signo) {
  const char* name = ::sigabbrev_np(signo);
  return {.kind = CauseKind::kInterrupted,
          .exit_code = 128 + signo,
          .error = {ErrorCode::kInterrupted, name != nullptr
                                                 ? fmt::format("stopped by SIG{}", name)
                                                 : fmt::format("stopped by signal {}", signo)}};
}

bool IsSigintFirst(int signo) { return signo == SIGINT; }

std::string WayOfStop(bool is_sigint_first, Duration grace) {
  if (grace <= Duration::zero()) return "SIGKILL";
  const std::string limit = ShowDuration(grace);
  return fmt::format("{}SIGTERM, after {} SIGKILL",
                     is_sigint_first ? fmt::format("SIGINT, after {} ", limit) : std::string(),
                     limit);
}

std::string StopNotice(int signo, Duration grace) {
  const std::string limit = ShowDuration(grace);
  return fmt::format("{}: the workers have {} to end{}; repeat to kill them now",
                     InterruptedCause(signo).error.message(), limit,
                     IsSigintFirst(signo)
                         ? fmt::format(", then get SIGTERM, and SIGKILL {} later", limit)
                         : std::string());
}

std::string HurriedStopNotice(int signo, Duration grace) {
  return fmt::format(
      "{}: the workers are being stopped already and have {} to end now; repeat to "
      "kill them at once",
      InterruptedCause(signo).error.message(), ShowDuration(grace));
}

Cause DismissedCause() { return {.kind = CauseKind::kDismissed}; }

Cause ReaderGoneCause() {
  return {.kind = CauseKind::kReaderGone,
          .exit_code = 128 + SIGPIPE,
          .error = {ErrorCode::kReaderGone, "the reader of stdout went away"}};
}

Cause StopTimeoutCause(std::span<const std::string> hosts, Duration waited) {
  return {.kind = CauseKind::kStopTimeout,
          .exit_code = kHvdrayFailed,
          .error = {ErrorCode::kDeadlineExceeded,
                    fmt::format("{} did not report the end of the workers within {}", Hosts(hosts),
                                ShowDuration(waited)),
                    "processes may still be running there"}};
}

Cause PartialSuccessCause(const WorkerRecord& winner, const std::optional<WorkerRecord>& failed,
                          int unfinished) {
  if (failed) {
    Cause cause = WorkerFailedCause(*failed, 0);
    cause.kind = CauseKind::kPartialSuccess;
    cause.error = {cause.error.code(),
                   fmt::format("{}, while {} succeeded", cause.error.message(), Name(winner)),
                   "with --success any, one success is enough"};
    return cause;
  }
  return {.kind = CauseKind::kPartialSuccess,
          .exit_code = kNobodyToBlame,
          .error = {ErrorCode::kPartialSuccess,
                    fmt::format("{} succeeded while {} other{} had not", Name(winner), unfinished,
                                unfinished == 1 ? "" : "s"),
                    "workers must end together; with --success any, one success is enough"}};
}

Cause LossCause(const std::optional<WorkerRecord>& failed, const std::string& why,
                uint32_t restarts) {
  if (failed && failed->status) {
    return WorkerFailedCause(*failed, restarts);
  }
  return {
      .kind = CauseKind::kNoSurvivor,
      .exit_code = kNobodyToBlame,
      .error = {ErrorCode::kStateLost,
                fmt::format("no worker is left to continue with{}{}", why.empty() ? "" : ": ", why),
                "only these hosts had the state"}};
}

Cause WhileConnecting(Cause cause) {
  cause.error = {cause.error.code(),
                 fmt::format("{} while the gang was connecting", cause.error.message()),
                 "Horovod can't recover from a loss while its workers connect in hvd.init(): the "
                 "rest of the gang ended with it; restart from the last checkpoint"};
  return cause;
}

Cause NoCommonHostCause() {
  return {.kind = CauseKind::kNoSurvivor,
          .exit_code = kNobodyToBlame,
          // Horovod's own message, which scripts look for.
          .error = {ErrorCode::kStateLost,
                    "No hosts from previous set remaining, unable to broadcast state.",
                    "all hosts of the job failed or disappeared from discovery"}};
}

Cause ResetLimitCause(uint32_t limit) {
  return {.kind = CauseKind::kResetLimit,
          .exit_code = kNobodyToBlame,
          // Horovod's own message, which scripts look for.
          .error = {ErrorCode::kResetLimit,
                    fmt::format("Horovod was shutdown because number of resets during elastic job "
                                "exceeded limit: {}",
                                limit),
                    fmt::format("raise --reset-limit (now {})", limit)}};
}

Cause NoSlotsCause(int needed, int found, Duration limit, bool can_come, bool is_first,
                   const std::string& last_loss) {
  // A job needs -np slots to start, and --min-np to continue.
  const std::string_view fewer = is_first ? "-np" : "--min-np";
  const std::string when =
      can_come ? fmt::format(" within {}", ShowDuration(limit)) : ", and no more can come";
  const std::string lost = last_loss.empty() ? "" : "; lost last: " + last_loss;
  return {.kind = CauseKind::kNoSlots,
          .exit_code = kHvdrayFailed,
          .error = {
              ErrorCode::kNoCapacity,
              fmt::format("found {} of {} slots that the job needs{}{}", found, needed, when, lost),
              can_come ? fmt::format("raise --elastic-timeout (now {}), or lower {}",
                                     ShowDuration(limit), fewer)
                       : fmt::format("add hosts, lower {}, or let failed hosts return "
                                     "(--blacklist-cooldown-range)",
                                     fewer)}};
}

Cause DiscoveryCause(const Status& why) {
  Status error = why.ok() ? Status(ErrorCode::kNoCapacity, "host discovery failed") : why;
  // Nothing was started: its output is invalid, like a bad host file.
  const bool is_spec = error.code() == ErrorCode::kSpecInvalid;
  return {.kind = CauseKind::kDiscoveryFailed,
          .exit_code = is_spec ? kWrongSpec : kHvdrayFailed,
          .error = error};
}

Cause UnreportedCause(Status error) {
  return {.kind = CauseKind::kStopTimeout, .exit_code = kHvdrayFailed, .error = std::move(error)};
}

std::string Name(const WorkerRecord& worker) {
  return fmt::format("rank {} on host {}", worker.rank, worker.host);
}

void AddLateFault(Verdict& verdict, const Event& event) {
  if (verdict.exit_code != 0) return;
  Cause cause;
  if (std::holds_alternative<event::ReaderGone>(event)) {
    cause = ReaderGoneCause();
  } else if (const auto* damaged = std::get_if<event::OutputDamaged>(&event)) {
    cause.error = AsOutputFault(damaged->why);
    cause.exit_code = CodeOfOutputFault(cause.error);
  } else {
    return;
  }
  verdict.exit_code = cause.exit_code;
  verdict.origin = ExitOrigin::kHvdray;
  verdict.error = std::move(cause.error);
}

void AddDrainFault(Verdict& verdict, Status drained) {
  if (drained.ok() || verdict.exit_code != 0) return;
  verdict.exit_code = CodeOfOutputFault(drained);
  verdict.error = std::move(drained);
}

std::vector<HostLoss> GroupLosses(std::span<const HostLoss> lost, size_t max_kinds) {
  std::vector<Kind> kinds;
  std::map<std::pair<ErrorCode, std::string>, size_t> index;
  for (const HostLoss& loss : lost) {
    const std::string& message = loss.error.message();
    std::string masked = Masked(message, loss.hosts.front(), Addresses::kMasked);
    std::string text = Masked(message, loss.hosts.front(), Addresses::kKept);
    const auto [it, is_new] = index.try_emplace({loss.error.code(), masked}, kinds.size());
    if (is_new) kinds.push_back({.why = loss.error, .text = text});
    Kind& kind = kinds[it->second];
    if (kind.text != text) kind.text = std::move(masked);
    kind.hosts.push_back(loss.hosts.front());
  }
  std::vector<HostLoss> losses;
  const size_t named = std::min(kinds.size(), max_kinds);
  for (size_t i = 0; i < named; ++i) {
    Status error = ErrorOf(kinds[i]);
    losses.push_back({std::move(error), std::move(kinds[i].hosts)});
  }
  if (kinds.size() > named) losses.push_back(Others(std::span(kinds).subspan(named)));
  return losses;
}

Status ErrorOfHost(const std::string& name, const Status& why) {
  const bool is_named = why.message().find(name) != std::string::npos;
  return is_named ? why : Status(why).WithContext(fmt::format("host {}", name));
}

HostLoss SilentHosts(std::vector<std::string> hosts) {
  Status error(ErrorCode::kConnectTimeout,
               fmt::format("no answer yet from {} more: {}", hosts.size(), CompressHostList(hosts)),
               "the job ended before they timed out; they may be slow, or failing too");
  return {std::move(error), std::move(hosts)};
}

}  // namespace hvdray
