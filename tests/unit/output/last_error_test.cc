// SPDX-License-Identifier: Apache-2.0
// Errors in a worker's last lines, as Python, libstdc++, torch and Horovod print them.
#include "launcher/driver/last_error.h"

#include <gtest/gtest.h>

#include <vector>

namespace hvdray {
namespace {

using Lines = std::vector<std::string>;

const Lines kOwn = {
    "Traceback (most recent call last):", "  File \"train.py\", line 3, in <module>",
    "    raise ValueError(\"the batch is empty\")", "ValueError: the batch is empty"};
const Lines kHorovod = {
    "Traceback (most recent call last):",
    "  File \"mpi_ops.py\", line 1282, in synchronize",
    "RuntimeError: Horovod has been shut down. This was caused by an exception on one of the ranks",
    "During handling of the above exception, another exception occurred:",
    "Traceback (most recent call last):",
    "  File \"train.py\", line 9, in <module>",
    "horovod.common.exceptions.HorovodInternalError: Horovod has been shut down."};

Lines Joined(Lines lines, const Lines& more) {
  lines.insert(lines.end(), more.begin(), more.end());
  return lines;
}

TEST(LastErrorTest, IsTheExceptionBehindTheTraceback) {
  const LastError error = ReadLastError(kOwn);
  EXPECT_EQ(error.text, "ValueError: the batch is empty");
  EXPECT_TRUE(error.is_own());
}

TEST(LastErrorTest, IsNothingWithoutOne) {
  EXPECT_EQ(ReadLastError({}), LastError{});
  EXPECT_EQ(ReadLastError(Lines{"epoch 1", "epoch 2"}), LastError{});
}

TEST(LastErrorTest, IsNothingWhileTheTracebackIsBeingWritten) {
  EXPECT_EQ(ReadLastError(Lines{kOwn.begin(), kOwn.begin() + 3}), LastError{});
}

TEST(LastErrorTest, OfAChainIsTheFirst) {
  const LastError error = ReadLastError(kHorovod);
  EXPECT_TRUE(error.text.starts_with("RuntimeError: Horovod has been shut down"));
  EXPECT_EQ(error.peer_words, "Horovod has been shut down");
  // Its own error, followed by a failed collective.
  Lines chained = Joined(kOwn, {kHorovod[3]});
  chained = Joined(chained, kHorovod);
  EXPECT_EQ(ReadLastError(chained).text, "ValueError: the batch is empty");
  EXPECT_TRUE(ReadLastError(chained).is_own());
}

TEST(LastErrorTest, OfAChainWhoseBeginningIsGoneIsWhatIsLeftOfIt) {
  EXPECT_EQ(ReadLastError(Lines{kHorovod.begin() + 1, kHorovod.end()}).peer_words,
            "Horovod has been shut down");
}

TEST(LastErrorTest, AnEarlierOneThatTheProgramSurvivedDoesNotCount) {
  EXPECT_TRUE(ReadLastError(Joined(Joined(kHorovod, {"retrying"}), kOwn)).is_own());
  EXPECT_FALSE(ReadLastError(Joined(Joined(kOwn, {"retrying"}), kHorovod)).is_own());
}

TEST(LastErrorTest, WhatIsIgnoredAtTheEndDoesNotCount) {
  const LastError error = ReadLastError(
      Joined(Joined(kHorovod, {"Exception ignored in: <function Pool.__del__>"}), kOwn));
  EXPECT_EQ(error.peer_words, "Horovod has been shut down");
}

TEST(LastErrorTest, LinesBehindTheMessageDoNotBlame) {
  Lines lines = Joined(kOwn, {"a", "b", "c", "d"});
  EXPECT_TRUE(ReadLastError(Joined(lines, {"warning: Connection reset by peer"})).is_own());
}

// What Horovod 0.28.1 prints when a peer dies while the gang connects.
TEST(LastErrorTest, AnErrorThatPointsToTheLinesAboveBlamesWhomTheyBlame) {
  const Lines failed = {
      "Traceback (most recent call last):", "  File \"basics.py\", line 132, in init",
      "ValueError: Horovod initialization failed. Please check log messages above "
      "for a more descriptive error."};
  const Lines above = {
      "[operations.cc:681] [0]: Horovod could not be initialized: [pair.cc:589] "
      "Read error [127.0.0.1]:438: Connection reset by peer"};
  EXPECT_EQ(ReadLastError(Joined(above, failed)).peer_words, "Connection reset by peer");
  EXPECT_TRUE(ReadLastError(failed).is_own());
}

TEST(LastErrorTest, KnowsTorchsPrefix) {
  const LastError error = ReadLastError(
      Lines{"[rank1]: Traceback (most recent call last):", "[rank1]:   File \"t.py\", line 1",
            "[rank1]: RuntimeError: [pair.cc:598] Connection closed by peer [10.0.0.2]:1"});
  EXPECT_EQ(error.text, "RuntimeError: [pair.cc:598] Connection closed by peer [10.0.0.2]:1");
  EXPECT_EQ(error.peer_words, "Connection closed by peer");
}

TEST(LastErrorTest, KnowsAnUncaughtExceptionOfCpp) {
  const LastError own = ReadLastError(Lines{
      "terminate called after throwing an instance of 'std::runtime_error'", "  what():  boom"});
  EXPECT_EQ(own.text, "terminate called after throwing an instance of 'std::runtime_error'");
  EXPECT_TRUE(own.is_own());
  const LastError fallen = ReadLastError(
      Lines{"terminate called after throwing an instance of 'gloo::IoException'",
            "  what():  [/gloo/transport/tcp/pair.cc:490] Read error: Connection reset by peer"});
  EXPECT_EQ(fallen.peer_words, "Connection reset by peer");
}

TEST(LastErrorTest, KnowsNccl) {
  const LastError error = ReadLastError(Lines{
      "Traceback (most recent call last):", "  File \"t.py\", line 1",
      "torch.distributed.DistBackendError: NCCL error in: NCCLUtils.hpp:47, NCCL version 2.14.3",
      "ncclRemoteError: A call failed possibly due to a network error or a remote process "
      "exiting."});
  EXPECT_EQ(error.peer_words, "ncclRemoteError");
}

TEST(LastErrorTest, WithoutATracebackTheLastLinesMayBlame) {
  const LastError error = ReadLastError(Lines{"error: Connection closed by peer", "giving up"});
  EXPECT_EQ(error.text, "");
  EXPECT_EQ(error.peer_words, "Connection closed by peer");
}

TEST(LastErrorTest, ALongMessageIsCutBetweenCharacters) {
  std::string message = "ValueError: ";
  while (message.size() < 2000) message += "ü";
  const LastError error = ReadLastError(Lines{kOwn[0], kOwn[1], message});
  EXPECT_LE(error.text.size(), 303u);
  EXPECT_TRUE(error.text.ends_with("ü…"));
}

TEST(LastErrorTest, ARecordIsReadAsAMessage) {
  EXPECT_EQ(ReadRecordedError("ValueError: x\nmore").text, "ValueError: x");
  EXPECT_EQ(ReadRecordedError("RuntimeError: Connection closed by peer").peer_words,
            "Connection closed by peer");
}

}  // namespace
}  // namespace hvdray
