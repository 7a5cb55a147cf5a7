// SPDX-License-Identifier: Apache-2.0
// Every state and every pair of states, so that a new one cannot slip in unnoticed.
#include "launcher/driver/states.h"

#include <gtest/gtest.h>

#include <set>
#include <string>
#include <utility>
#include <vector>

namespace hvdray {
namespace {

const std::vector<GangState> kGangStates = {GangState::kConnecting, GangState::kStarting,
                                            GangState::kRunning, GangState::kStopping,
                                            GangState::kFinished};
const std::vector<WorkerState> kWorkerStates = {WorkerState::kPending, WorkerState::kStarting,
                                                WorkerState::kRunning, WorkerState::kStopping,
                                                WorkerState::kExited,  WorkerState::kFailedToStart,
                                                WorkerState::kLost};

TEST(GangStateTest, OnlyFinishedIsTerminal) {
  for (const GangState state : kGangStates) {
    EXPECT_EQ(IsTerminal(state), state == GangState::kFinished) << Name(state);
  }
}

TEST(GangStateTest, AllowsTheseTransitionsAndNoOther) {
  using S = GangState;
  const std::set<std::pair<S, S>> allowed = {
      {S::kConnecting, S::kStarting}, {S::kConnecting, S::kFinished}, {S::kStarting, S::kRunning},
      {S::kStarting, S::kStopping},   {S::kStarting, S::kFinished},   {S::kRunning, S::kStopping},
      {S::kRunning, S::kFinished},    {S::kStopping, S::kStarting},   {S::kStopping, S::kFinished}};
  for (const S from : kGangStates) {
    for (const S to : kGangStates) {
      EXPECT_EQ(CanFollow(from, to), allowed.contains({from, to}))
          << Name(from) << " -> " << Name(to);
    }
  }
}

TEST(GangStateTest, HasANameForEach) {
  std::set<std::string_view> names;
  for (const GangState state : kGangStates) names.insert(Name(state));
  EXPECT_EQ(names.size(), kGangStates.size());
  EXPECT_FALSE(names.contains("unknown"));
  EXPECT_EQ(Name(static_cast<GangState>(99)), "unknown");
}

TEST(WorkerStateTest, TheLastThreeAreTerminal) {
  const std::set<WorkerState> terminal = {WorkerState::kExited, WorkerState::kFailedToStart,
                                          WorkerState::kLost};
  for (const WorkerState state : kWorkerStates) {
    EXPECT_EQ(IsTerminal(state), terminal.contains(state)) << Name(state);
  }
}

TEST(WorkerStateTest, AllowsTheseTransitionsAndNoOther) {
  using S = WorkerState;
  std::set<std::pair<S, S>> allowed = {{S::kPending, S::kStarting},
                                       {S::kStarting, S::kRunning},
                                       {S::kStarting, S::kStopping},
                                       {S::kRunning, S::kStopping}};
  for (const S from : {S::kStarting, S::kRunning, S::kStopping}) {
    for (const S to : {S::kExited, S::kFailedToStart, S::kLost}) allowed.insert({from, to});
  }
  for (const S from : kWorkerStates) {
    for (const S to : kWorkerStates) {
      EXPECT_EQ(CanFollow(from, to), allowed.contains({from, to}))
          << Name(from) << " -> " << Name(to);
    }
  }
}

TEST(WorkerStateTest, HasANameForEach) {
  std::set<std::string_view> names;
  for (const WorkerState state : kWorkerStates) names.insert(Name(state));
  EXPECT_EQ(names.size(), kWorkerStates.size());
  EXPECT_FALSE(names.contains("unknown"));
  EXPECT_EQ(Name(static_cast<WorkerState>(99)), "unknown");
}

}  // namespace
}  // namespace hvdray
