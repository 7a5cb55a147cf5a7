// SPDX-License-Identifier: Apache-2.0
// Ten thousand random jobs with random events in random order: each ends, with one verdict that the
// facts explain, never with two generations alive, and with nothing left on a reachable host.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <memory>
#include <random>
#include <set>

#include "tests/fakes/sim.h"

namespace hvdray {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

class Dice {
 public:
  explicit Dice(uint64_t seed) : random_(seed) {}
  int Below(int n) { return static_cast<int>(random_() % static_cast<uint64_t>(n)); }
  bool OneIn(int n) { return Below(n) == 0; }
  Duration Within(Duration most) {
    return Duration(static_cast<int64_t>(random_() % static_cast<uint64_t>(most.count() + 1)));
  }

 private:
  std::mt19937_64 random_;
};

GangPolicy RandomPolicy(Dice& dice) {
  GangPolicy policy;
  policy.start_timeout = seconds(1 + dice.Below(10));
  policy.grace = milliseconds(dice.Below(4) * 1000);
  if (dice.OneIn(3)) policy.timeout = milliseconds(1 + dice.Below(20000));
  if (dice.OneIn(2)) policy.max_restarts = static_cast<uint32_t>(dice.Below(4));
  return policy;
}

WorkerPlan RandomWorker(Dice& dice) {
  WorkerPlan plan;
  plan.ends_after = dice.Within(seconds(5));
  if (dice.OneIn(8)) plan.status.exit_code = 1 + dice.Below(255);
  if (dice.OneIn(12)) plan.status = {.signal = 1 + dice.Below(31)};
  if (dice.OneIn(40)) {
    plan.status = {.stage = wire::ExecStage::kExec, .error = dice.OneIn(2) ? ENOENT : EACCES};
  }
  if (dice.OneIn(60)) plan.status = {.stage = wire::ExecStage::kFork, .error = EAGAIN};
  if (dice.OneIn(10)) plan.ends_after.reset();
  plan.ignores_sigterm = dice.OneIn(4);
  if (dice.OneIn(6)) plan.exit_code_on_sigterm = dice.Below(3);
  if (dice.OneIn(3)) plan.only_generation = static_cast<Generation>(1 + dice.Below(3));
  return plan;
}

// As in the engine: with the host's own name and address, or without.
Status RandomReason(Dice& dice, const std::string& name) {
  switch (dice.Below(5)) {
    case 0:
      return {ErrorCode::kAgentLost, fmt::format("host {}: agent closed the link", name)};
    case 1:
      return {ErrorCode::kHostRefused, fmt::format("start agent on {}: refused", name), "look"};
    case 2:
      return {ErrorCode::kHostBusy, fmt::format("closed by 10.0.0.{}", 1 + dice.Below(9))};
    default:
      return {ErrorCode::kAgentLost, "the link closed"};
  }
}

HostPlan RandomHost(Dice& dice, const std::string& name) {
  HostPlan plan;
  plan.why_lost = RandomReason(dice, name);
  plan.ready_after = dice.Within(milliseconds(800));
  if (dice.OneIn(30)) plan.ready_after.reset();
  if (dice.OneIn(12)) plan.lost_after = dice.Within(seconds(6));
  if (dice.OneIn(25)) plan.lost_after = dice.Within(milliseconds(500));
  plan.loss_noticed_after = dice.OneIn(2) ? Duration::zero() : dice.Within(seconds(3));
  plan.is_stuck_in_stop = dice.OneIn(30);
  plan.is_stuck_in_start = dice.OneIn(40);
  plan.output_drain = dice.Within(milliseconds(300));
  plan.orphans = static_cast<uint32_t>(dice.Below(3));
  return plan;
}

void AddOutsideEvents(Dice& dice, Sim& sim) {
  const auto moment = [&dice] { return dice.Within(seconds(8)); };
  const int signals[] = {SIGINT, SIGTERM, SIGHUP};
  if (dice.OneIn(4)) {
    for (int i = dice.Below(4); i >= 0; --i) {
      sim.At(moment(), event::UserSignal{signals[dice.Below(3)]});
    }
  }
  if (dice.OneIn(12)) sim.At(moment(), event::ReaderGone{});
  if (dice.OneIn(8)) sim.At(moment(), event::OutputDamaged{{ErrorCode::kOutOfResources, "disk"}});
  if (dice.OneIn(4)) {
    const Duration from = moment();
    sim.At(from, event::OutputBlocked{true});
    sim.At(from + dice.Within(seconds(40)), event::OutputBlocked{false});
  }
  // False facts about past or future generations and about unknown workers.
  for (int i = dice.Below(4); i > 0; --i) {
    const auto old = static_cast<Generation>(dice.OneIn(2) ? 0 : 1000);
    sim.At(moment(), event::WorkerExited{old, dice.Below(3), {.exit_code = 66}, false});
    sim.At(moment(), event::WorkerStarted{old, dice.Below(3), 666});
    sim.At(moment(), event::GenerationStopped{old, dice.Below(3), 666, 666});
    sim.At(moment(), event::HostReady{90, {}});
    sim.At(moment(), event::HostLost{91, {ErrorCode::kAgentLost, "nobody"}});
  }
  // A user ends a job that hangs for good, with one SIGTERM.
  sim.At(seconds(500), event::UserSignal{SIGTERM});
}

std::unique_ptr<Sim> RandomSim(uint64_t seed) {
  Dice dice(seed);
  std::vector<HostSlots> hosts;
  const int host_count = 1 + dice.Below(4);
  for (int i = 0; i < host_count; ++i) {
    hosts.push_back({fmt::format("h{}", i), i == 0 ? 1 + dice.Below(3) : dice.Below(4)});
  }
  const GangPolicy policy = RandomPolicy(dice);
  auto sim = std::make_unique<Sim>(policy, hosts, seed);
  const Duration delays[] = {Duration::zero(), milliseconds(1), milliseconds(100), seconds(2)};
  sim->set_link_delay(delays[dice.Below(4)]);
  int rank = 0;
  for (int i = 0; i < host_count; ++i) {
    if (hosts[i].slots > 0) sim->host(i) = RandomHost(dice, hosts[i].host);
    for (int slot = 0; slot < hosts[i].slots; ++slot) sim->worker(rank++) = RandomWorker(dice);
  }
  AddOutsideEvents(dice, *sim);
  return sim;
}

/// The facts of a run, sorted by what they can explain.
struct Facts {
  std::vector<event::WorkerExited> exits;  // Of the last generation.
  std::set<int> hosts_stopped;             // In the last generation.
  uint32_t swept = 0;                      // In all generations.
  bool exec_failed_before = false;         // In a generation before the last.
  std::set<ErrorCode> losses;
  std::optional<int> first_signal;
  bool reader_gone = false;
  bool damaged = false;
};

bool IsFirstFailure(const Sim& sim, const event::WorkerExited& failure) {
  for (const auto& [moment, event] : sim.fed()) {
    const auto* exited = std::get_if<event::WorkerExited>(&event);
    if (exited == nullptr || exited->generation != failure.generation) continue;
    if (!exited->status.is_success()) return exited->rank == failure.rank;
  }
  return false;
}

Facts FactsOf(const Sim& sim) {
  Facts facts;
  const Generation last = static_cast<Generation>(sim.starts().size());
  for (const auto& [moment, event] : sim.fed()) {
    if (const auto* exited = std::get_if<event::WorkerExited>(&event)) {
      if (exited->generation == last && last > 0) facts.exits.push_back(*exited);
      facts.exec_failed_before |= exited->generation > 0 && exited->generation < last &&
                                  exited->status.stage != wire::ExecStage::kNone &&
                                  !exited->was_stopping && IsFirstFailure(sim, *exited);
    } else if (const auto* stopped = std::get_if<event::GenerationStopped>(&event)) {
      if (stopped->generation == last && last > 0) facts.hosts_stopped.insert(stopped->host);
      if (stopped->generation > 0 && stopped->generation <= last) facts.swept += stopped->swept;
    } else if (const auto* lost = std::get_if<event::HostLost>(&event)) {
      if (lost->host < 90) facts.losses.insert(lost->why.code());
    } else if (const auto* signal = std::get_if<event::UserSignal>(&event)) {
      if (!facts.first_signal) facts.first_signal = signal->signo;
    } else if (std::holds_alternative<event::ReaderGone>(event)) {
      facts.reader_gone = true;
    } else if (std::holds_alternative<event::OutputDamaged>(event)) {
      facts.damaged = true;
    }
  }
  return facts;
}

const event::WorkerExited* FirstFailure(const Facts& facts) {
  const auto it = std::find_if(facts.exits.begin(), facts.exits.end(),
                               [](const auto& e) { return !e.status.is_success(); });
  return it == facts.exits.end() ? nullptr : &*it;
}

void ExpectSuccessIsTrue(const Sim& sim, const Facts& facts) {
  EXPECT_TRUE(sim.verdict().error.ok());
  EXPECT_FALSE(facts.damaged);
  EXPECT_FALSE(facts.reader_gone);
  EXPECT_FALSE(facts.first_signal.has_value());
  EXPECT_TRUE(facts.losses.empty());
  EXPECT_EQ(FirstFailure(facts), nullptr);
  EXPECT_EQ(facts.exits.size(), sim.verdict().workers.size());
  std::set<std::string> names;
  for (const WorkerRecord& worker : sim.verdict().workers) {
    names.insert(worker.host);
    EXPECT_TRUE(worker.status && worker.status->is_success());
  }
  EXPECT_EQ(facts.hosts_stopped.size(), names.size());
}

void ExpectFailureIsExplained(const Sim& sim, const GangPolicy& policy, const Facts& facts) {
  const Verdict& verdict = sim.verdict();
  const event::WorkerExited* first = FirstFailure(facts);
  switch (verdict.error.code()) {
    case ErrorCode::kWorkerFailed:
    case ErrorCode::kCommandNotFound:
    case ErrorCode::kCommandNotExecutable:
    case ErrorCode::kWorkerStartFailed:
      ASSERT_NE(first, nullptr);
      ASSERT_TRUE(verdict.first_failure.has_value());
      EXPECT_EQ(verdict.first_failure->rank, first->rank);
      EXPECT_EQ(verdict.exit_code, ExitCode(first->status));
      EXPECT_FALSE(verdict.first_failure->is_victim);
      EXPECT_FALSE(first->was_stopping);
      if (verdict.origin == ExitOrigin::kWorker) {
        EXPECT_EQ(verdict.restarts, policy.max_restarts);
      }
      break;
    case ErrorCode::kInterrupted:
      ASSERT_TRUE(facts.first_signal.has_value());
      EXPECT_EQ(verdict.exit_code, 128 + *facts.first_signal);
      break;
    case ErrorCode::kTimeout:
      EXPECT_EQ(verdict.exit_code, 124);
      EXPECT_GT(policy.timeout, Duration::zero());
      EXPECT_GE(verdict.ended - verdict.started, policy.timeout);
      break;
    case ErrorCode::kReaderGone:
      EXPECT_EQ(verdict.exit_code, 141);
      EXPECT_TRUE(facts.reader_gone);
      break;
    case ErrorCode::kOutputLost:
      EXPECT_EQ(verdict.exit_code, 125);
      EXPECT_TRUE(facts.damaged);
      EXPECT_EQ(first, nullptr);
      break;
    case ErrorCode::kAgentLost:
    case ErrorCode::kHostRefused:
    case ErrorCode::kHostBusy:
      EXPECT_EQ(verdict.exit_code, 125);
      EXPECT_TRUE(facts.losses.contains(verdict.error.code()));
      ASSERT_FALSE(verdict.losses.empty());
      EXPECT_EQ(verdict.losses.front().error, verdict.error);
      break;
    case ErrorCode::kDeadlineExceeded:
      EXPECT_EQ(verdict.exit_code, 125);
      EXPECT_GE(verdict.ended - verdict.started,
                std::min(policy.start_timeout, policy.stop_margin));
      break;
    default:
      ADD_FAILURE() << "no reason of ours: " << verdict.error.ToString();
  }
}

/// A cause that would have ended the job anyway stays the cause.
void ExpectFirstCauseStays(const Sim& sim, const GangPolicy& policy, const Facts& facts) {
  const Verdict& verdict = sim.verdict();
  EXPECT_FALSE(facts.exec_failed_before) << "restarted a command that cannot be executed";
  switch (verdict.error.code()) {
    case ErrorCode::kInterrupted:
    case ErrorCode::kTimeout:
    case ErrorCode::kReaderGone:
    case ErrorCode::kAgentLost:
    case ErrorCode::kHostRefused:
    case ErrorCode::kHostBusy:
    case ErrorCode::kDeadlineExceeded:
      if (!verdict.first_failure) break;
      EXPECT_LT(verdict.restarts, policy.max_restarts);
      EXPECT_EQ(verdict.first_failure->status->stage, wire::ExecStage::kNone);
      break;
    default:
      break;
  }
}

/// Hosts that end a job before it has begun: all are named, each once, without a long wait.
void ExpectLossesAreTold(const Sim& sim, const GangPolicy& policy) {
  const Verdict& verdict = sim.verdict();
  if (verdict.losses.empty()) return;
  std::optional<Duration> first_loss, end_asked;
  std::set<std::string> lost;
  std::set<std::string> heard_of;
  for (const auto& [moment, event] : sim.fed()) {
    const auto* loss = std::get_if<event::HostLost>(&event);
    if (loss != nullptr && loss->host < 90) {
      lost.insert(fmt::format("h{}", loss->host));
      if (!first_loss) first_loss = moment;
    }
    const auto* ready = std::get_if<event::HostReady>(&event);
    if (ready != nullptr) heard_of.insert(fmt::format("h{}", ready->host));
    if (std::holds_alternative<event::UserSignal>(event) && !end_asked) end_asked = moment;
  }
  ASSERT_TRUE(first_loss.has_value());
  std::vector<std::string> told;
  for (const HostLoss& loss : verdict.losses) {
    EXPECT_FALSE(loss.error.ok());
    told.insert(told.end(), loss.hosts.begin(), loss.hosts.end());
  }
  const std::set<std::string> names(told.begin(), told.end());
  EXPECT_EQ(names.size(), told.size()) << "a host is told of twice";
  if (!sim.starts().empty()) {
    EXPECT_EQ(verdict.losses.size(), 1u);
    EXPECT_TRUE(std::includes(lost.begin(), lost.end(), names.begin(), names.end()));
    return;
  }
  // Besides lost hosts, the silent ones.
  std::set<std::string> wanted = lost;
  for (const WorkerRecord& worker : verdict.workers) {
    if (!heard_of.contains(worker.host)) wanted.insert(worker.host);
  }
  EXPECT_EQ(names, wanted);
  EXPECT_LE(sim.elapsed(), *first_loss + policy.settle);
  EXPECT_LE(sim.elapsed(), std::max(*first_loss, Duration(policy.start_timeout)));
  if (end_asked) {
    EXPECT_LE(sim.elapsed(), std::max(*first_loss, *end_asked));
  }
}

void ExpectRecordsAreOwn(const Sim& sim, const GangPolicy& policy, const Facts& facts) {
  const Verdict& verdict = sim.verdict();
  const Generation last = static_cast<Generation>(sim.starts().size());
  EXPECT_EQ(verdict.restarts, last == 0 ? 0 : last - 1);
  EXPECT_LE(verdict.restarts, policy.max_restarts);
  EXPECT_EQ(verdict.swept, facts.swept);
  int rank = 0;
  for (const WorkerRecord& worker : verdict.workers) {
    EXPECT_EQ(worker.rank, rank);
    EXPECT_EQ(worker.generation, last);
    EXPECT_TRUE(worker.pid == 0 || worker.pid == 1000 * last + static_cast<uint32_t>(rank));
    EXPECT_EQ(worker.ended.has_value(), last > 0);
    ++rank;
  }
}

TEST(GangPropertyTest, TenThousandRandomJobsEndAsTheRulesSay) {
  std::map<int, int> codes;
  int restarted = 0;
  int several_reasons = 0;
  for (uint64_t seed = 1; seed <= 10000; ++seed) {
    SCOPED_TRACE(fmt::format("seed {}", seed));
    const std::unique_ptr<Sim> sim = RandomSim(seed);
    ASSERT_TRUE(sim->Run()) << "the job never ends";
    for (const std::string& rule : sim->violations()) ADD_FAILURE() << rule;
    const Facts facts = FactsOf(*sim);
    const GangPolicy& policy = sim->policy();
    if (sim->verdict().exit_code == 0) {
      ExpectSuccessIsTrue(*sim, facts);
    } else {
      ExpectFailureIsExplained(*sim, policy, facts);
    }
    ExpectFirstCauseStays(*sim, policy, facts);
    ExpectLossesAreTold(*sim, policy);
    ExpectRecordsAreOwn(*sim, policy, facts);
    if (HasFailure()) return;
    ++codes[std::min(sim->verdict().exit_code, 200)];
    restarted += sim->verdict().restarts > 0 ? 1 : 0;
    several_reasons += sim->verdict().losses.size() > 1 ? 1 : 0;
  }
  // The generator must reach every kind of end, or the above proves little.
  for (const int code : {0, 124, 125, 126, 127, 129, 130, 141, 143}) {
    EXPECT_GT(codes[code], 20) << code;
  }
  EXPECT_GT(restarted, 200);
  EXPECT_GT(several_reasons, 5);
}

}  // namespace
}  // namespace hvdray
