// SPDX-License-Identifier: Apache-2.0
// Start and ordinary ends: all ready, all started, all succeed, or one fails.
#include "launcher/driver/gang_driver.h"

#include <gtest/gtest.h>

#include <cerrno>
#include <csignal>

#include "tests/fakes/fault_catalogue.h"
#include "tests/fakes/sim.h"

namespace hvdray {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

void ExpectRight(Sim& sim) {
  for (const std::string& rule : sim.violations()) ADD_FAILURE() << rule;
}

TEST(GangDriverTest, EndsWithZeroWhenAllWorkersDo) {
  Sim sim({}, {{"a", 2}, {"b", 1}});
  ASSERT_TRUE(sim.Run());
  const Verdict& verdict = sim.verdict();
  EXPECT_EQ(verdict.exit_code, 0);
  EXPECT_TRUE(verdict.error.ok());
  EXPECT_EQ(verdict.origin, ExitOrigin::kHvdray);
  EXPECT_FALSE(verdict.first_failure.has_value());
  EXPECT_EQ(sim.gang_changes(),
            (std::vector<std::string>{"connecting -> starting", "starting -> running",
                                      "running -> stopping", "stopping -> finished"}));
  ASSERT_EQ(verdict.workers.size(), 3u);
  for (const WorkerRecord& worker : verdict.workers) {
    EXPECT_TRUE(worker.status->is_success());
    EXPECT_EQ(worker.pid, 1000u + worker.rank);
    EXPECT_EQ(worker.generation, 1u);
    EXPECT_GT(*worker.ended, *worker.started);
    EXPECT_FALSE(worker.is_victim);
  }
  EXPECT_EQ(verdict.workers[2].host, "b");
  EXPECT_TRUE(sim.said().empty());
  ExpectRight(sim);
}

TEST(GangDriverTest, StartsNobodyBeforeTheLastAgentIsReady) {
  Sim sim({}, {{"a", 1}, {"b", 1}});
  sim.host(1).ready_after = seconds(3);
  ASSERT_TRUE(sim.Run());
  ASSERT_EQ(sim.starts().size(), 1u);
  EXPECT_GT(*sim.verdict().workers[0].started, TimePoint{} + seconds(3));
}

TEST(GangDriverTest, WaitsForNoHostThatGetsNoWorkers) {
  GangDriver driver({}, AssignRanks(std::vector<HostSlots>{{"a", 1}, {"b", 1}}, 1, 1).value(), {});
  EXPECT_TRUE(driver.Handle(event::HostLost{1, {ErrorCode::kAgentLost, "x"}}, {}).empty());
  EXPECT_EQ(driver.Handle(event::HostReady{0, {}}, {}).size(), 1u);
  EXPECT_EQ(driver.state(), GangState::kStarting);
}

/// Whether the driver orders a stop with that grace now.
bool Stops(const std::vector<Effect>& effects, Duration grace) {
  return std::any_of(effects.begin(), effects.end(), [grace](const Effect& effect) {
    const auto* stop = std::get_if<effect::StopGeneration>(&effect);
    return stop != nullptr && stop->grace == grace;
  });
}

TEST(GangDriverTest, ADismissedGangEndsWithZeroAndSoonerWithLessGrace) {
  GangDriver driver({}, AssignRanks(std::vector<HostSlots>{{"a", 1}}, 1, 1).value(), {});
  driver.Handle(event::HostReady{0, {}}, {});
  driver.Handle(event::WorkerStarted{1, 0, 100}, {});
  EXPECT_TRUE(Stops(driver.Handle(event::Dismissed{seconds(9)}, {}), seconds(9)));
  EXPECT_TRUE(Stops(driver.Handle(event::Dismissed{seconds(1)}, {}), seconds(1)));
  wire::ExitStatus killed;
  killed.signal = SIGTERM;
  driver.Handle(event::WorkerExited{1, 0, killed, true}, {});
  const auto effects = driver.Handle(event::GenerationStopped{1, 0, 0, 0}, {});
  ASSERT_EQ(effects.size(), 1u);
  const Verdict& verdict = std::get<effect::Finish>(effects[0]).verdict;
  EXPECT_EQ(verdict.exit_code, 0);
  EXPECT_TRUE(verdict.error.ok());
  EXPECT_FALSE(verdict.first_failure.has_value());
}

TEST(GangDriverTest, AGangIsDismissedBeforeItHasStarted) {
  GangDriver driver({}, AssignRanks(std::vector<HostSlots>{{"a", 1}}, 1, 1).value(), {});
  const auto effects = driver.Handle(event::Dismissed{seconds(1)}, {});
  ASSERT_EQ(effects.size(), 1u);
  EXPECT_EQ(std::get<effect::Finish>(effects[0]).verdict.exit_code, 0);
}

TEST(GangDriverTest, AWorkerThatFailedBeforeTheDismissalIsTheCause) {
  GangDriver driver({}, AssignRanks(std::vector<HostSlots>{{"a", 2}}, 2, 2).value(), {});
  driver.Handle(event::HostReady{0, {}}, {});
  wire::ExitStatus failed;
  failed.exit_code = 3;
  driver.Handle(event::WorkerExited{1, 0, failed, false}, {});
  driver.Handle(event::Dismissed{seconds(1)}, {});
  driver.Handle(event::Tick{}, TimePoint{} + seconds(30));
  driver.Handle(event::WorkerExited{1, 1, {}, true}, TimePoint{} + seconds(30));
  const auto effects =
      driver.Handle(event::GenerationStopped{1, 0, 0, 0}, TimePoint{} + seconds(30));
  ASSERT_FALSE(effects.empty());
  EXPECT_EQ(std::get<effect::Finish>(effects.back()).verdict.exit_code, 3);
}

TEST(GangDriverTest, GenerationsGoOnFromThoseOfFormerGangs) {
  GangDriver driver({.last_generation = 7},
                    AssignRanks(std::vector<HostSlots>{{"a", 1}}, 1, 1).value(), {});
  const auto started = driver.Handle(event::HostReady{0, {}}, {});
  ASSERT_EQ(started.size(), 1u);
  EXPECT_EQ(std::get<effect::StartGeneration>(started[0]).generation, 8u);
  driver.Handle(event::WorkerExited{7, 0, {}, false}, {});  // of a former one
  EXPECT_EQ(driver.stale_events(), 1u);
}

TEST(GangDriverTest, SendsTheRanksAndRankZerosOfferedPort) {
  Sim sim({}, {{"a", 1}, {"b", 1}});
  ASSERT_TRUE(sim.Run());
  EXPECT_EQ(sim.starts()[0].generation, 1u);
  EXPECT_EQ(sim.starts()[0].ranks.size(), 2u);
  EXPECT_EQ(sim.starts()[0].restart_count, 0u);
  EXPECT_EQ(sim.starts()[0].master_port, 20000);
}

TEST(GangDriverTest, PrefersTheMasterPortOfThePolicy) {
  Sim sim({.master_port = 29500}, {{"a", 1}});
  ASSERT_TRUE(sim.Run());
  EXPECT_EQ(sim.starts()[0].master_port, 29500);
}

TEST(GangDriverTest, LetsAWorkerThatEndsWellEndNothing) {
  Sim sim({}, {{"a", 2}});
  sim.worker(0).ends_after = milliseconds(1);
  sim.worker(1).ends_after = seconds(60);
  ASSERT_TRUE(sim.Run());
  EXPECT_EQ(sim.verdict().exit_code, 0);
  EXPECT_GE(sim.elapsed(), seconds(60));
  ASSERT_EQ(sim.stops().size(), 1u);
}

TEST(GangDriverTest, SweepsOrphansOfASuccessfulJobWithoutGraceAndCountsThem) {
  Sim sim({}, {{"a", 1}, {"b", 1}});
  sim.host(0).orphans = 2;
  sim.host(1).orphans = 3;
  ASSERT_TRUE(sim.Run());
  EXPECT_EQ(sim.stops()[0].grace, Duration::zero());
  EXPECT_EQ(sim.stops()[0].hosts, (std::vector<int>{0, 1}));
  EXPECT_EQ(sim.verdict().swept, 5u);
  EXPECT_EQ(sim.verdict().exit_code, 0);
}

TEST(GangDriverTest, ReturnsTheCodeOfTheWorkerThatFailedFirst) {
  Sim sim({}, {{"a", 2}, {"b", 2}});
  sim.worker(3).status.exit_code = 7;
  sim.worker(0).ends_after = sim.worker(1).ends_after = sim.worker(2).ends_after = seconds(99);
  sim.worker(2).status.exit_code = 9;
  ASSERT_TRUE(sim.Run());
  const Verdict& verdict = sim.verdict();
  EXPECT_EQ(verdict.exit_code, 7);
  EXPECT_EQ(verdict.origin, ExitOrigin::kWorker);
  ExpectError(verdict.error, ErrorCode::kWorkerFailed, {"rank 3", "host b", "code 7"});
  ASSERT_TRUE(verdict.first_failure.has_value());
  EXPECT_EQ(verdict.first_failure->rank, 3);
  EXPECT_FALSE(verdict.first_failure->is_victim);
  for (int rank = 0; rank < 3; ++rank) {
    EXPECT_TRUE(verdict.workers[rank].is_victim) << rank;
    EXPECT_EQ(verdict.workers[rank].status->signal, SIGTERM);
  }
  EXPECT_EQ(sim.stops()[0].grace, GangPolicy{}.grace);
  EXPECT_TRUE(sim.said().empty()) << "the closing lines tell it, once";
  EXPECT_LT(sim.elapsed(), GangPolicy{}.moment + milliseconds(200));
  ExpectRight(sim);
}

TEST(GangDriverTest, SaysNothingOfRemainingWorkersWhenThereAreNone) {
  Sim sim({}, {{"a", 1}});
  sim.worker(0).status.exit_code = 1;
  ASSERT_TRUE(sim.Run());
  EXPECT_TRUE(sim.said().empty());
  EXPECT_EQ(sim.verdict().exit_code, 1);
}

TEST(GangDriverTest, Returns128PlusTheSignal) {
  Sim sim({}, {{"a", 2}});
  sim.worker(1).status = {.signal = SIGSEGV, .has_core = true};
  ASSERT_TRUE(sim.Run());
  EXPECT_EQ(sim.verdict().exit_code, 139);
  ExpectError(sim.verdict().error, ErrorCode::kWorkerFailed,
              {"rank 1", "host a", "SIGSEGV", "signal 11", "core dumped"});
}

TEST(GangDriverTest, CallsNoVictimWhoEndsByItselfUnlessItBlamesAPeer) {
  GangDriver driver({}, AssignRanks(std::vector<HostSlots>{{"a", 4}}, 4, {}).value(), {});
  driver.Handle(event::HostReady{0, {}}, {});
  driver.Handle(event::WorkerExited{1, 0, {.exit_code = 3}, false}, {});
  driver.Handle(event::WorkerExited{1, 1, {}, false}, {});
  driver.Handle(event::WorkerExited{1, 2, {.exit_code = 1}, false}, {});
  driver.Handle(event::WorkerErred{1, 3, {.text = "", .peer_words = "Connection closed by peer"}},
                {});
  driver.Handle(event::WorkerExited{1, 3, {.exit_code = 1}, false}, {});
  const auto effects = driver.Handle(event::GenerationStopped{1, 0, 0, 0}, {});
  const auto& verdict = std::get<effect::Finish>(effects.back()).verdict;
  EXPECT_EQ(verdict.exit_code, 3);
  EXPECT_FALSE(verdict.workers[1].is_victim);
  EXPECT_FALSE(verdict.workers[2].is_victim) << "it failed as well, and says nothing of a peer";
  EXPECT_TRUE(verdict.workers[3].is_victim) << "fell with the others, though nobody signalled it";
}

TEST(GangDriverTest, Returns127ForACommandThatIsNotThere) {
  Sim sim({}, {{"a", 2}});
  sim.worker(0).status = {.stage = wire::ExecStage::kExec, .error = ENOENT};
  ASSERT_TRUE(sim.Run());
  EXPECT_EQ(sim.verdict().exit_code, 127);
  EXPECT_EQ(sim.verdict().origin, ExitOrigin::kHvdray);
  EXPECT_EQ(sim.verdict().error.code(), ErrorCode::kCommandNotFound);
  EXPECT_EQ(sim.verdict().first_failure->pid, 0u);
  ExpectRight(sim);
}

TEST(GangDriverTest, Returns126ForACommandThatCannotBeExecuted) {
  Sim sim({}, {{"a", 1}});
  sim.worker(0).status = {.stage = wire::ExecStage::kExec, .error = EACCES};
  ASSERT_TRUE(sim.Run());
  EXPECT_EQ(sim.verdict().exit_code, 126);
  EXPECT_EQ(sim.verdict().error.code(), ErrorCode::kCommandNotExecutable);
}

TEST(GangDriverTest, Returns125ForAWorkerThatCouldNotBeForked) {
  Sim sim({}, {{"a", 1}});
  sim.worker(0).status = {.stage = wire::ExecStage::kFork, .error = EAGAIN};
  ASSERT_TRUE(sim.Run());
  EXPECT_EQ(sim.verdict().exit_code, 125);
  EXPECT_EQ(sim.verdict().error.code(), ErrorCode::kWorkerStartFailed);
}

TEST(GangDriverTest, NamesTheHostsThatAreNotReadyInTime) {
  std::vector<HostSlots> hosts;
  for (int i = 1; i <= 12; ++i) hosts.push_back({"node" + std::to_string(i), 1});
  Sim sim({}, hosts);
  for (int i = 2; i < 12; ++i) sim.host(i).ready_after.reset();
  ASSERT_TRUE(sim.Run());
  EXPECT_EQ(sim.verdict().exit_code, 125);
  ExpectError(sim.verdict().error, ErrorCode::kDeadlineExceeded,
              {"hosts node[3-12]", "ready", "30 s", "hint: ", "--start-timeout", "30 s"});
  EXPECT_EQ(sim.elapsed(), seconds(30));
  EXPECT_TRUE(sim.starts().empty());
  EXPECT_TRUE(sim.stops().empty());
}

TEST(GangDriverTest, FinishesAtOnceWhenTheOnlyAgentDoesNotStart) {
  Sim sim({}, {{"a", 4}});
  sim.host(0).ready_after.reset();
  sim.host(0).lost_after = milliseconds(3);
  const Status why(ErrorCode::kAgentStartFailed, "start agent on a: no such file", "hint");
  sim.host(0).why_lost = why;
  ASSERT_TRUE(sim.Run());
  EXPECT_EQ(sim.verdict().exit_code, 125);
  EXPECT_EQ(sim.verdict().error, why) << "it names the host already";
  EXPECT_EQ(sim.elapsed(), milliseconds(3));
  EXPECT_EQ(sim.verdict().workers.size(), 4u);
}

TEST(GangDriverTest, StopsTheRestWhenAHostIsLost) {
  Sim sim({}, {{"a", 1}, {"b", 2}});
  for (int rank = 0; rank < 3; ++rank) sim.worker(rank).ends_after.reset();
  sim.host(1).lost_after = seconds(2);
  ASSERT_TRUE(sim.Run());
  EXPECT_EQ(sim.verdict().exit_code, 125);
  EXPECT_EQ(sim.verdict().origin, ExitOrigin::kHvdray);
  EXPECT_EQ(sim.verdict().error.message(), "host b: the link closed");
  EXPECT_EQ(sim.stops()[0].hosts, std::vector<int>{0});
  EXPECT_TRUE(sim.verdict().workers[0].is_victim);
  EXPECT_FALSE(sim.verdict().workers[1].status.has_value());
  EXPECT_EQ(sim.verdict().workers[1].ended, TimePoint{} + seconds(2));
  ExpectRight(sim);
}

TEST(GangDriverTest, EndsWhenTheOnlyHostIsLostWhileRunning) {
  Sim sim({}, {{"a", 2}});
  sim.worker(0).ends_after.reset();
  sim.host(0).lost_after = seconds(1);
  ASSERT_TRUE(sim.Run());
  EXPECT_TRUE(sim.stops().empty());
  EXPECT_EQ(sim.gang_changes().back(), "running -> finished");
  EXPECT_EQ(sim.verdict().exit_code, 125);
}

TEST(GangDriverTest, GivesUpAHostThatDoesNotReportItsStarts) {
  Sim sim({}, {{"a", 1}, {"b", 1}});
  sim.worker(0).ends_after.reset();
  sim.host(1).is_stuck_in_start = true;
  ASSERT_TRUE(sim.Run());
  EXPECT_EQ(sim.verdict().exit_code, 125);
  ExpectError(sim.verdict().error, ErrorCode::kDeadlineExceeded, {"host b", "workers", "30 s"});
}

TEST(GangDriverTest, CountsTheTimeOfACopyNotAsTimeOfTheStart) {
  GangPolicy policy;
  policy.start_timeout = seconds(30);
  GangDriver driver(policy, AssignRanks(std::vector<HostSlots>{{"a", 1}}, 1, 1).value(), {});
  const TimePoint begin{};
  driver.Handle(event::HostReady{0, {}}, begin);
  driver.Handle(event::Copying{true}, begin + seconds(1));
  EXPECT_EQ(driver.NextDeadline(), std::nullopt);
  driver.Handle(event::HostSynced{0, {}}, begin + seconds(900));
  driver.Handle(event::Copying{false}, begin + seconds(900));
  EXPECT_EQ(driver.NextDeadline(), begin + seconds(930));
  EXPECT_FALSE(driver.Handle(event::Tick{}, begin + seconds(931)).empty());
  driver.Handle(event::Copying{false}, begin + seconds(932));
  EXPECT_NE(driver.NextDeadline(), begin + seconds(962)) << "no start goes on any more";
}

TEST(GangDriverTest, GivesImportsBeforeTheWorkersATimeOfTheirOwn) {
  GangPolicy policy;
  policy.start_timeout = seconds(30);
  policy.preload_limit = seconds(40);
  GangDriver driver(policy, AssignRanks(std::vector<HostSlots>{{"a", 1}}, 1, 1).value(), {});
  const TimePoint begin{};
  EXPECT_EQ(driver.NextDeadline(), begin + seconds(30)) << "an agent needs no longer";
  driver.Handle(event::HostReady{0, {}}, begin + seconds(1));
  EXPECT_EQ(driver.NextDeadline(), begin + seconds(71));
  EXPECT_FALSE(driver.Handle(event::Tick{}, begin + seconds(72)).empty());
}

TEST(GangDriverTest, EndsAJobWhoseWorkersAreGoneBeforeTheirStartWasReported) {
  GangDriver driver({}, AssignRanks(std::vector<HostSlots>{{"a", 1}}, 1, {}).value(), {});
  driver.Handle(event::HostReady{0, {}}, {});
  const auto effects = driver.Handle(event::WorkerExited{1, 0, {}, false}, {});
  ASSERT_EQ(effects.size(), 1u);
  EXPECT_TRUE(std::holds_alternative<effect::StopGeneration>(effects[0]));
  EXPECT_EQ(driver.state(), GangState::kStopping);
}

TEST(GangDriverTest, DropsAndCountsWhatIsNotNews) {
  GangDriver driver({}, AssignRanks(std::vector<HostSlots>{{"a", 2}}, 2, {}).value(), {});
  const std::vector<Event> before = {
      event::HostReady{7, {}}, event::HostReady{-1, {}}, event::WorkerStarted{1, 0, 5},
      event::WorkerExited{0, 0, {.exit_code = 1}, false}, event::GenerationStopped{0, 0, 0, 0}};
  for (const Event& one : before) EXPECT_TRUE(driver.Handle(one, {}).empty());
  EXPECT_EQ(driver.stale_events(), 5u);
  driver.Handle(event::HostReady{0, {}}, {});
  driver.Handle(event::WorkerStarted{1, 0, 5}, {});
  const std::vector<Event> during = {event::HostReady{0, {}},
                                     event::WorkerStarted{1, 0, 6},
                                     event::WorkerStarted{1, -1, 6},
                                     event::WorkerStarted{1, 2, 6},
                                     event::WorkerStarted{2, 1, 6},
                                     event::WorkerExited{2, 1, {.exit_code = 1}, false},
                                     event::WorkerExited{1, 65536, {.exit_code = 1}, false}};
  for (const Event& one : during) EXPECT_TRUE(driver.Handle(one, {}).empty());
  EXPECT_EQ(driver.stale_events(), 12u);
  EXPECT_EQ(driver.roster().Of(0).record.pid, 5u);
  EXPECT_EQ(driver.state(), GangState::kStarting);
}

TEST(GangDriverTest, TreatsAnUnaskedEndOfAGenerationAsALostHost) {
  GangDriver driver({}, AssignRanks(std::vector<HostSlots>{{"n1", 1}, {"n2", 1}}, 2, {}).value(),
                    {});
  driver.Handle(event::HostReady{0, {}}, {});
  driver.Handle(event::HostReady{1, {}}, {});
  driver.Handle(event::WorkerStarted{1, 1, 100}, {});
  const auto effects = driver.Handle(event::GenerationStopped{1, 0, 0, 0}, {});
  ASSERT_EQ(effects.size(), 2u);
  ExpectSays(std::get<effect::Say>(effects[0]).text, {"host n1", "agent", "workers"});
  EXPECT_EQ(std::get<effect::StopGeneration>(effects[1]).hosts, std::vector<int>{1});
  const auto last = driver.Handle(event::GenerationStopped{1, 1, 0, 0}, {});
  EXPECT_EQ(std::get<effect::Finish>(last.back()).verdict.error.code(), ErrorCode::kProtocolError);
}

TEST(GangDriverTest, TheUserIsToldThatSigintGoesToTheWorkersFirst) {
  for (const int signo : {SIGINT, SIGTERM}) {
    Sim sim({.grace = seconds(3)}, {{"a", 2}});
    for (const int rank : {0, 1}) sim.worker(rank).ends_after.reset();
    sim.At(seconds(1), event::UserSignal{signo});
    ASSERT_TRUE(sim.Run());
    ASSERT_EQ(sim.said().size(), 1u);
    if (signo == SIGINT) {
      ExpectSays(sim.said()[0], {"SIGINT", "3 s", "SIGTERM", "SIGKILL", "3 s", "repeat"});
    } else {
      ExpectSays(sim.said()[0], {"SIGTERM", "3 s", "repeat"});
      EXPECT_FALSE(NamesFacts(sim.said()[0], {"SIGKILL"}));
    }
    EXPECT_EQ(sim.verdict().exit_code, 128 + signo);
  }
}

TEST(GangDriverTest, WaitsForBothGracesOfSigintBeforeItGivesAHostUp) {
  for (const int signo : {SIGINT, SIGTERM}) {
    GangDriver driver({.grace = seconds(3), .stop_margin = seconds(10)},
                      AssignRanks(std::vector<HostSlots>{{"a", 1}}, 1, {}).value(), {});
    driver.Handle(event::HostReady{0, {}}, {});
    driver.Handle(event::WorkerStarted{1, 0, 9}, {});
    driver.Handle(event::UserSignal{signo}, {});
    EXPECT_EQ(driver.NextDeadline(), TimePoint{} + seconds(signo == SIGINT ? 16 : 13));
  }
}

TEST(GangDriverTest, IsSilentAfterFinish) {
  Sim sim({}, {{"a", 1}});
  ASSERT_TRUE(sim.Run());
  const std::vector<Event> late = {event::HostReady{0, {}},
                                   event::HostLost{0, {}},
                                   event::WorkerExited{1, 0, {.exit_code = 1}, false},
                                   event::UserSignal{SIGINT},
                                   event::ReaderGone{},
                                   event::Tick{}};
  for (const Event& one : late) {
    EXPECT_TRUE(sim.driver().Handle(one, TimePoint::max()).empty());
  }
  EXPECT_EQ(sim.driver().NextDeadline(), std::nullopt);
}

TEST(GangDriverTest, NeverLetsTimeGoBack) {
  GangDriver driver({}, AssignRanks(std::vector<HostSlots>{{"a", 1}}, 1, {}).value(),
                    TimePoint{} + seconds(100));
  driver.Handle(event::HostReady{0, {}}, TimePoint{} + seconds(1));
  EXPECT_EQ(driver.NextDeadline(), TimePoint{} + seconds(130));
}

TEST(GangDriverTest, HasNoDeadlineWhileTheWorkersRunUnlessTheJobHas) {
  for (const bool has_timeout : {false, true}) {
    GangDriver driver({.timeout = has_timeout ? Duration(seconds(60)) : Duration::zero()},
                      AssignRanks(std::vector<HostSlots>{{"a", 1}}, 1, {}).value(), {});
    driver.Handle(event::HostReady{0, {}}, {});
    driver.Handle(event::WorkerStarted{1, 0, 9}, {});
    EXPECT_EQ(driver.state(), GangState::kRunning);
    EXPECT_EQ(driver.NextDeadline().has_value(), has_timeout);
  }
}

TEST(GangDriverTest, ShowsWhoIsWhereInItsRoster) {
  GangDriver driver({}, AssignRanks(std::vector<HostSlots>{{"a", 1}, {"b", 1}}, 2, {}).value(), {});
  driver.Handle(event::HostReady{1, {}}, {});
  EXPECT_EQ(driver.roster().counts().living, 0);
  driver.Handle(event::HostReady{0, {}}, {});
  driver.Handle(event::WorkerStarted{1, 1, 77}, {});
  EXPECT_EQ(driver.generation(), 1u);
  EXPECT_EQ(driver.roster().Of(0).state, WorkerState::kStarting);
  EXPECT_EQ(driver.roster().Of(1).state, WorkerState::kRunning);
  EXPECT_EQ(driver.roster().Of(1).record.pid, 77u);
  EXPECT_EQ(driver.roster().Of(1).record.host, "b");
}

}  // namespace
}  // namespace hvdray
