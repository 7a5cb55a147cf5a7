#include "launcher/engine/rank_guard.h"

#include <gtest/gtest.h>

namespace hvdray {
namespace {

wire::Message Bytes(Generation generation, int rank, size_t size) {
  return {generation, wire::Output{rank, wire::StreamId::kStdout, false, std::string(size, 'x')}};
}

class RankGuardTest : public testing::Test {
 protected:
  RankGuardTest() {
    // Host 0 has ranks 0 and 1, host 1 has rank 2.
    ranks_ = *AssignRanks(std::vector<HostSlots>{{"a", 2}, {"b", 1}}, 3, 3);
    guard_.StartGeneration(1, ranks_);
  }
  std::vector<RankInfo> ranks_;
  RankGuard guard_;
};

TEST_F(RankGuardTest, AHostSpeaksForItsOwnRanksOnly) {
  const wire::Message messages[] = {
      {1, wire::WorkerStarted{2, 10}},
      {1, wire::WorkerExited{2, {}, false}},
      Bytes(1, 2, 1),
      {1, wire::Credit{2, wire::StreamId::kStdin, 1}},
      {1, wire::KvRequest{1, wire::KvOperation::kPut, 2, "global", "2", "v"}},
  };
  for (const wire::Message& message : messages) {
    EXPECT_TRUE(guard_.Check(1, message).ok());
    const Status status = guard_.Check(0, message);
    EXPECT_EQ(status.code(), ErrorCode::kProtocolError);
    EXPECT_NE(status.message().find("rank 2 is not on this host"), std::string::npos)
        << status.message();
  }
}

TEST_F(RankGuardTest, RanksThatThereAreNotBelongToNobody) {
  for (const int rank : {3, 65535}) {
    EXPECT_EQ(guard_.Check(0, Bytes(1, rank, 1)).code(), ErrorCode::kProtocolError) << rank;
    EXPECT_EQ(guard_.HostOf(rank), -1);
    EXPECT_EQ(guard_.OnWritten(rank, 5), 0U);
  }
}

TEST_F(RankGuardTest, TheRelayItselfMayAsk) {
  EXPECT_TRUE(
      guard_.Check(1, {1, wire::KvRequest{1, wire::KvOperation::kFollow, -1, "s", "", ""}}).ok());
}

TEST_F(RankGuardTest, BeforeTheFirstGenerationThereIsNothingToSay) {
  RankGuard fresh;
  EXPECT_FALSE(fresh.Check(0, Bytes(0, 0, 1)).ok());
  EXPECT_FALSE(fresh.Check(0, {1, wire::GenerationStopped{0, 1}}).ok());
}

TEST_F(RankGuardTest, ProbeResultsSpeakOfNoRank) {
  const wire::ProbeResult result{{{wire::ProbeStage::kOk, 0}}};
  RankGuard fresh;
  EXPECT_TRUE(fresh.Check(0, {0, result}).ok());
  EXPECT_FALSE(fresh.Check(0, {1, result}).ok());
  EXPECT_TRUE(guard_.Check(0, {1, result}).ok());
  EXPECT_FALSE(guard_.IsStale({1, result}));
}

TEST_F(RankGuardTest, AGenerationThatHasNotBegunIsAViolationAndOneThatIsOverIsStale) {
  EXPECT_FALSE(guard_.Check(0, Bytes(2, 0, 1)).ok());
  guard_.StartGeneration(2, ranks_);
  const wire::Message late = Bytes(1, 2, 1);
  EXPECT_TRUE(guard_.Check(0, late).ok()) << "who was where then is not remembered";
  EXPECT_TRUE(guard_.IsStale(late));
  EXPECT_FALSE(guard_.IsStale(Bytes(2, 0, 1)));
}

TEST_F(RankGuardTest, OutputBeyondTheCreditIsAViolation) {
  const size_t half = wire::kOutputWindowBytes / 2;
  EXPECT_TRUE(guard_.Check(0, Bytes(1, 0, half)).ok());
  EXPECT_TRUE(guard_.Check(0, Bytes(1, 0, half)).ok());
  EXPECT_TRUE(guard_.Check(0, Bytes(1, 1, half)).ok()) << "each rank has its own window";
  EXPECT_TRUE(guard_.Check(0, Bytes(1, 0, 0)).ok()) << "an end needs no credit";
  EXPECT_EQ(guard_.OnWritten(0, 10), 10U);
  EXPECT_TRUE(guard_.Check(0, Bytes(1, 0, 10)).ok());
  EXPECT_EQ(guard_.Check(0, Bytes(1, 0, 1)).code(), ErrorCode::kProtocolError);
}

// A reader that blocks during a restart: old bytes are not granted to the new generation, whose
// window is full already.
TEST_F(RankGuardTest, WhatIsLeftOverFromAnEarlierGenerationGrantsNothing) {
  EXPECT_TRUE(guard_.Check(0, Bytes(1, 0, 1000)).ok());
  guard_.StartGeneration(2, ranks_);
  EXPECT_TRUE(guard_.Check(0, Bytes(2, 0, wire::kOutputWindowBytes)).ok());
  EXPECT_EQ(guard_.OnWritten(0, 600), 0U);
  EXPECT_EQ(guard_.OnWritten(0, 600), 200U);
  EXPECT_TRUE(guard_.Check(0, Bytes(2, 0, 200)).ok());
  EXPECT_FALSE(guard_.Check(0, Bytes(2, 0, 1)).ok());
}

TEST_F(RankGuardTest, AGangThatShrankHasFewerRanks) {
  const auto fewer = *AssignRanks(std::vector<HostSlots>{{"a", 1}}, 1, 1);
  EXPECT_TRUE(guard_.Check(1, Bytes(1, 2, 7)).ok());
  guard_.StartGeneration(2, fewer);
  EXPECT_FALSE(guard_.Check(1, Bytes(2, 2, 1)).ok());
  EXPECT_EQ(guard_.OnWritten(2, 7), 0U);
  EXPECT_EQ(guard_.HostOf(0), 0);
}

}  // namespace
}  // namespace hvdray
