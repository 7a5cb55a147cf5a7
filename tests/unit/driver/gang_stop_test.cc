// SPDX-License-Identifier: Apache-2.0
// Ends with other causes: signals, --timeout, a reader that leaves, hosts that do not answer,
// output that is lost or slow.
#include <gtest/gtest.h>

#include <csignal>

#include "launcher/driver/gang_driver.h"
#include "tests/fakes/fault_catalogue.h"
#include "tests/fakes/sim.h"

namespace hvdray {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

/// Two hosts with two workers each that never end by themselves.
struct EndlessSim : Sim {
  explicit EndlessSim(GangPolicy policy = {}) : Sim(policy, {{"a", 2}, {"b", 2}}) {
    for (int rank = 0; rank < 4; ++rank) worker(rank).ends_after.reset();
  }
};

void ExpectRight(Sim& sim) {
  for (const std::string& rule : sim.violations()) ADD_FAILURE() << rule;
}

/// A driver whose only worker has run since time 0.
GangDriver Running(GangPolicy policy = {}) {
  GangDriver driver(policy, AssignRanks(std::vector<HostSlots>{{"a", 1}}, 1, {}).value(), {});
  driver.Handle(event::HostReady{0, {}}, {});
  driver.Handle(event::WorkerStarted{1, 0, 9}, {});
  return driver;
}

TimePoint At(Duration moment) { return TimePoint{} + moment; }

class SignalTest : public testing::TestWithParam<int> {};

TEST_P(SignalTest, StopsTheGangAndReturns128PlusIt) {
  EndlessSim sim;
  sim.At(seconds(1), event::UserSignal{GetParam()});
  ASSERT_TRUE(sim.Run());
  EXPECT_EQ(sim.verdict().exit_code, 128 + GetParam());
  EXPECT_EQ(sim.verdict().origin, ExitOrigin::kHvdray);
  EXPECT_EQ(sim.verdict().error.code(), ErrorCode::kInterrupted);
  EXPECT_FALSE(sim.verdict().first_failure.has_value());
  for (const WorkerRecord& worker : sim.verdict().workers) {
    EXPECT_FALSE(worker.is_victim) << "nobody failed";
    EXPECT_EQ(worker.status->signal, SIGTERM);
  }
  ASSERT_EQ(sim.stops().size(), 1u);
  EXPECT_EQ(sim.stops()[0].grace, seconds(30)) << "torchrun's";
  EXPECT_LT(sim.elapsed(), milliseconds(1100));
  EXPECT_TRUE(KilledAfterGrace(sim.verdict().workers).ok());
  ExpectRight(sim);
}

TEST(GangSignalTest, WhoHasToBeKilledAfterTheGraceIsNamed) {
  EndlessSim sim({.grace = seconds(7)});
  for (const int rank : {1, 2, 3}) sim.worker(rank).ignores_sigterm = true;
  sim.At(seconds(1), event::UserSignal{SIGTERM});
  ASSERT_TRUE(sim.Run());
  const Status killed = KilledAfterGrace(sim.verdict().workers);
  ExpectSays(killed.message(), {"killed", "7 s", "SIGTERM", "ranks 1-3"});
  ExpectSays(killed.hint(), {"--grace"});
}

TEST(GangSignalTest, WhoIsKilledAtOnceIsNotNamed) {
  EndlessSim sim({.grace = seconds(60)});
  sim.worker(1).ignores_sigterm = true;
  sim.At(seconds(1), event::UserSignal{SIGTERM});
  sim.At(seconds(2), event::UserSignal{SIGTERM});
  ASSERT_TRUE(sim.Run());
  EXPECT_EQ(sim.verdict().workers[1].status->signal, SIGKILL);
  EXPECT_TRUE(KilledAfterGrace(sim.verdict().workers).ok()) << "the user wanted it";
}

INSTANTIATE_TEST_SUITE_P(All, SignalTest, testing::Values(SIGHUP, SIGINT, SIGTERM));

TEST(GangSignalTest, SaysWhatASecondOneWouldDo) {
  EndlessSim sim;
  sim.At(seconds(1), event::UserSignal{SIGINT});
  ASSERT_TRUE(sim.Run());
  ASSERT_EQ(sim.said().size(), 1u);
  ExpectSays(sim.said()[0], {"SIGINT", "30 s", "SIGTERM", "SIGKILL", "30 s", "repeat"});
}

TEST(GangSignalTest, KillsAtOnceTheSecondTimeAndReturnsTheFirst) {
  EndlessSim sim({.grace = seconds(60)});
  for (int rank = 0; rank < 4; ++rank) sim.worker(rank).ignores_sigterm = true;
  sim.At(seconds(1), event::UserSignal{SIGTERM});
  sim.At(seconds(2), event::UserSignal{SIGINT});
  sim.At(milliseconds(2001), event::UserSignal{SIGINT});
  ASSERT_TRUE(sim.Run());
  EXPECT_EQ(sim.verdict().exit_code, 143);
  ASSERT_EQ(sim.stops().size(), 2u) << "the third one changes nothing";
  EXPECT_EQ(sim.stops()[1].grace, Duration::zero());
  EXPECT_EQ(sim.stops()[1].hosts, (std::vector<int>{0, 1}));
  EXPECT_LT(sim.elapsed(), milliseconds(2100));
  for (const WorkerRecord& worker : sim.verdict().workers) {
    EXPECT_EQ(worker.status->signal, SIGKILL);
  }
  ExpectRight(sim);
}

TEST(GangSignalTest, TellsOnlyHostsThatStillHaveWorkersTheSecondTime) {
  EndlessSim sim({.grace = seconds(60)});
  sim.worker(3).ignores_sigterm = true;
  sim.At(seconds(1), event::UserSignal{SIGTERM});
  sim.At(seconds(2), event::UserSignal{SIGTERM});
  ASSERT_TRUE(sim.Run());
  EXPECT_EQ(sim.stops()[1].hosts, std::vector<int>{1});
}

TEST(GangSignalTest, EndsAtOnceWhenNothingWasStarted) {
  EndlessSim sim;
  sim.host(1).ready_after = seconds(20);
  sim.At(seconds(1), event::UserSignal{SIGINT});
  ASSERT_TRUE(sim.Run());
  EXPECT_EQ(sim.elapsed(), seconds(1));
  EXPECT_EQ(sim.verdict().exit_code, 130);
  EXPECT_TRUE(sim.stops().empty());
}

TEST(GangSignalTest, StopsAGangThatIsStillStarting) {
  EndlessSim sim;
  sim.host(1).is_stuck_in_start = true;
  sim.At(seconds(1), event::UserSignal{SIGINT});
  ASSERT_TRUE(sim.Run());
  EXPECT_EQ(sim.verdict().exit_code, 130);
  EXPECT_LT(sim.elapsed(), seconds(2));
  ExpectRight(sim);
}

TEST(GangSignalTest, DoesNotHideWhoFailedBefore) {
  EndlessSim sim({.grace = seconds(60)});
  sim.worker(0) = {.ends_after = milliseconds(500), .status = {.exit_code = 7}};
  sim.worker(1).ignores_sigterm = true;
  sim.At(seconds(1), event::UserSignal{SIGINT});
  sim.At(seconds(2), event::UserSignal{SIGINT});
  ASSERT_TRUE(sim.Run());
  EXPECT_EQ(sim.verdict().exit_code, 7);
  EXPECT_LT(sim.elapsed(), seconds(3)) << "the second signal still cuts the grace short";
  ExpectSays(sim.said()[0], {"already", "repeat"});
}

// Each is stricter than a client that needs its gang no more: that one may give an hour.
TEST(GangSignalTest, AStricterCauseReplacesADismissalAndItsGrace) {
  const std::vector<std::pair<Event, int>> stricter = {{event::UserSignal{SIGTERM}, 143},
                                                       {event::ReaderGone{}, 141}};
  for (const auto& [fact, exit_code] : stricter) {
    EndlessSim sim({.grace = seconds(5)});
    for (int rank = 0; rank < 4; ++rank) sim.worker(rank).ignores_sigterm = true;
    sim.At(seconds(1), event::Dismissed{seconds(3600)});
    sim.At(seconds(2), fact);
    ASSERT_TRUE(sim.Run());
    EXPECT_EQ(sim.verdict().exit_code, exit_code);
    EXPECT_LT(sim.elapsed(), milliseconds(7200));
    ASSERT_EQ(sim.stops().size(), 2u);
    EXPECT_EQ(sim.stops()[1].grace, seconds(5));
    ExpectRight(sim);
  }
}

TEST(GangSignalTest, TheLimitOfTheJobReplacesADismissalAndItsGrace) {
  EndlessSim sim({.grace = seconds(5), .timeout = seconds(10)});
  sim.worker(0).ignores_sigterm = true;
  sim.At(seconds(1), event::Dismissed{seconds(3600)});
  ASSERT_TRUE(sim.Run());
  EXPECT_EQ(sim.verdict().exit_code, 124);
  EXPECT_LT(sim.elapsed(), milliseconds(15200));
}

TEST(GangSignalTest, AHostThatNeverReportsReplacesADismissal) {
  EndlessSim sim;
  sim.host(0).is_stuck_in_stop = true;
  sim.At(seconds(1), event::Dismissed{seconds(1)});
  ASSERT_TRUE(sim.Run());
  EXPECT_EQ(sim.verdict().exit_code, 125);
  ExpectSays(sim.verdict().error.message(), {"host a"});
}

TEST(GangSignalTest, OneThatArrivesInALongStopSaysHowLongItTakesNow) {
  EndlessSim sim({.grace = seconds(5)});
  sim.worker(0).ignores_sigterm = true;
  sim.At(seconds(1), event::Dismissed{seconds(3600)});
  sim.At(seconds(2), event::UserSignal{SIGINT});
  ASSERT_TRUE(sim.Run());
  ASSERT_EQ(sim.said().size(), 1u);
  ExpectSays(sim.said()[0], {"stopped by SIGINT", "5 s", "repeat"});
}

TEST(GangSignalTest, NeverLengthensAStop) {
  EndlessSim sim({.grace = seconds(60)});
  sim.worker(0).ignores_sigterm = true;
  sim.At(seconds(1), event::Dismissed{seconds(3)});
  sim.At(seconds(2), event::UserSignal{SIGTERM});
  ASSERT_TRUE(sim.Run());
  EXPECT_EQ(sim.verdict().exit_code, 143);
  EXPECT_EQ(sim.stops().size(), 1u);
  EXPECT_LT(sim.elapsed(), milliseconds(4200));
}

TEST(GangSignalTest, BlamesNoWorkerThatFailsBecauseOfIt) {
  EndlessSim sim;
  sim.worker(2).exit_code_on_sigterm = 3;
  sim.At(seconds(1), event::UserSignal{SIGINT});
  ASSERT_TRUE(sim.Run());
  EXPECT_EQ(sim.verdict().exit_code, 130);
  EXPECT_FALSE(sim.verdict().first_failure.has_value());
}

TEST(GangTimeoutTest, StopsTheGangAndReturns124) {
  EndlessSim sim({.timeout = seconds(60)});
  ASSERT_TRUE(sim.Run());
  EXPECT_EQ(sim.verdict().exit_code, 124);
  ExpectError(sim.verdict().error, ErrorCode::kTimeout, {"60 s"});
  EXPECT_EQ(sim.stops()[0].grace, GangPolicy{}.grace);
  EXPECT_LT(sim.elapsed(), milliseconds(60100));
  ExpectRight(sim);
}

TEST(GangTimeoutTest, CountsFromTheStartOfTheJob) {
  EndlessSim sim({.start_timeout = seconds(30), .timeout = seconds(2)});
  sim.host(1).ready_after.reset();
  ASSERT_TRUE(sim.Run());
  EXPECT_EQ(sim.verdict().exit_code, 124) << "it comes before the start timeout";
  EXPECT_EQ(sim.elapsed(), seconds(2));
}

TEST(GangTimeoutTest, IsActedOnByWhateverEventComesFirst) {
  GangDriver driver = Running({.timeout = seconds(60)});
  const auto effects = driver.Handle(event::HostReady{0, {}}, At(seconds(61)));
  ASSERT_EQ(effects.size(), 1u);
  EXPECT_TRUE(std::holds_alternative<effect::StopGeneration>(effects[0]));
}

TEST(GangTimeoutTest, DoesNotSpoilAJobWhoseWorkersWereInTime) {
  Sim sim({.timeout = seconds(1)}, {{"a", 1}});
  sim.host(0).output_drain = seconds(3);
  ASSERT_TRUE(sim.Run());
  EXPECT_EQ(sim.verdict().exit_code, 0);
}

TEST(GangTimeoutTest, DoesNotHideWhoFailedBefore) {
  EndlessSim sim({.grace = seconds(5), .timeout = seconds(1)});
  sim.worker(0) = {.ends_after = milliseconds(900), .status = {.exit_code = 7}};
  sim.worker(1).ignores_sigterm = true;
  ASSERT_TRUE(sim.Run());
  EXPECT_EQ(sim.verdict().exit_code, 7);
}

TEST(GangReaderTest, StopsTheGangAndReturns141) {
  EndlessSim sim;
  sim.At(seconds(1), event::ReaderGone{});
  ASSERT_TRUE(sim.Run());
  EXPECT_EQ(sim.verdict().exit_code, 141);
  EXPECT_EQ(sim.verdict().error.code(), ErrorCode::kReaderGone);
  EXPECT_LT(sim.elapsed(), seconds(2));
  ExpectRight(sim);
}

TEST(GangReaderTest, EndsAtOnceWhenNothingWasStarted) {
  EndlessSim sim;
  sim.host(0).ready_after.reset();
  sim.At(milliseconds(3), event::ReaderGone{});
  ASSERT_TRUE(sim.Run());
  EXPECT_EQ(sim.verdict().exit_code, 141);
  EXPECT_EQ(sim.elapsed(), milliseconds(3));
}

TEST(GangOutputTest, DamageLetsTheJobGoOnButNotEndWithZero) {
  Sim sim({}, {{"a", 1}});
  sim.At(milliseconds(50), event::OutputDamaged{{ErrorCode::kOutOfResources, "write x: no space"}});
  sim.At(milliseconds(60), event::OutputDamaged{{ErrorCode::kSystem, "second"}});
  ASSERT_TRUE(sim.Run());
  EXPECT_GT(sim.elapsed(), milliseconds(100));
  ASSERT_EQ(sim.said().size(), 1u);
  ExpectSays(sim.said()[0], {"write x: no space", "continues"});
  EXPECT_EQ(sim.verdict().exit_code, 125);
  EXPECT_EQ(sim.verdict().error, Status(ErrorCode::kOutputLost, "write x: no space"));
  EXPECT_EQ(sim.verdict().origin, ExitOrigin::kHvdray);
}

TEST(GangOutputTest, DamageDoesNotHideAFailure) {
  Sim sim({}, {{"a", 1}});
  sim.worker(0).status.exit_code = 4;
  sim.At(milliseconds(50), event::OutputDamaged{Status()});
  ASSERT_TRUE(sim.Run());
  EXPECT_EQ(sim.verdict().exit_code, 4);
  EXPECT_EQ(sim.verdict().error.code(), ErrorCode::kWorkerFailed);
}

TEST(GangOutputTest, AReaderOfEventsThatHasGoneIsToldAsOneOfStdoutIs) {
  Sim sim({}, {{"a", 1}});
  sim.At(milliseconds(50), event::OutputDamaged{{ErrorCode::kReaderGone, "--events e"}});
  ASSERT_TRUE(sim.Run());
  EXPECT_GT(sim.elapsed(), milliseconds(100));
  EXPECT_EQ(sim.verdict().exit_code, 141);
  EXPECT_EQ(sim.verdict().error, Status(ErrorCode::kReaderGone, "--events e"));
}

TEST(GangOutputTest, DamageWithoutAReasonCountsToo) {
  Sim sim({}, {{"a", 1}});
  sim.At(milliseconds(50), event::OutputDamaged{Status()});
  ASSERT_TRUE(sim.Run());
  EXPECT_EQ(sim.verdict().exit_code, 125);
  EXPECT_EQ(sim.verdict().error.code(), ErrorCode::kOutputLost);
}

TEST(GangOutputTest, WaitsForASlowReaderAsLongAsItTakes) {
  Sim sim({}, {{"a", 1}});
  sim.host(0).output_drain = seconds(3600);
  sim.At(milliseconds(50), event::OutputBlocked{true});
  sim.At(seconds(3600), event::OutputBlocked{false});
  ASSERT_TRUE(sim.Run());
  EXPECT_EQ(sim.verdict().exit_code, 0);
  EXPECT_GE(sim.elapsed(), seconds(3600));
}

TEST(GangOutputTest, CountsAgainOnceTheReaderReads) {
  GangDriver driver = Running();
  driver.Handle(event::WorkerExited{1, 0, {}, false}, At(seconds(1)));
  EXPECT_EQ(driver.NextDeadline(), At(seconds(11)));
  driver.Handle(event::OutputBlocked{true}, At(seconds(2)));
  EXPECT_EQ(driver.NextDeadline(), std::nullopt);
  EXPECT_TRUE(driver.Handle(event::Tick{}, At(seconds(100))).empty());
  driver.Handle(event::OutputBlocked{false}, At(seconds(200)));
  EXPECT_EQ(driver.NextDeadline(), At(seconds(210)));
  const auto effects = driver.Handle(event::Tick{}, At(seconds(210)));
  EXPECT_EQ(std::get<effect::Finish>(effects.back()).verdict.exit_code, 125);
}

TEST(GangOutputTest, DoesNotWaitForASlowReaderAfterASignal) {
  GangDriver driver = Running();
  driver.Handle(event::OutputBlocked{true}, At(seconds(1)));
  driver.Handle(event::WorkerExited{1, 0, {}, false}, At(seconds(2)));
  EXPECT_EQ(driver.NextDeadline(), std::nullopt);
  driver.Handle(event::UserSignal{SIGINT}, At(seconds(50)));
  EXPECT_EQ(driver.NextDeadline(), At(seconds(60)));
  const auto effects = driver.Handle(event::Tick{}, At(seconds(60)));
  EXPECT_EQ(std::get<effect::Finish>(effects.back()).verdict.exit_code, 130)
      << "output is missing, so the job is no success";
}

TEST(GangOutputTest, DoesNotWaitForASlowReaderBeyondTheTimeout) {
  GangDriver driver = Running({.timeout = seconds(30)});
  driver.Handle(event::OutputBlocked{true}, At(seconds(1)));
  driver.Handle(event::WorkerExited{1, 0, {}, false}, At(seconds(2)));
  EXPECT_EQ(driver.NextDeadline(), At(seconds(30)));
  EXPECT_TRUE(driver.Handle(event::Tick{}, At(seconds(30))).empty());
  EXPECT_EQ(driver.NextDeadline(), At(seconds(40)));
  const auto effects = driver.Handle(event::Tick{}, At(seconds(40)));
  EXPECT_EQ(std::get<effect::Finish>(effects.back()).verdict.exit_code, 125);
}

TEST(GangOutputTest, ABlockedReaderDelaysNoOtherLimit) {
  GangDriver driver({}, AssignRanks(std::vector<HostSlots>{{"a", 1}}, 1, {}).value(), {});
  driver.Handle(event::OutputBlocked{true}, {});
  EXPECT_EQ(driver.NextDeadline(), At(seconds(30)));
  EXPECT_EQ(driver.Handle(event::Tick{}, At(seconds(30))).size(), 1u);
}

TEST(GangStopTest, GivesUpAHostThatDoesNotReportTheEnd) {
  EndlessSim sim({.grace = seconds(5)});
  sim.worker(0) = {.ends_after = seconds(1), .status = {.exit_code = 7}};
  sim.host(1).is_stuck_in_stop = true;
  ASSERT_TRUE(sim.Run());
  EXPECT_EQ(sim.verdict().exit_code, 7) << "the worker's code stays";
  EXPECT_GE(sim.elapsed(), seconds(16));
  EXPECT_LT(sim.elapsed(), seconds(17));
  ExpectSays(sim.said().back(), {"host b", "15 s", "running"});
  ExpectRight(sim);
}

TEST(GangStopTest, CallsAJobThatCannotBeClosedNoSuccess) {
  Sim sim({}, {{"a", 1}, {"b", 1}});
  sim.host(1).is_stuck_in_stop = true;
  ASSERT_TRUE(sim.Run());
  EXPECT_EQ(sim.verdict().exit_code, 125);
  EXPECT_EQ(sim.verdict().error.code(), ErrorCode::kDeadlineExceeded);
  for (const WorkerRecord& worker : sim.verdict().workers) {
    EXPECT_TRUE(worker.status->is_success());
  }
}

TEST(GangStopTest, CallsAJobWhoseHostIsLostBeforeItsOutputHasComeNoSuccess) {
  Sim sim({}, {{"a", 1}, {"b", 1}});
  sim.host(1).output_drain = seconds(5);
  sim.host(1).lost_after = seconds(1);
  ASSERT_TRUE(sim.Run());
  EXPECT_EQ(sim.verdict().exit_code, 125);
  EXPECT_EQ(sim.verdict().error.code(), ErrorCode::kAgentLost);
}

TEST(GangStopTest, DoesNotWaitForAHostThatIsLostMeanwhile) {
  EndlessSim sim;
  sim.worker(0) = {.ends_after = seconds(1), .status = {.exit_code = 7}};
  sim.worker(2).ignores_sigterm = true;
  sim.host(1).lost_after = seconds(2);
  ASSERT_TRUE(sim.Run());
  EXPECT_EQ(sim.elapsed(), seconds(2));
  EXPECT_EQ(sim.verdict().exit_code, 7);
  EXPECT_FALSE(sim.verdict().workers[2].status.has_value());
}

TEST(GangStopTest, TellsOfAllHostsThatWereLostForOneReason) {
  Sim sim({}, {{"node1", 1}, {"node2", 1}, {"node3", 1}, {"x", 1}});
  for (int rank = 0; rank < 4; ++rank) {
    sim.worker(rank) = {.ends_after = std::nullopt, .ignores_sigterm = true};
    sim.host(rank).lost_after = seconds(1 + rank);
  }
  sim.host(2).why_lost = {ErrorCode::kProtocolError, "nonsense"};
  sim.host(3).lost_after.reset();
  ASSERT_TRUE(sim.Run());
  ExpectError(sim.verdict().error, ErrorCode::kAgentLost, {"hosts node[1-2]", "link"});
}

TEST(GangStopTest, KillsWorkersThatIgnoreSigtermAfterTheGrace) {
  EndlessSim sim({.grace = seconds(2)});
  sim.worker(0) = {.ends_after = seconds(1), .status = {.signal = SIGABRT}};
  sim.worker(3).ignores_sigterm = true;
  ASSERT_TRUE(sim.Run());
  EXPECT_EQ(sim.verdict().exit_code, 134);
  EXPECT_EQ(sim.verdict().workers[3].status->signal, SIGKILL);
  EXPECT_GE(sim.elapsed(), seconds(3));
  EXPECT_LT(sim.elapsed(), GangPolicy{}.moment + milliseconds(3100));
}

TEST(GangStopTest, ForgetsAWorkerThatItsAgentNeverReported) {
  GangDriver driver = Running();
  driver.Handle(event::UserSignal{SIGINT}, At(seconds(1)));
  const auto effects = driver.Handle(event::GenerationStopped{1, 0, 4, 0}, At(seconds(2)));
  const auto& verdict = std::get<effect::Finish>(effects.back()).verdict;
  EXPECT_EQ(verdict.swept, 4u);
  EXPECT_FALSE(verdict.workers[0].status.has_value());
  EXPECT_EQ(verdict.workers[0].ended, At(seconds(2)));
  EXPECT_EQ(verdict.ended, At(seconds(2)));
}

TEST(GangStopTest, TakesALateStartReportWithoutTakingBackTheStop) {
  GangDriver driver({}, AssignRanks(std::vector<HostSlots>{{"a", 1}}, 1, {}).value(), {});
  driver.Handle(event::HostReady{0, {}}, {});
  driver.Handle(event::UserSignal{SIGINT}, {});
  driver.Handle(event::WorkerStarted{1, 0, 42}, {});
  EXPECT_EQ(driver.roster().Of(0).state, WorkerState::kStopping);
  EXPECT_EQ(driver.roster().Of(0).record.pid, 42u);
  EXPECT_EQ(driver.stale_events(), 0u);
}

}  // namespace
}  // namespace hvdray
