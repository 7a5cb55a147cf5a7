// SPDX-License-Identifier: Apache-2.0
#include "launcher/driver/verdict.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <csignal>
#include <cstring>
#include <utility>

#include "launcher/job/value_text.h"

namespace hvdray {
namespace {

std::string ErrorText(int error) {
  // The agent's code for a file that exists while the interpreter in its first line or header does
  // not.
  if (error == ELIBACC) return "its interpreter does not exist";
  char buffer[128];
  return ::strerror_r(error, buffer, sizeof buffer);
}

std::string SignalText(int signo) {
  const char* name = ::sigabbrev_np(signo);
  if (name != nullptr) return fmt::format("SIG{} (signal {})", name, signo);
  if (signo >= SIGRTMIN && signo <= SIGRTMAX) {
    return fmt::format("SIGRTMIN+{} (signal {})", signo - SIGRTMIN, signo);
  }
  return fmt::format("signal {}", signo);
}

std::string DescribeStage(const wire::ExitStatus& status) {
  switch (status.stage) {
    case wire::ExecStage::kNone:
      break;
    case wire::ExecStage::kFork:
      return fmt::format("could not be started: fork: {}", ErrorText(status.error));
    case wire::ExecStage::kDirectory:
      return fmt::format("could not be entered as working directory: {}", ErrorText(status.error));
    case wire::ExecStage::kDescriptors:
      return fmt::format("could not be started: file descriptors: {}", ErrorText(status.error));
    case wire::ExecStage::kLimits:
      return fmt::format("could not be started: process group or limits: {}",
                         ErrorText(status.error));
    case wire::ExecStage::kExec:
      return fmt::format("could not be executed: {}", ErrorText(status.error));
  }
  return fmt::format("could not be started: stage {}: {}", static_cast<int>(status.stage),
                     ErrorText(status.error));
}

bool WasStoppedAfterError(const WorkerRecord& worker) {
  return worker.was_stopping && worker.status->signal != 0 && worker.error.is_own();
}

}  // namespace

int ExitCode(const wire::ExitStatus& status) {
  if (status.stage == wire::ExecStage::kExec) return status.error == ENOENT ? 127 : 126;
  if (status.stage != wire::ExecStage::kNone) return kHvdrayFailed;
  // An agent can send any number; none may turn a failure into 0, as 256 would.
  if (status.signal != 0) {
    return status.signal > 0 && status.signal < 128 ? 128 + status.signal : 255;
  }
  return status.exit_code >= 0 && status.exit_code < 256 ? status.exit_code : 255;
}

int ExitCode(const WorkerRecord& worker) {
  return WasStoppedAfterError(worker) ? 1 : ExitCode(worker.status.value());
}

std::string DescribeFailure(const WorkerRecord& worker) {
  if (worker.error.text.starts_with(kStallRecord)) {
    return worker.error.text.substr(kStallRecord.size());
  }
  if (!WasStoppedAfterError(worker)) return Describe(worker.status.value());
  return fmt::format("failed ({}) and was stopped while it ended", worker.error.text);
}

std::string Describe(const wire::ExitStatus& status) {
  if (status.stage != wire::ExecStage::kNone) return DescribeStage(status);
  if (status.is_oom) return "ran out of memory (killed by the kernel)";
  if (status.signal != 0) {
    return fmt::format("was killed by {}{}", SignalText(status.signal),
                       status.has_core ? ", core dumped" : "");
  }
  return fmt::format("exited with code {}", status.exit_code);
}

std::string CompressRanks(std::vector<int> ranks) {
  std::sort(ranks.begin(), ranks.end());
  ranks.erase(std::unique(ranks.begin(), ranks.end()), ranks.end());
  std::string text;
  for (size_t i = 0; i < ranks.size();) {
    size_t last = i;
    while (last + 1 < ranks.size() && ranks[last + 1] == ranks[last] + 1) ++last;
    if (last == i + 1) last = i;
    if (!text.empty()) text += ',';
    text += fmt::format("{}", ranks[i]);
    if (last > i) text += fmt::format("-{}", ranks[last]);
    i = last + 1;
  }
  return text;
}

std::string RanksText(std::vector<int> ranks) {
  const std::string text = CompressRanks(std::move(ranks));
  const bool is_one = text.find_first_of(",-") == std::string::npos;
  return fmt::format("{} {}", is_one ? "rank" : "ranks", text);
}

Status KilledAfterGrace(std::span<const WorkerRecord> workers) {
  std::vector<int> ranks;
  Duration grace{};
  for (const WorkerRecord& worker : workers) {
    const bool is_killed = worker.was_stopping && worker.status && worker.status->signal == SIGKILL;
    if (!is_killed || worker.grace <= Duration::zero()) continue;
    ranks.push_back(worker.rank);
    grace = std::max(grace, worker.grace);
  }
  if (ranks.empty()) return {};
  const bool is_one = ranks.size() == 1;
  return {ErrorCode::kDeadlineExceeded,
          fmt::format("killed, because {} had not ended {} after SIGTERM: {}",
                      is_one ? "it" : "they", ShowDuration(grace), RanksText(ranks)),
          fmt::format("raise --grace if {} longer to save", is_one ? "it needs" : "they need")};
}

namespace {

using std::chrono::milliseconds;

// An error shown longer before the end did not cause it: the program survived it.
constexpr Duration kLongestEnd = std::chrono::seconds(30);
// The order of closer times proves nothing: pipes of one host are read in turn, links have
// different delays, and the kernel closes the connections of a killed process, which its peers
// report at once, before its parent can reap it.
constexpr Duration kSlack = milliseconds(50);
constexpr Duration kSlackOfEnds = milliseconds(5);

struct Suspect {
  int index = 0;
  const WorkerRecord* worker = nullptr;
  bool is_own = false;
  bool has_erred = false;  ///< `sign` is the time of its error, not of its end.
  TimePoint sign;          ///< The first sign of its failure.
  int rank() const { return worker->rank; }
};

// No program ends by SIGKILL because a peer ended: the signal came from outside, whatever the
// program printed before.
bool IsKilled(const WorkerRecord& worker) {
  return worker.status && worker.status->signal == SIGKILL && !worker.was_stopping;
}

bool HasFailed(const WorkerRecord& worker) {
  return worker.status.has_value() && !worker.status->is_success();
}

TimePoint EndOf(const WorkerRecord& worker) { return worker.ended.value_or(TimePoint::max()); }

TimePoint FirstEnd(std::span<const WorkerRecord> workers) {
  TimePoint first = TimePoint::max();
  for (const WorkerRecord& worker : workers) {
    if (HasFailed(worker) && !worker.was_stopping) first = std::min(first, EndOf(worker));
  }
  return first;
}

std::vector<Suspect> SuspectsOf(std::span<const WorkerRecord> workers) {
  const TimePoint first_end = FirstEnd(workers);
  std::vector<Suspect> suspects;
  for (size_t i = 0; i < workers.size(); ++i) {
    const WorkerRecord& worker = workers[i];
    if (!HasFailed(worker)) continue;
    // The error of a worker that we stopped counts only if we can't have caused it.
    const bool has_own_error = worker.error.is_own() && worker.erred && *worker.erred <= first_end;
    if (worker.was_stopping && !has_own_error) continue;
    Suspect suspect{.index = static_cast<int>(i),
                    .worker = &worker,
                    .is_own = worker.error.peer_words.empty() || IsKilled(worker),
                    .sign = EndOf(worker)};
    // A worker that dies of a signal did not end by the error that it printed.
    const bool is_crash = worker.status->signal != 0 && !worker.was_stopping;
    if (worker.erred && !is_crash && *worker.erred + kLongestEnd >= suspect.sign) {
      suspect.has_erred = true;
      suspect.sign = *worker.erred;
    }
    if (IsKilled(worker)) suspect.sign -= kSlack;
    suspects.push_back(suspect);
  }
  return suspects;
}

bool HasStalled(const WorkerRecord& worker) { return worker.error.text.starts_with(kStallRecord); }

// One that others waited for may just have been slow: it is suspected where nobody has an error of
// its own.
void DropSlowOnes(std::vector<Suspect>& suspects) {
  const bool has_other = std::any_of(suspects.begin(), suspects.end(), [](const Suspect& one) {
    return one.is_own && !HasStalled(*one.worker);
  });
  if (has_other) {
    std::erase_if(suspects, [](const Suspect& one) { return HasStalled(*one.worker); });
  }
}

const Suspect* Earliest(std::span<const Suspect> suspects, bool is_own, int preferred = -1) {
  const Suspect* first = nullptr;
  for (const Suspect& one : suspects) {
    if (one.is_own != is_own) continue;
    const bool is_before = first == nullptr || one.sign < first->sign ||
                           (one.sign == first->sign && one.index == preferred);
    if (is_before) first = &one;
  }
  return first;
}

int64_t Ms(Duration time) { return std::chrono::duration_cast<milliseconds>(time).count(); }

// Peers that blame another worker are evidence against one with an error of its own.
void WeighVictims(const Suspect& first, std::span<const Suspect> suspects, Culprit& culprit) {
  const Suspect* victim = Earliest(suspects, /*is_own=*/false);
  if (victim == nullptr) return;
  culprit.evidence.push_back(
      fmt::format("the others' errors blame a peer (\"{}\")", victim->worker->error.peer_words));
  // Without a traceback it is unknown how long the program had been ending.
  const bool is_sign_known = first.has_erred || first.worker->status->signal != 0;
  if (!is_sign_known || victim->sign + kSlack >= first.sign) return;
  culprit.is_certain = false;
  culprit.evidence.push_back(fmt::format("but that of rank {} came {} ms earlier", victim->rank(),
                                         Ms(first.sign - victim->sign)));
}

void WeighOthers(const Suspect& first, std::span<const Suspect> suspects, Culprit& culprit) {
  const Suspect* second = nullptr;
  for (const Suspect& one : suspects) {
    if (!one.is_own || one.index == first.index) continue;
    if (second == nullptr || one.sign < second->sign) second = &one;
  }
  if (second == nullptr) return;
  const bool is_close = second->sign - first.sign < kSlackOfEnds;
  const bool has_ended_before = EndOf(*second->worker) < EndOf(*first.worker);
  if (!is_close && !has_ended_before) return;
  culprit.is_certain = false;
  culprit.evidence.emplace_back(first.has_erred ? "its error came first" : "it ended first");
  culprit.evidence.push_back(has_ended_before
                                 ? fmt::format("but rank {} ended before it", second->rank())
                                 : fmt::format("but rank {} failed too, {} ms later",
                                               second->rank(), Ms(second->sign - first.sign)));
}

// All failed workers blame a peer: the culprit itself is unknown.
void AddNoneOfItsOwn(const Suspect& first, std::span<const WorkerRecord> workers,
                     Culprit& culprit) {
  culprit.evidence.push_back(
      fmt::format("its error came first, though it blames a peer (\"{}\") as all do",
                  first.worker->error.peer_words));
  for (const WorkerRecord& worker : workers) {
    const bool has_left = worker.status && worker.status->is_success() && !worker.was_stopping &&
                          EndOf(worker) <= EndOf(*first.worker);
    if (!has_left) continue;
    culprit.evidence.push_back(fmt::format("rank {} had already succeeded", worker.rank));
    return;
  }
}

// One that ends without a word, or by its peers, may have waited for one that never came.
void AddStalls(const WorkerRecord& first, std::span<const WorkerRecord> workers, Culprit& culprit) {
  if (first.error.is_own() || first.status->signal != 0) return;
  for (const WorkerRecord& worker : workers) {
    if (&worker == &first || !HasStalled(worker)) continue;
    culprit.is_certain = false;
    if (culprit.evidence.empty()) culprit.evidence.emplace_back("it ended first");
    culprit.evidence.push_back(fmt::format("but rank {} {}", worker.rank, DescribeFailure(worker)));
  }
}

}  // namespace

bool IsPlainCrash(const WorkerRecord& worker) {
  if (IsKilled(worker)) return true;
  constexpr std::array<int, 6> kCrashes = {SIGSEGV, SIGBUS, SIGILL, SIGFPE, SIGSYS, SIGTRAP};
  const bool is_crash = worker.status && std::find(kCrashes.begin(), kCrashes.end(),
                                                   worker.status->signal) != kCrashes.end();
  return is_crash && !worker.was_stopping && worker.error == LastError();
}

Culprit FindCulprit(std::span<const WorkerRecord> workers, int preferred) {
  std::vector<Suspect> suspects = SuspectsOf(workers);
  DropSlowOnes(suspects);
  const Suspect* first = Earliest(suspects, /*is_own=*/true, preferred);
  Culprit culprit{.index = -1, .is_own = first != nullptr, .is_certain = first != nullptr};
  if (first == nullptr) first = Earliest(suspects, /*is_own=*/false, preferred);
  if (first == nullptr) return culprit;
  culprit.index = first->index;
  if (!culprit.is_own) {
    culprit.is_certain = suspects.size() == 1 && workers.size() == 1;
    AddNoneOfItsOwn(*first, workers, culprit);
  } else {
    WeighVictims(*first, suspects, culprit);
    WeighOthers(*first, suspects, culprit);
    if (first->worker->was_stopping) {
      culprit.is_certain = false;
      culprit.evidence.emplace_back("its error came before any worker ended");
    }
  }
  AddStalls(*first->worker, workers, culprit);
  if (culprit.is_certain) culprit.evidence.clear();
  return culprit;
}

}  // namespace hvdray
