// SPDX-License-Identifier: Apache-2.0
#include "agent/local_gang.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <bit>
#include <cerrno>
#include <csignal>
#include <utility>

#include "base/log.h"
#include "base/message_stream.h"

namespace hvdray {
namespace {

using std::chrono::milliseconds;
using wire::ExecStage;

constexpr int kForksPerTurn = 16;  // The loop serves heartbeats and the rendezvous in between.
constexpr Duration kFirstPoll = milliseconds(2);
constexpr Duration kLongestPoll = milliseconds(50);
constexpr Duration kReapPeriod = std::chrono::seconds(1);
// All pipes together stay below half of Linux's limit for a user (fs.pipe-user-pages-soft, 64 MiB;
// beyond it, new pipes get one page).
constexpr int kAllPipesBytes = 32 << 20;
constexpr int kLargestPipeBytes = 1 << 20;
constexpr int kKernelPipeBytes = 64 << 10;

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
      plan_(PlanExec(start_.command, FindPath(environment_.shared()), start_.working_directory)),
      workers_(loop, *this),
      pump_(loop, link, options_.generation, [this] { Schedule(); }) {
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
  const bool has_server = !start_.preload.empty() && !options_.keeps_processes;
  if (has_server && !start_.workers.empty() && options_.directory_error == 0) PlanServer();
  MakePumps();
  StartSome();
}

void LocalGang::PlanServer() {
  Result<ForkServerPlan> plan =
      PlanForkServer(start_, environment_.shared(), environment_.ForWorker(start_.workers[0], 0));
  if (plan.ok()) {
    server_plan_ = std::move(plan).value();
  } else {
    Send(wire::Warmed{.why = plan.status().message()});
  }
}

int LocalGang::PipeBytes() const {
  const int pipes = static_cast<int>(2 * std::max<size_t>(1, start_.workers.size()));
  const int share = static_cast<int>(std::bit_floor(static_cast<unsigned>(kAllPipesBytes / pipes)));
  return share > kKernelPipeBytes ? std::min(share, kLargestPipeBytes) : 0;
}

// What comes for a worker before it is started, in a later turn or by a fork server, is kept.
void LocalGang::MakePumps() {
  for (const wire::WorkerSlot& slot : start_.workers) {
    if (slot.rank == start_.stdin_rank)
      AddPump(stdin_pumps_, slot.name(), wire::StreamId::kStdin, {});
    if (start_.has_channel) AddPump(channel_pumps_, slot.name(), wire::StreamId::kChannel, {});
  }
}

void LocalGang::StartSome() {
  ForkServer* server = nullptr;
  if (server_plan_) {
    server = owner_.FindServer(*server_plan_, options_.generation,
                               milliseconds(start_.preload_limit_ms));
  }
  if (server != nullptr && !server->is_settled()) return;
  if (server != nullptr && server->is_warm()) return ForkSome(*server);
  for (int i = 0; i < kForksPerTurn && next_start_ < start_.workers.size(); ++i) {
    if (const auto beginner = Prepare(start_.workers[next_start_++])) Exec(*beginner);
  }
  EndStart();
}

void LocalGang::OnWarmed() {
  if (state_ == LocalGang::State::kStarting && forking_.empty()) {
    start_timer_ = loop_.After(Duration::zero(), [this] { StartSome(); });
  }
}

void LocalGang::EndStart() {
  if (next_start_ < start_.workers.size()) {
    start_timer_ = loop_.After(Duration::zero(), [this] { StartSome(); });
    return;
  }
  start_timer_.Cancel();
  Enter(LocalGang::State::kRunning);
  Schedule();
}

std::optional<LocalGang::Beginner> LocalGang::Prepare(const wire::WorkerSlot& slot) {
  const int name = slot.name();
  if (cancelled_.contains(name)) {
    FailToStart(name, ExecStage::kFork, ECANCELED);
    return std::nullopt;
  }
  if (options_.directory_error != 0) {
    FailToStart(name, ExecStage::kDirectory, options_.directory_error);
    return std::nullopt;
  }
  if (plan_.paths.empty()) {
    FailToStart(name, ExecStage::kExec, plan_.error);
    return std::nullopt;
  }
  const Result<uint16_t> port = owner_.OpenRelay(*this, slot);
  if (!port.ok()) {
    Log(LogLevel::kError, "agent", "worker={}: {}", name, port.status().ToString());
    const bool is_full = port.status().code() == ErrorCode::kOutOfResources;
    FailToStart(name, ExecStage::kDescriptors, is_full ? EMFILE : EADDRNOTAVAIL);
    return std::nullopt;
  }
  Beginner beginner;
  beginner.name = name;
  beginner.environment = environment_.ForWorker(slot, *port, ErrorFileOf(name));
  if (slot.rank == start_.stdin_rank) beginner.stdin_kind = StdinKind::kPipe;
  return beginner;
}

SpawnRequest LocalGang::RequestFor(const Beginner& beginner) const {
  SpawnRequest request;
  request.plan = &plan_;
  request.shared_environment = environment_.shared();
  request.own_environment = beginner.environment;
  request.stdin_kind = beginner.stdin_kind;
  request.has_channel = start_.has_channel;
  if (cgroup_) {
    request.cgroup_directory_fd = cgroup_->directory_fd();
    request.cgroup_procs_fd = cgroup_->procs_fd();
  }
  request.pipe_bytes = PipeBytes();
  return request;
}

void LocalGang::Exec(const Beginner& beginner) {
  ExecFailure failure;
  std::optional<WorkerSet::Pipes> pipes =
      workers_.Start(beginner.name, RequestFor(beginner), failure);
  if (!pipes) return FailToBegin(beginner.name, failure);
  AddPumps(beginner.name, std::move(*pipes));
}

void LocalGang::ForkSome(ForkServer& server) {
  ForkRequest request;
  while (forking_.size() < kMaxForks && next_start_ < start_.workers.size()) {
    std::optional<Beginner> beginner = Prepare(start_.workers[next_start_++]);
    if (!beginner) continue;
    ChildEnds ends;
    const ExecFailure failure = OpenEnds(RequestFor(*beginner), ends, beginner->process);
    if (failure != ExecFailure()) {
      FailToBegin(beginner->name, failure);
      continue;
    }
    request.own_environments.push_back(beginner->environment);
    request.ends.push_back(std::move(ends));
    forking_.push_back(std::move(*beginner));
  }
  if (forking_.empty()) return EndStart();
  request.shared_environment = environment_.shared();
  if (cgroup_) request.cgroup_procs.Reset(::fcntl(cgroup_->procs_fd(), F_DUPFD_CLOEXEC, 0));
  server_ = &server;
  server.Fork(std::move(request), [this](Forked answer) { OnForked(std::move(answer)); });
}

void LocalGang::OnForked(Forked answer) {
  std::vector<Beginner> beginners = std::exchange(forking_, {});
  server_ = nullptr;
  // One byte for each: those that are killed may take one, too.
  const std::string bytes(beginners.size(), 'g');
  for (size_t i = 0; i < beginners.size(); ++i) {
    Beginner& beginner = beginners[i];
    const bool is_unwanted = kill_at_ || told_to_end_.contains(beginner.name);
    const pid_t pid = i < answer.pids.size() ? answer.pids[i] : 0;
    if (pid > 0) {
      if (const int error = Adopt(pid, beginner.process); error != 0) {
        FailToBegin(beginner.name, {ExecStage::kFork, error});
        continue;
      }
      AddPumps(beginner.name, workers_.Take(beginner.name, std::move(beginner.process)));
      if (is_unwanted) workers_.SignalGroup(beginner.name, SIGKILL);
    } else if (pid < 0) {
      FailToBegin(beginner.name, {ExecStage::kFork, -pid});
    } else if (is_unwanted) {
      FailToBegin(beginner.name, {ExecStage::kFork, ECANCELED});
    } else {
      Exec(beginner);  // the server is gone
    }
  }
  if (!kill_at_ && answer.gate.is_valid()) (void)WriteAll(answer.gate.get(), bytes).ok();
  if (state_ == LocalGang::State::kStarting) return EndStart();
  Schedule();
}

void LocalGang::FailToBegin(int name, const ExecFailure& failure) {
  owner_.CloseRelay(name);
  FailToStart(name, failure.stage, failure.error);
}

void LocalGang::AddPumps(int name, WorkerSet::Pipes pipes) {
  if (pipes.stdin_pipe.is_valid()) {
    AddPump(stdin_pumps_, name, wire::StreamId::kStdin, std::move(pipes.stdin_pipe));
  }
  if (pipes.channel.is_valid()) {
    UniqueFd writer(::fcntl(pipes.channel.get(), F_DUPFD_CLOEXEC, 0));
    AddPump(channel_pumps_, name, wire::StreamId::kChannel, std::move(writer));
  }
  pump_.Add(name, std::move(pipes.stdout_pipe), std::move(pipes.stderr_pipe),
            std::move(pipes.channel));
}

void LocalGang::AddPump(std::map<int, StdinPump>& pumps, int name, wire::StreamId stream,
                        UniqueFd fd) {
  const auto [pump, is_new] = pumps.try_emplace(name, loop_, [this, name, stream](uint32_t n) {
    Send(wire::Credit{name, stream, n});
  });
  if (fd.is_valid()) pump->second.Open(std::move(fd));
}

std::string LocalGang::ErrorFileOf(int name) {
  if (!start_.is_torch_environment) return {};
  Result<ErrorFile> file = ErrorFile::Make();
  if (!file.ok()) {
    Log(LogLevel::kInfo, "agent", "worker={}: no error file: {}", name, file.status().message());
    return {};
  }
  return error_files_.insert_or_assign(name, std::move(file).value()).first->second.path();
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

void LocalGang::FailToStart(int rank, ExecStage stage, int error) {
  ClosePumps(rank);
  wire::ExitStatus status;
  status.stage = stage;
  status.error = error;
  for (const auto stream :
       {wire::StreamId::kStdout, wire::StreamId::kStderr, wire::StreamId::kChannel}) {
    if (stream == wire::StreamId::kChannel && !start_.has_channel) continue;
    Send(wire::Output{rank, stream, true, {}});
  }
  Send(wire::WorkerExited{rank, status, IsToldToEnd(rank)});
}

void LocalGang::ClosePumps(int name) {
  for (auto* pumps : {&stdin_pumps_, &channel_pumps_}) {
    if (const auto pump = pumps->find(name); pump != pumps->end()) pump->second.Close();
  }
}

bool LocalGang::IsToldToEnd(int rank) const {
  return kill_at_ || is_interrupted_ || told_to_end_.contains(rank);
}

void LocalGang::OnStarted(int rank, pid_t pid) {
  Send(wire::WorkerStarted{rank, static_cast<uint32_t>(pid)});
}

void LocalGang::OnExited(int rank, const wire::ExitStatus& how) {
  const bool was_stopping = IsToldToEnd(rank);
  wire::ExitStatus status = how;
  if (status.signal == SIGKILL && !was_stopping) status.is_oom = oom_watch_->ClaimKill();
  ClosePumps(rank);
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
  if (kill_at_) return;  // Stop() has the whole gang.
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
  CancelStartsOf(workers);
}

// Cancels the pending forks of these workers.
void LocalGang::CancelStartsOf(std::span<const int> workers) {
  for (size_t i = next_start_; i < start_.workers.size(); ++i) {
    const int name = start_.workers[i].name();
    if (std::find(workers.begin(), workers.end(), name) != workers.end()) cancelled_.insert(name);
  }
}

void LocalGang::CancelStarts() {
  start_timer_.Cancel();
  while (next_start_ < start_.workers.size()) {
    FailToStart(start_.workers[next_start_++].name(), ExecStage::kFork, ECANCELED);
  }
}

void LocalGang::SignalToEnd(int signo) {
  workers_.SignalAllGroups(signo);
  workers_.SignalAllGroups(SIGCONT);  // A stopped process would not handle the signal.
}

void LocalGang::Stop(Duration grace) {
  if (state_ == LocalGang::State::kSweeping || state_ == LocalGang::State::kDraining ||
      state_ == LocalGang::State::kStopped) {
    return;
  }
  workers_.ReapDead();
  const TimePoint now = loop_.Now();
  if (!kill_at_) {
    kill_at_ = now + grace;
    CancelStarts();
    if (is_interrupted_ && grace > Duration::zero()) {
      term_at_ = kill_at_;
      kill_at_ = now + 2 * grace;
    } else if (grace > Duration::zero()) {
      SignalToEnd(SIGTERM);
    }
    poll_pause_ = kFirstPoll;
    Enter(LocalGang::State::kStopping);
  } else {
    if (term_at_) term_at_ = now;
    kill_at_ = std::min(*kill_at_, now + grace);
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
    is_interrupted_ = true;
    SignalToEnd(SIGINT);
  } else if (rank < 0) {
    workers_.SignalAllGroups(signo);
  } else {
    workers_.SignalGroup(rank, signo);
  }
}

Status LocalGang::Write(wire::Stdin input) {
  auto& pumps = input.stream == wire::StreamId::kChannel ? channel_pumps_ : stdin_pumps_;
  const auto pump = pumps.find(input.rank);
  if (pump != pumps.end()) return pump->second.Write(std::move(input.bytes), input.is_end);
  if (!input.bytes.empty()) {
    const auto size = static_cast<uint32_t>(input.bytes.size());
    Send(wire::Credit{input.rank, input.stream, size});
  }
  return {};
}

void LocalGang::Give(int rank, int64_t object, ObjectStore::View view) {
  const auto pump = channel_pumps_.find(rank);
  if (pump == channel_pumps_.end()) return;
  Json message;
  message["type"] = "object";
  message["object"] = object;
  message["size"] = view.size;
  pump->second.WriteWithDescriptor(MessageLine(message), std::move(view.fd));
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
  if (now >= *kill_at_) {
    term_at_.reset();
    if (!std::exchange(is_killed_, true)) workers_.SignalAllGroups(SIGKILL);
  } else if (term_at_ && now >= *term_at_) {
    term_at_.reset();
    SignalToEnd(SIGTERM);
  }
  if (is_killed_ && !forking_.empty()) server_->Kill();
  // With sibling gangs, wait for dying children before sweeping.
  const bool is_group_swept = is_killed_ && !owner_.HasSiblings();
  if (forking_.empty() && workers_.live_count() == 0 &&
      (is_group_swept || !workers_.HasLivingGroup())) {
    Sweep();
    return;
  }
  if (is_killed_ && now >= *kill_at_ + options_.reap_limit) {
    GiveUpOnUnreaped();
    Sweep();
    return;
  }
  // Exits wake the gang by themselves; only processes that outlive their leader need polling.
  Duration pause = term_at_.value_or(*kill_at_) - now;
  if (is_killed_) pause = *kill_at_ + options_.reap_limit - now;
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
