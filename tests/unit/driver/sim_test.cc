// SPDX-License-Identifier: Apache-2.0
// The simulator keeps its promises, since it judges the driver.
#include "tests/fakes/sim.h"

#include <gtest/gtest.h>

#include <csignal>

namespace hvdray {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

template <typename E>
std::vector<Duration> Moments(const Sim& sim) {
  std::vector<Duration> moments;
  for (const auto& [moment, event] : sim.fed()) {
    if (std::holds_alternative<E>(event)) moments.push_back(moment);
  }
  return moments;
}

TEST(SimTest, RepeatsARunForTheSameSeedAndNotForAnother) {
  std::vector<Duration> ends;
  for (const uint64_t seed : {1, 1, 2}) {
    Sim sim({}, {{"a", 3}, {"b", 3}}, seed);
    sim.set_link_delay(seconds(1));
    ASSERT_TRUE(sim.Run());
    ends.push_back(sim.elapsed());
  }
  EXPECT_EQ(ends[0], ends[1]);
  EXPECT_NE(ends[0], ends[2]);
}

TEST(SimTest, NeverLetsAMessageOvertakeAnotherOfTheSameHost) {
  for (uint64_t seed = 1; seed <= 50; ++seed) {
    Sim sim({}, {{"a", 8}}, seed);
    sim.set_link_delay(milliseconds(500));
    ASSERT_TRUE(sim.Run());
    int next_rank = 0;
    bool has_exited = false;
    for (const auto& [moment, event] : sim.fed()) {
      if (const auto* started = std::get_if<event::WorkerStarted>(&event)) {
        EXPECT_EQ(started->rank, next_rank++);
        EXPECT_FALSE(has_exited);
      }
      has_exited |= std::holds_alternative<event::WorkerExited>(event);
    }
    EXPECT_EQ(next_rank, 8);
  }
}

TEST(SimTest, LetsMessagesOfDifferentHostsOvertakeEachOther) {
  bool has_overtaken = false;
  for (uint64_t seed = 1; seed <= 50 && !has_overtaken; ++seed) {
    Sim sim({}, {{"a", 1}, {"b", 1}}, seed);
    sim.set_link_delay(milliseconds(500));
    ASSERT_TRUE(sim.Run());
    for (const auto& [moment, event] : sim.fed()) {
      const auto* started = std::get_if<event::WorkerStarted>(&event);
      if (started == nullptr) continue;
      has_overtaken = started->rank == 1;
      break;
    }
  }
  EXPECT_TRUE(has_overtaken);
}

TEST(SimTest, WakesTheDriverAtItsDeadline) {
  Sim sim({.start_timeout = seconds(7)}, {{"a", 1}});
  sim.host(0).ready_after.reset();
  ASSERT_TRUE(sim.Run());
  EXPECT_EQ(Moments<event::Tick>(sim), std::vector<Duration>{seconds(7)});
}

TEST(SimTest, SaysThatAJobHangsForGood) {
  Sim sim({}, {{"a", 1}});
  sim.worker(0).ends_after.reset();
  EXPECT_FALSE(sim.Run());
  EXPECT_FALSE(sim.has_finished());
  EXPECT_EQ(sim.driver().state(), GangState::kRunning);
}

TEST(SimTest, KillsTheWorkersOfALostHostAtOnceAndTellsOfItLater) {
  Sim sim({}, {{"a", 1}, {"b", 1}});
  sim.worker(0).ends_after = sim.worker(1).ends_after = seconds(3);
  sim.host(1).lost_after = seconds(1);
  sim.host(1).loss_noticed_after = seconds(15);
  ASSERT_TRUE(sim.Run());
  EXPECT_EQ(Moments<event::HostLost>(sim), std::vector<Duration>{seconds(16)});
  EXPECT_EQ(Moments<event::WorkerExited>(sim).size(), 1u) << "of host a only";
  EXPECT_EQ(sim.verdict().exit_code, 125);
}

TEST(SimTest, GivesWorkersTheEndThatTheirPlanSays) {
  Sim sim({.grace = seconds(2)}, {{"a", 4}});
  sim.worker(0) = {.ends_after = seconds(1), .status = {.exit_code = 5}};
  sim.worker(1) = {.ends_after = std::nullopt};
  sim.worker(2) = {.ends_after = std::nullopt, .exit_code_on_sigterm = 8};
  sim.worker(3) = {.ends_after = std::nullopt, .ignores_sigterm = true};
  ASSERT_TRUE(sim.Run());
  const std::vector<WorkerRecord>& workers = sim.verdict().workers;
  EXPECT_EQ(workers[0].status->exit_code, 5);
  EXPECT_EQ(workers[1].status->signal, SIGTERM);
  EXPECT_EQ(workers[2].status->exit_code, 8);
  EXPECT_EQ(workers[3].status->signal, SIGKILL);
}

}  // namespace
}  // namespace hvdray
