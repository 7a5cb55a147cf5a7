// SPDX-License-Identifier: Apache-2.0
#include "launcher/engine/worker_guard.h"

#include <gtest/gtest.h>

#include "tests/fakes/fault_catalogue.h"

namespace hvdray {
namespace {

wire::Message Bytes(Generation generation, int worker, size_t size) {
  return {generation, wire::Output{worker, wire::StreamId::kStdout, false, std::string(size, 'x')}};
}

wire::Message FromChannel(Generation generation, int worker, size_t size) {
  return {generation,
          wire::Output{worker, wire::StreamId::kChannel, false, std::string(size, 'x')}};
}

class WorkerGuardTest : public testing::Test {
 protected:
  WorkerGuardTest() {
    guard_.Admit(0, 3, 1);
    guard_.Admit(70'000, 4, 2);
  }
  Status Check(int agent, const wire::Message& message) { return guard_.Check(agent, message); }
  WorkerGuard guard_;
};

TEST_F(WorkerGuardTest, AnAgentSpeaksForTheWorkersThatItWasGivenOnly) {
  const wire::Message messages[] = {
      {2, wire::WorkerStarted{70'000, 10}},
      {2, wire::WorkerExited{70'000, {}, false}},
      Bytes(2, 70'000, 1),
      {2, wire::Credit{70'000, wire::StreamId::kStdin, 1}},
      {2, wire::WorkerArrived{70'000}},
      {2, wire::KvRequest{1, KvOp::kRankAndSize, 70'000, "", "h:0", ""}},
  };
  for (const wire::Message& message : messages) {
    EXPECT_TRUE(Check(4, message).ok()) << wire::Name(wire::TypeOf(message.body));
    const Status status = Check(3, message);
    ExpectError(status, ErrorCode::kProtocolError, {"worker 70000", "this host"});
  }
}

TEST_F(WorkerGuardTest, NumbersThatWereNeverGivenBelongToNobody) {
  for (const int worker : {1, 69'999, 70'001, 16'777'215}) {
    EXPECT_EQ(Check(3, Bytes(1, worker, 1)).code(), ErrorCode::kProtocolError) << worker;
    EXPECT_EQ(guard_.AgentOf(worker), -1) << worker;
    EXPECT_EQ(guard_.GenerationOf(worker), 0u) << worker;
    EXPECT_EQ(guard_.OnWritten(worker, 5), 0U) << worker;
  }
  EXPECT_EQ(guard_.AgentOf(-1), -1);
}

TEST_F(WorkerGuardTest, AWorkerIsFoundByItsNumber) {
  EXPECT_EQ(guard_.AgentOf(0), 3);
  EXPECT_EQ(guard_.GenerationOf(0), 1u);
  EXPECT_EQ(guard_.AgentOf(70'000), 4);
  EXPECT_EQ(guard_.GenerationOf(70'000), 2u);
}

TEST_F(WorkerGuardTest, NobodySpeaksOfAGenerationThatHasNotBegun) {
  EXPECT_FALSE(Check(3, Bytes(3, 0, 1)).ok());
  EXPECT_FALSE(Check(3, {3, wire::GenerationStopped{}}).ok());
  guard_.SetNewest(3);
  EXPECT_TRUE(Check(3, Bytes(3, 0, 1)).ok());
  guard_.SetNewest(1);
  EXPECT_TRUE(Check(3, {3, wire::GenerationStopped{}}).ok()) << "it never goes back";
}

TEST_F(WorkerGuardTest, AWorkerThatOutlivesItsGenerationMaySpeakInBoth) {
  EXPECT_TRUE(Check(3, Bytes(1, 0, 1)).ok());
  EXPECT_TRUE(Check(3, Bytes(2, 0, 1)).ok());
}

TEST_F(WorkerGuardTest, WhatSpeaksOfNoWorkerIsAnybodys) {
  EXPECT_TRUE(Check(9, {0, wire::HostLeaving{1000}}).ok());
  EXPECT_TRUE(Check(9, {2, wire::ConnectionsBroken{}}).ok());
  EXPECT_TRUE(Check(9, {1, wire::KvRequest{1, KvOp::kFollow, -1, "s", "", ""}}).ok());
}

TEST_F(WorkerGuardTest, MoreOutputThanWasGrantedIsAViolation) {
  EXPECT_TRUE(Check(3, Bytes(1, 0, wire::kOutputWindowBytes)).ok());
  EXPECT_TRUE(Check(3, Bytes(1, 0, 0)).ok()) << "an end needs no credit";
  EXPECT_EQ(guard_.OnWritten(0, 100), 100U);
  EXPECT_TRUE(Check(3, Bytes(2, 0, 100)).ok()) << "one window for all generations";
  EXPECT_TRUE(Check(4, Bytes(2, 70'000, 100)).ok()) << "but each worker has its own";
  EXPECT_EQ(Check(3, Bytes(2, 0, 1)).code(), ErrorCode::kProtocolError);
}

TEST_F(WorkerGuardTest, MoreWrittenThanSentGrantsNothingBeyondTheWindow) {
  EXPECT_EQ(guard_.OnWritten(0, 1000), 0U);
  EXPECT_FALSE(Check(3, Bytes(1, 0, wire::kOutputWindowBytes + 1)).ok());
}

TEST_F(WorkerGuardTest, AWorkerBegunAnewHasAFullWindow) {
  EXPECT_TRUE(Check(3, Bytes(1, 0, wire::kOutputWindowBytes)).ok());
  guard_.Admit(0, 5, 4);
  EXPECT_TRUE(Check(5, Bytes(4, 0, wire::kOutputWindowBytes)).ok());
  EXPECT_FALSE(Check(3, Bytes(4, 0, 0)).ok());
}

TEST_F(WorkerGuardTest, WhatComesOfAnEarlierGenerationIsStaleAndNotCounted) {
  guard_.Admit(0, 3, 2);
  const wire::Message late = Bytes(1, 0, wire::kOutputWindowBytes + 1);
  EXPECT_TRUE(Check(3, late).ok());
  EXPECT_TRUE(guard_.IsStale(late));
  EXPECT_FALSE(guard_.IsStale(Bytes(2, 0, 1)));
  EXPECT_FALSE(Check(4, late).ok()) << "and still only its agent's";
  EXPECT_FALSE(guard_.IsStale({1, wire::GenerationStopped{}})) << "of no worker";
}

// A reader that blocks during a restart: old bytes are not granted to the new generation, whose
// window is full already.
TEST_F(WorkerGuardTest, WhatIsLeftOverFromAnEarlierGenerationGrantsNothing) {
  EXPECT_TRUE(Check(3, Bytes(1, 0, 1000)).ok());
  guard_.Admit(0, 3, 2);
  EXPECT_TRUE(Check(3, Bytes(2, 0, wire::kOutputWindowBytes)).ok());
  EXPECT_EQ(guard_.OnWritten(0, 600), 0U);
  EXPECT_EQ(guard_.OnWritten(0, 600), 200U);
  EXPECT_TRUE(Check(3, Bytes(2, 0, 200)).ok());
  EXPECT_FALSE(Check(3, Bytes(2, 0, 1)).ok());
}

TEST_F(WorkerGuardTest, AChannelHasAWindowOfItsOwn) {
  EXPECT_TRUE(Check(3, Bytes(1, 0, wire::kOutputWindowBytes)).ok());
  EXPECT_TRUE(Check(3, FromChannel(1, 0, wire::kOutputWindowBytes)).ok());
  EXPECT_EQ(Check(3, FromChannel(1, 0, 1)).code(), ErrorCode::kProtocolError);
  EXPECT_FALSE(Check(4, FromChannel(1, 0, 0)).ok()) << "only its agent's";
}

TEST_F(WorkerGuardTest, WhatWasReadOfAChannelMayComeAgainAndNoMore) {
  EXPECT_TRUE(Check(3, FromChannel(1, 0, wire::kOutputWindowBytes)).ok());
  guard_.OnChannelRead(0, 100);
  EXPECT_EQ(guard_.OnWritten(0, 100), 0U) << "that grants no output";
  EXPECT_TRUE(Check(3, FromChannel(1, 0, 100)).ok());
  EXPECT_FALSE(Check(3, FromChannel(1, 0, 1)).ok());
  guard_.OnChannelRead(0, UINT32_MAX);
  EXPECT_FALSE(Check(3, FromChannel(1, 0, wire::kOutputWindowBytes + 1)).ok());
  guard_.OnChannelRead(1, 5);
  guard_.OnChannelRead(-1, 5);
}

TEST_F(WorkerGuardTest, AChannelOfANewGenerationHasAFullWindow) {
  EXPECT_TRUE(Check(3, FromChannel(1, 0, wire::kOutputWindowBytes)).ok());
  guard_.Admit(0, 3, 2);
  const wire::Message late = FromChannel(1, 0, wire::kOutputWindowBytes);
  EXPECT_TRUE(Check(3, late).ok());
  EXPECT_TRUE(guard_.IsStale(late));
  EXPECT_TRUE(Check(3, FromChannel(2, 0, wire::kOutputWindowBytes)).ok());
  EXPECT_FALSE(Check(3, FromChannel(2, 0, 1)).ok());
}

TEST_F(WorkerGuardTest, BeforeTheFirstGenerationThereIsNothingToReport) {
  WorkerGuard fresh;
  EXPECT_FALSE(fresh.Check(0, Bytes(0, 0, 1)).ok());
  EXPECT_FALSE(fresh.Check(0, {1, wire::GenerationStopped{0, 1}}).ok());
  const wire::ProbeResult result{{{wire::ProbeStage::kOk, 0}}};
  EXPECT_TRUE(fresh.Check(0, {0, result}).ok());
  EXPECT_FALSE(fresh.Check(0, {1, result}).ok());
}

}  // namespace
}  // namespace hvdray
