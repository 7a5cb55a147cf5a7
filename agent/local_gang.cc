// SPDX-License-Identifier: Apache-2.0
#include "agent/local_gang.h"

#include <fcntl.h>

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <utility>

#include "base/log.h"

namespace hvdray {
namespace {

using std::chrono::milliseconds;
using wire::ExecStage;

constexpr Duration kFirstPoll = milliseconds(2);
constexpr Duration kLongestPoll = milliseconds(50);
constexpr Duration kReapPeriod = std::chrono::seconds(1);

}  // namespace

std::string_view Name(LocalGang::State state) {
  switch (state) {
    case LocalGang::State::kStarting:
      return "starting";
    case LocalGang::State::kRunning:
      return "running";
    case LocalGang::State::kLingering:
      return "lingering";
    case LocalGang::State::kStopping:
      return "stopping";
    case LocalGang::State::kSweeping:
      return "sweeping";
    case LocalGang::State::kDraining:
      return "draining";
    case LocalGang::State::kStopped:
      return "stopped";
  }
  return "?";
}

LocalGang::LocalGang(Loop& loop, wire::Link& link, wire::StartGeneration start,
                     LocalGang::Options options, LocalGang::Owner& owner)
    : loop_(loop),
      link_(link),
      start_(WithNodePython(std::move(start), options.node.python)),
      options_(std::move(options)),
      owner_(owner),
      environment_(options_.keeps_processes ? GangEnvironment::Plain(start_, options_.node)
                                            : GangEnvironment(start_, options_.job_id,
                                                              options_.generation, options_.node)),
      workers_(loop, *this),
      pump_(loop, link, options_.generation, [this] { Schedule(); }),
      inputs_(loop, [this](wire::Credit credit) { Send(credit); }),
      beginning_(loop, start_, environment_, *this) {
  for (const wire::WorkerSlot& slot : start_.workers) names_.insert(slot.name());
}

LocalGang::~LocalGang() = default;

void LocalGang::Enter(LocalGang::State next) {
  Log(LogLevel::kDebug, "agent", "gang[gen={}] {} -> {} at {:.6f}", options_.generation,
      Name(state_), Name(next), Seconds(loop_.Now().time_since_epoch()).count());
  state_ = next;
}

void LocalGang::Start() {
  if (!options_.cgroup_directory.empty()) {
    Result<Cgroup> group = Cgroup::Create(options_.cgroup_directory);
    if (group.ok()) {
      cgroup_ = std::move(group).value();
    } else {
      Log(LogLevel::kInfo, "agent", "no cgroup: {}", group.status().message());
    }
  }
  oom_watch_.emplace(cgroup_ ? cgroup_->directory() : std::string());
  reap_timer_ = loop_.Every(kReapPeriod, [this] {
    if (!sweeper_) ReapOrphans([this](pid_t pid) { return owner_.IsOurs(pid); });
  });
  for (const wire::WorkerSlot& slot : start_.workers) {
    if (slot.rank == start_.stdin_rank) inputs_.Expect(slot.name(), wire::StreamId::kStdin);
    if (start_.has_channel) inputs_.Expect(slot.name(), wire::StreamId::kChannel);
  }
  beginning_.Start(cgroup_ ? &*cgroup_ : nullptr, options_.directory_error,
                   !options_.keeps_processes);
}

ForkServer* LocalGang::FindServer(const ForkServerPlan& plan) {
  return owner_.FindServer(plan, options_.generation, milliseconds(start_.preload_limit_ms));
}

ExecFailure LocalGang::Equip(const wire::WorkerSlot& slot, std::vector<std::string>* environment) {
  const int name = slot.name();
  const Result<uint16_t> port = owner_.OpenRelay(*this, slot);
  if (!port.ok()) {
    Log(LogLevel::kError, "agent", "worker={}: {}", name, port.status().ToString());
    const bool is_full = port.status().code() == ErrorCode::kOutOfResources;
    return {ExecStage::kDescriptors, is_full ? EMFILE : EADDRNOTAVAIL};
  }
  std::string error_file;
  if (start_.is_torch_environment) {
    Result<ErrorFile> file = ErrorFile::Make();
    if (file.ok()) {
      error_file = file->path();
      error_files_.insert_or_assign(name, std::move(file).value());
    } else {
      Log(LogLevel::kInfo, "agent", "worker={}: no error file: {}", name, file.status().message());
    }
  }
  *environment = environment_.ForWorker(slot, *port, error_file);
  return {};
}

void LocalGang::OnProcess(int worker, SpawnedProcess process) {
  WorkerSet::Pipes pipes = workers_.Take(worker, std::move(process));
  if (pipes.stdin_pipe.is_valid()) {
    inputs_.Open(worker, wire::StreamId::kStdin, std::move(pipes.stdin_pipe));
  }
  if (pipes.channel.is_valid()) {
    UniqueFd writer(::fcntl(pipes.channel.get(), F_DUPFD_CLOEXEC, 0));
    inputs_.Open(worker, wire::StreamId::kChannel, std::move(writer));
  }
  pump_.Add(worker, std::move(pipes.stdout_pipe), std::move(pipes.stderr_pipe),
            std::move(pipes.channel));
  if (IsUnwanted(worker)) workers_.SignalGroup(worker, SIGKILL);
}

void LocalGang::OnRefused(int worker, const ExecFailure& failure) {
  inputs_.Close(worker);
  wire::ExitStatus status;
  status.stage = failure.stage;
  status.error = failure.error;
  for (const auto stream :
       {wire::StreamId::kStdout, wire::StreamId::kStderr, wire::StreamId::kChannel}) {
    if (stream == wire::StreamId::kChannel && !start_.has_channel) continue;
    Send(wire::Output{worker, stream, true, {}});
  }
  Send(wire::WorkerExited{worker, status, IsToldToEnd(worker)});
}

void LocalGang::OnSettled() {
  if (state_ == LocalGang::State::kStarting) Enter(LocalGang::State::kRunning);
  Schedule();
}

// Includes when the worker's error began and its recorded message, where known.
wire::WorkerExited LocalGang::ExitOf(int rank, const wire::ExitStatus& status, bool was_stopping) {
  wire::WorkerExited exited{rank, status, was_stopping};
  std::optional<Duration> age;
  if (const auto erred = pump_.ReadErrors(rank)) age = loop_.Now() - *erred;
  if (const auto file = error_files_.find(rank); file != error_files_.end()) {
    if (std::optional<ErrorFile::Record> record = file->second.Read()) {
      age = std::max(age.value_or(Duration::zero()), record->age);
      exited.recorded_error = std::move(record->message);
    }
    error_files_.erase(file);
  }
  if (age) exited.error_age_ms = std::chrono::duration_cast<milliseconds>(*age).count();
  return exited;
}

void LocalGang::OnStarted(int rank, pid_t pid) {
  Send(wire::WorkerStarted{rank, static_cast<uint32_t>(pid)});
}

void LocalGang::OnExited(int rank, const wire::ExitStatus& how) {
  const bool was_stopping = IsToldToEnd(rank);
  wire::ExitStatus status = how;
  if (status.signal == SIGKILL && !was_stopping) status.is_oom = oom_watch_->ClaimKill();
  inputs_.Close(rank);
  owner_.CloseRelay(rank);
  if (options_.keeps_processes && !was_stopping) workers_.LeaveGroup(rank);
  Send(ExitOf(rank, status, was_stopping));
  if (options_.ends_one_by_one && !was_stopping) EndGroupAfter(rank, options_.linger);
  Schedule();
}

// Processes that outlive their group's leader are not workers.
void LocalGang::EndGroupAfter(int worker, Duration pause) {
  endings_[worker] = loop_.After(pause, [this, worker] { workers_.SignalGroup(worker, SIGKILL); });
}

void LocalGang::StopWorkers(std::span<const int> workers, Duration grace) {
  if (ending_.has_begun()) return;  // Stop() has the whole gang.
  workers_.ReapDead();
  for (const int worker : workers) {
    if (!Has(worker)) continue;
    told_to_end_.insert(worker);
    if (grace > Duration::zero()) {
      workers_.SignalGroup(worker, SIGTERM);
      workers_.SignalGroup(worker, SIGCONT);
    }
    EndGroupAfter(worker, grace);
  }
  groups_until_ = std::max(groups_until_, loop_.Now() + grace);
}

void LocalGang::SignalToEnd(int signo) {
  workers_.SignalAllGroups(signo);
  workers_.SignalAllGroups(SIGCONT);  // A stopped process would not handle the signal.
}

void LocalGang::SendDueSignal() {
  if (const int signo = ending_.TakeDue(loop_.Now()); signo != 0) SignalToEnd(signo);
}

void LocalGang::Stop(Duration grace) {
  if (state_ == LocalGang::State::kSweeping || state_ == LocalGang::State::kDraining ||
      state_ == LocalGang::State::kStopped) {
    return;
  }
  workers_.ReapDead();
  const bool is_first = !ending_.has_begun();
  ending_.Stop(loop_.Now(), grace);
  if (is_first) {
    beginning_.Cancel();
    SendDueSignal();
    poll_pause_ = kFirstPoll;
    Enter(LocalGang::State::kStopping);
  }
  if (grace <= Duration::zero()) {
    AdvanceStopping();
  } else {
    Schedule();
  }
}

void LocalGang::Signal(int rank, int signo) {
  if (signo <= 0 || signo >= NSIG) return;
  if (rank < 0 && signo == SIGINT) {
    ending_.OnInterrupted();
    SignalToEnd(SIGINT);
  } else if (rank < 0) {
    workers_.SignalAllGroups(signo);
  } else {
    workers_.SignalGroup(rank, signo);
  }
}

void LocalGang::Schedule(Duration delay) {
  const TimePoint at = loop_.Now() + delay;
  if (advance_timer_.is_active() && advance_at_ <= at) return;
  advance_at_ = at;
  advance_timer_ = loop_.After(delay, [this] {
    advance_timer_.Cancel();
    Advance();
  });
}

void LocalGang::Advance() {
  switch (state_) {
    case LocalGang::State::kStarting:
      return;
    case LocalGang::State::kRunning:
      if (workers_.live_count() > 0) return;
      Enter(LocalGang::State::kLingering);
      linger_until_ = std::max(loop_.Now() + options_.linger, groups_until_);
      poll_pause_ = kFirstPoll;
      AdvanceLingering();
      return;
    case LocalGang::State::kLingering:
      AdvanceLingering();
      return;
    case LocalGang::State::kStopping:
      AdvanceStopping();
      return;
    case LocalGang::State::kSweeping:
      return;
    case LocalGang::State::kDraining:
      if (!pump_.HasEnded()) return;
      Enter(LocalGang::State::kStopped);
      reap_timer_.Cancel();
      owner_.OnStopped(*this, swept_);
      return;
    case LocalGang::State::kStopped:
      return;
  }
}

void LocalGang::AdvanceLingering() {
  ReapOrphans([this](pid_t pid) { return owner_.IsOurs(pid); });
  const TimePoint now = loop_.Now();
  const bool is_over = now >= linger_until_;
  // A process that is exiting needs no kill and must not count as an orphan.
  const bool is_quiet = pump_.HasEnded() && !workers_.HasLivingGroup();
  if (is_quiet || (is_over && !pump_.IsHeldBack())) {
    Sweep();
    return;
  }
  // Ends of streams wake the gang by themselves.
  Duration pause = is_over ? kLongestPoll : linger_until_ - now;
  if (pump_.HasEnded()) {
    pause = std::min(pause, poll_pause_);
    poll_pause_ = std::min(poll_pause_ * 2, kLongestPoll);
  }
  Schedule(pause);
}

void LocalGang::AdvanceStopping() {
  ReapOrphans([this](pid_t pid) { return owner_.IsOurs(pid); });
  const TimePoint now = loop_.Now();
  SendDueSignal();
  const bool is_killed = ending_.is_killed();
  if (is_killed) beginning_.KillServer();
  // With sibling gangs, wait for dying children before sweeping.
  const bool is_group_swept = is_killed && !owner_.HasSiblings();
  if (beginning_.is_settled() && workers_.live_count() == 0 &&
      (is_group_swept || !workers_.HasLivingGroup())) {
    Sweep();
    return;
  }
  const TimePoint give_up_at = ending_.kill_at() + options_.reap_limit;
  if (is_killed && now >= give_up_at) {
    GiveUpOnUnreaped();
    Sweep();
    return;
  }
  // Exits wake the gang by themselves; only processes that outlive their leader need polling.
  Duration pause = (is_killed ? give_up_at : ending_.next()) - now;
  if (workers_.live_count() == 0) {
    pause = std::min(pause, poll_pause_);
    poll_pause_ = std::min(poll_pause_ * 2, kLongestPoll);
  }
  Schedule(pause);
}

void LocalGang::GiveUpOnUnreaped() {
  for (const int rank : workers_.LiveRanks()) {
    Log(LogLevel::kError, "agent", "rank={}: not reaped {:.0f} s after SIGKILL; left behind", rank,
        Seconds(options_.reap_limit).count());
    wire::ExitStatus status;
    status.signal = SIGKILL;
    Send(wire::WorkerExited{rank, status, true});
  }
}

void LocalGang::Sweep() {
  Enter(LocalGang::State::kSweeping);
  const auto is_worker = [this](pid_t pid) { return workers_.IsLive(pid); };
  // An orphan adopted as subreaper does not show its gang: while sibling gangs live, only the
  // cgroup, if there is one, identifies ours.
  const auto is_foreign = [this](pid_t pid) { return owner_.HasSiblings() || owner_.IsOurs(pid); };
  sweeper_.emplace(loop_, cgroup_ ? &*cgroup_ : nullptr, is_worker, is_foreign);
  sweeper_->Run(options_.sweep_limit, [this](uint32_t swept, bool is_clean) {
    swept_ = swept;
    if (!is_clean) Log(LogLevel::kError, "agent", "some processes of the gang can't be killed");
    Enter(LocalGang::State::kDraining);
    pump_.ForceEnd();
    Schedule();
  });
}

}  // namespace hvdray
