// SPDX-License-Identifier: Apache-2.0
#include "cluster/up/node_board.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

namespace hvdray {
namespace {

using Lines = std::vector<std::string>;
using std::chrono::milliseconds;
using std::chrono::seconds;

TimePoint At(int second) { return TimePoint{} + seconds(second); }

NodeRow Row(std::string address, std::string_view state, NodePhase phase, bool is_head = false) {
  NodeRow row;
  row.address = std::move(address);
  row.is_head = is_head;
  row.state = state;
  row.phase = phase;
  return row;
}

ClusterEffect Started(int node, std::string command, int number, int count) {
  NodeStep step;
  step.command = std::move(command);
  step.number = number;
  step.count = count;
  return cluster_effect::Note{cluster_note::StepStarted{node, step}};
}

ClusterEffect Ended(int node) { return cluster_effect::Note{cluster_note::StepDone{node, {}}}; }

TEST(NodeBoardTest, EachNodeHasALineWithItsRoleStateAndSecondsInIt) {
  NodeBoard board;
  board.Update({Row("10.0.0.1", "up", NodePhase::kDone, true),
                Row("10.0.0.10", "waiting for the head", NodePhase::kWaiting)},
               At(0));
  EXPECT_EQ(
      board.Lines(10, At(0) + milliseconds(999)),
      (Lines{"10.0.0.1   head       0 s  up", "10.0.0.10  worker     0 s  waiting for the head"}));
  board.Update({Row("10.0.0.1", "up", NodePhase::kDone, true),
                Row("10.0.0.10", "starting Ray", NodePhase::kAtWork)},
               At(5));
  EXPECT_EQ(board.Lines(10, At(7)),
            (Lines{"10.0.0.1   head       7 s  up", "10.0.0.10  worker     2 s  starting Ray"}));
}

TEST(NodeBoardTest, AStepStandsForTheStateUntilItEnds) {
  NodeBoard board;
  const std::vector<NodeRow> rows = {Row("a", "setting up", NodePhase::kAtWork, true)};
  board.OnEffect(Started(0, "pip install torch", 2, 3), At(1));
  board.Update(rows, At(2));
  EXPECT_EQ(board.Lines(10, At(4)), (Lines{"a  head       3 s  setup 2/3: pip install torch"}));
  board.OnEffect(Ended(0), At(5));
  board.Update(rows, At(5));
  EXPECT_EQ(board.Lines(10, At(5)), (Lines{"a  head       0 s  setting up"}));
  // The same command twice is two steps.
  board.OnEffect(Started(0, "true", 1, 2), At(6));
  board.OnEffect(Ended(0), At(8));
  board.OnEffect(Started(0, "true", 2, 2), At(8));
  board.Update(rows, At(9));
  EXPECT_EQ(board.Lines(10, At(9)), (Lines{"a  head       1 s  setup 2/2: true"}));
}

TEST(NodeBoardTest, AFailedNodeSaysWhyOnOneHarmlessLine) {
  NodeBoard board;
  std::vector<NodeRow> rows = {Row("a", "failed", NodePhase::kFailed, true)};
  rows[0].why = {ErrorCode::kNodeSetupFailed, "no\tspace\n\x1b[31mleft\x1b[0m"};
  board.OnEffect(Started(0, "true", 1, 2), At(0));
  board.Update(rows, At(1));
  EXPECT_EQ(board.Lines(10, At(1)), (Lines{"a  head       0 s  failed: no space left"}));
}

TEST(NodeBoardTest, WhatDoesNotFitIsCountedAndNodesAtWorkComeFirst) {
  NodeBoard board;
  std::vector<NodeRow> rows;
  for (int i = 0; i < 4; ++i) {
    rows.push_back(Row(fmt::format("up{}", i), "up", NodePhase::kDone, i == 0));
  }
  rows.push_back(Row("w1", "waiting for the head", NodePhase::kWaiting));
  rows.push_back(Row("w2", "starting Ray", NodePhase::kAtWork));
  rows.push_back(Row("w3", "failed", NodePhase::kFailed));
  rows[6].why = {ErrorCode::kNodeSetupFailed, "why"};
  board.Update(rows, At(0));
  EXPECT_EQ(board.Lines(7, At(0)).size(), 7U);
  EXPECT_EQ(board.Lines(7, At(0)).front(), "up0  head       0 s  up")
      << "all fit: the file's order";
  EXPECT_EQ(board.Lines(4, At(0)),
            (Lines{"w2   worker     0 s  starting Ray", "w3   worker     0 s  failed: why",
                   "w1   worker     0 s  waiting for the head", "4 more: 4 up"}));
  EXPECT_EQ(board.Lines(2, At(0)), (Lines{"w2   worker     0 s  starting Ray",
                                          "6 more: 1 failed, 1 waiting for the head, 4 up"}));
  EXPECT_EQ(board.Lines(1, At(0)),
            (Lines{"7 more: 1 starting Ray, 1 failed, 1 waiting for the head, 4 up"}));
  EXPECT_TRUE(board.Lines(0, At(0)).empty());
}

TEST(NodeBoardTest, WithoutNodesThereIsNoLine) {
  EXPECT_TRUE(NodeBoard().Lines(10, At(0)).empty());
}

}  // namespace
}  // namespace hvdray
