// SPDX-License-Identifier: Apache-2.0
#include "agent/local_gang.h"

#include <gtest/gtest.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <random>

#include "agent/gang_start.h"
#include "tests/fakes/loop_runner.h"
#include "tests/unit/agent/gang_harness.h"

namespace hvdray {
namespace {

using wire::ExecStage;
using wire::StreamId;

// Refuses and cancels as its dice say.
class GangStartModel final : public GangStart::Owner {
 public:
  explicit GangStartModel(uint32_t seed) : dice_(seed) {}
  ~GangStartModel() {
    for (const auto& [worker, process] : processes) {
      ::kill(process.pid, SIGKILL);
      EXPECT_EQ(::waitpid(process.pid, nullptr, 0), process.pid);
    }
  }
  bool Chance(uint32_t n) { return dice_() % n == 0; }

  ExecFailure Equip(const wire::WorkerSlot& slot, std::vector<std::string>* environment) override {
    if (Chance(8)) return {ExecStage::kDescriptors, EMFILE};
    EXPECT_TRUE(equipped.insert(slot.rank).second);
    *environment = {"OWN=1"};
    return {};
  }
  void Unequip(int worker) override { EXPECT_EQ(equipped.erase(worker), 1U); }
  bool IsUnwanted(int worker) const override { return worker % 7 == 3; }
  ForkServer* FindServer(const ForkServerPlan& /*plan*/) override { return nullptr; }
  void OnNoServer(const std::string& /*why*/) override {}
  void OnProcess(int worker, SpawnedProcess process) override {
    EXPECT_FALSE(settled || refused.contains(worker) || IsUnwanted(worker));
    EXPECT_TRUE(equipped.contains(worker));
    EXPECT_TRUE(processes.emplace(worker, std::move(process)).second);
  }
  void OnRefused(int worker, const ExecFailure& failure) override {
    EXPECT_NE(failure, ExecFailure());
    EXPECT_FALSE(settled || processes.contains(worker) || equipped.contains(worker));
    EXPECT_TRUE(refused.insert(worker).second);
  }
  void OnSettled() override { EXPECT_EQ(++settled, 1); }

  std::set<int> equipped, refused;
  std::map<int, SpawnedProcess> processes;
  int settled = 0;

 private:
  std::mt19937 dice_;
};

TEST(GangStartTest, EachWorkerIsStartedOrRefusedOnce) {
  auto loop = Loop::Create();
  ASSERT_TRUE(loop.ok());
  for (uint32_t seed = 0; seed < 12; ++seed) {
    SCOPED_TRACE(seed);
    GangStartModel model(seed);
    wire::StartGeneration start;
    for (int i = 0; i < static_cast<int>(10 * (seed % 6)); ++i) {
      start.workers.push_back({i, i, 0, 1});
    }
    start.command = {seed == 11 ? "/no/such/program" : "/bin/true"};
    const GangEnvironment environment(start, "job", 1);
    GangStart beginning(**loop, start, environment, model);
    beginning.Start(nullptr, seed == 10 ? ENOENT : 0, true);
    ASSERT_TRUE(RunUntil(**loop, [&] {
      if (!beginning.is_settled() && model.Chance(4)) beginning.Cancel();
      return beginning.is_settled();
    }));
    Settle(**loop);
    EXPECT_EQ(model.processes.size() + model.refused.size(), start.workers.size());
    EXPECT_TRUE(seed < 10 || model.processes.empty());
  }
}

class LocalGangTest : public GangHarness {};

TEST_F(LocalGangTest, GangThatEndsByItselfReportsEveryWorkerAndStops) {
  StartProbes(5, {"exit", "3"});
  ASSERT_TRUE(WaitUntilStopped());
  EXPECT_EQ(swept_, 0U);
  ASSERT_EQ(exits_.size(), 5U);
  EXPECT_EQ(started_.size(), 5U);
  for (const auto& [rank, exited] : exits_) {
    EXPECT_EQ(exited.status.exit_code, 3);
    EXPECT_FALSE(exited.was_stopping);
  }
  EXPECT_EQ(ended_.size(), 10U);
  EXPECT_TRUE(open_relays_.empty());
}

TEST_F(LocalGangTest, GangWithoutWorkersStopsAtOnce) {
  StartProbes(0, {"exit", "0"});
  ASSERT_TRUE(WaitUntilStopped());
}

TEST_F(LocalGangTest, CommandThatIsNowhereStartsNoProcess) {
  Start(MakeStart(3, {"no-such-command"}));
  ASSERT_TRUE(WaitUntilStopped());
  ASSERT_EQ(exits_.size(), 3U);
  EXPECT_EQ(exits_[2].status.stage, ExecStage::kExec);
  EXPECT_EQ(exits_[2].status.error, ENOENT);
  EXPECT_TRUE(started_.empty());
  EXPECT_EQ(ended_.size(), 6U);
}

TEST_F(LocalGangTest, CommandIsSearchedInThePathOfTheWorker) {
  auto start = MakeStart(1, {"sh", "-c", "exit 0"});
  start.environment = {"PATH=/nowhere", mark_};
  Start(std::move(start));
  ASSERT_TRUE(WaitUntilStopped());
  EXPECT_EQ(exits_[0].status.error, ENOENT);
}

TEST_F(LocalGangTest, WorkerWhoseRelayCannotOpenIsNotStartedAndTheOthersAre) {
  refused_relay_ = 1;
  StartProbes(3, {"exit", "0"});
  ASSERT_TRUE(WaitUntilStopped());
  EXPECT_EQ(exits_[1].status.stage, ExecStage::kDescriptors);
  EXPECT_EQ(exits_[1].status.error, EMFILE);
  EXPECT_TRUE(exits_[0].status.is_success());
  EXPECT_TRUE(exits_[2].status.is_success());
}

TEST_F(LocalGangTest, EachWorkerGetsItsOwnPlaceAndPort) {
  StartProbes(2, {"environment"});
  ASSERT_TRUE(WaitUntilStopped());
  for (int rank = 0; rank < 2; ++rank) {
    const std::string n = std::to_string(rank);
    EXPECT_NE(Stdout(rank).find("\nHOROVOD_RANK=" + n + "\n"), std::string::npos);
    EXPECT_NE(Stdout(rank).find("HOROVOD_GLOO_RENDEZVOUS_PORT=2000" + n + "\n"), std::string::npos);
  }
}

TEST_F(LocalGangTest, BytesPassUnharmed) {
  StartProbes(1, {"invalid-bytes"});
  ASSERT_TRUE(WaitUntilStopped());
  EXPECT_EQ(Stdout(0), std::string("\xff\xfe\0\x80tail", 8));
  EXPECT_EQ(Stderr(0), "");
}

TEST_F(LocalGangTest, TenMegabytesArriveWholeThoughCreditIsSmall) {
  constexpr size_t kBytes = 10 << 20;
  is_credit_returned_ = false;
  StartProbes(1, {"flood-both", std::to_string(kBytes / 2)});
  uint64_t granted = wire::kOutputWindowBytes;
  const auto received = [&] { return Stdout(0).size() + Stderr(0).size(); };
  while (granted < kBytes) {
    ASSERT_TRUE(WaitFor(*loop_, [&] { return received() == granted; })) << granted;
    // Not a byte more than was granted, however long one waits for it.
    bool is_over = false;
    const Watch pause = loop_->After(std::chrono::milliseconds(5), [&] { is_over = true; });
    ASSERT_TRUE(WaitFor(*loop_, [&] { return is_over; }));
    ASSERT_EQ(received(), granted);
    constexpr uint32_t kGrant = 3'000'017;
    granted += kGrant;
    AddCredit(0, StreamId::kStdout, kGrant);
  }
  ASSERT_TRUE(WaitUntilStopped());
  EXPECT_EQ(Stdout(0).size(), kBytes / 2);
  EXPECT_EQ(Stderr(0), Stdout(0));
  EXPECT_TRUE(exits_[0].status.is_success());
}

TEST_F(LocalGangTest, FullLinkHoldsTheWriterAndRoomLetsItGoOn) {
  link_.has_room = false;
  StartProbes(2, {"flood", "3000000"});
  ASSERT_TRUE(WaitFor(*loop_, [&] { return started_.size() == 2; }));
  bool is_over = false;
  const Watch pause = loop_->After(std::chrono::milliseconds(20), [&] { is_over = true; });
  ASSERT_TRUE(WaitFor(*loop_, [&] { return is_over; }));
  EXPECT_EQ(Stdout(0).size() + Stdout(1).size(), 0U);
  EXPECT_TRUE(exits_.empty());
  link_.has_room = true;
  gang_->output().OnRoom();
  ASSERT_TRUE(WaitUntilStopped());
  EXPECT_EQ(Stdout(0).size(), 3'000'000U);
  EXPECT_EQ(Stdout(1), Stdout(0));
}

TEST_F(LocalGangTest, SlowReaderLosesNothingOfAGangThatHasEnded) {
  options_.linger = std::chrono::milliseconds(1);
  is_credit_returned_ = false;
  StartProbes(1, {"flood", "1100000"});  // a little beyond the window, so the pipe holds the rest
  ASSERT_TRUE(WaitFor(*loop_, [&] { return exits_.size() == 1; }));
  bool is_over = false;
  const Watch pause = loop_->After(std::chrono::milliseconds(30), [&] { is_over = true; });
  ASSERT_TRUE(WaitFor(*loop_, [&] { return is_over; }));
  EXPECT_FALSE(swept_.has_value());
  AddCredit(0, StreamId::kStdout, 1 << 20);
  ASSERT_TRUE(WaitUntilStopped());
  EXPECT_EQ(Stdout(0).size(), 1'100'000U);
}

TEST_F(LocalGangTest, WorkerThatClosesItsOutputIsNotTakenForEnded) {
  StartProbes(1, {"close-output"});
  ASSERT_TRUE(WaitFor(*loop_, [&] { return ended_.size() == 2; }));
  EXPECT_TRUE(exits_.empty());
  gang_->Stop(std::chrono::seconds(10));
  ASSERT_TRUE(WaitUntilStopped());
  EXPECT_EQ(exits_[0].status.signal, SIGTERM);
}

TEST_F(LocalGangTest, StdinReachesItsRankWholeAndOthersReadNothing) {
  auto start = MakeStart(2, ProbeCommand({"cat"}));
  start.stdin_rank = 1;
  Start(std::move(start));
  std::string sent;
  for (int i = 0; sent.size() < 3'000'000; ++i) sent += std::to_string(i) + "\n";
  size_t offset = 0;
  uint64_t credit = wire::kStdinWindowBytes;
  while (offset < sent.size()) {
    const size_t size = std::min<size_t>({65536, sent.size() - offset, credit});
    ASSERT_TRUE(WriteStdin(1, sent.substr(offset, size), false).ok());
    offset += size;
    credit -= size;
    ASSERT_TRUE(WaitFor(*loop_, [&] { return credit + stdin_credit_ > 0; }));
    credit += std::exchange(stdin_credit_, 0);
  }
  ASSERT_TRUE(WriteStdin(1, "", true).ok());
  ASSERT_TRUE(WaitUntilStopped());
  EXPECT_EQ(Stdout(1), sent);
  EXPECT_EQ(Stdout(0), "");
  EXPECT_TRUE(exits_[0].status.is_success());
  EXPECT_TRUE(exits_[1].status.is_success());
}

TEST_F(LocalGangTest, StdinOfAWorkerThatDoesNotWantItIsSwallowedAndConsumed) {
  auto start = MakeStart(1, ProbeCommand({"close-stdin"}));
  start.stdin_rank = 0;
  Start(std::move(start));
  ASSERT_TRUE(WaitUntilReady(1));
  for (int i = 0; i < 100; ++i) {
    ASSERT_TRUE(WriteStdin(0, std::string(65536, 'x'), false).ok());
  }
  EXPECT_EQ(stdin_credit_, 100U * 65536);
  ASSERT_TRUE(WriteStdin(7, "for nobody", false).ok());
  EXPECT_EQ(stdin_credit_, 100U * 65536 + 10);
  gang_->Stop(Duration::zero());
  ASSERT_TRUE(WaitUntilStopped());
}

TEST_F(LocalGangTest, DaemonThatHoldsTheOutputIsSweptAfterTheWorkersEnd) {
  options_.linger = std::chrono::milliseconds(20);
  StartProbes(2, {"daemon", "and-exit"});
  ASSERT_TRUE(WaitUntilStopped());
  EXPECT_EQ(swept_, 2U);
  EXPECT_EQ(ended_.size(), 4U);
  EXPECT_TRUE(exits_[0].status.is_success());
  EXPECT_TRUE(FindMarked(mark_).empty());
}

TEST_F(LocalGangTest, HelperThatStillWritesIsHeardOutBeforeTheSweep) {
  options_.linger = std::chrono::minutes(1);  // two programs start in it
  Start(MakeStart(1, {"bash", "-c", "exec > >(sleep 0.05; cat); echo late"}));
  ASSERT_TRUE(WaitUntilStopped());
  EXPECT_EQ(Stdout(0), "late\n");
  EXPECT_EQ(swept_, 0U);
}

TEST_F(LocalGangTest, SignalGoesToOneRankOrToAllAndNonsenseNowhere) {
  StartProbes(3, {"wait"});
  ASSERT_TRUE(WaitUntilReady(3));
  gang_->Signal(1, 0);
  gang_->Signal(1, -9);
  gang_->Signal(1, 1000);
  gang_->Signal(42, SIGKILL);
  gang_->Signal(1, SIGUSR1);
  ASSERT_TRUE(WaitFor(*loop_, [&] { return exits_.size() == 1; }));
  EXPECT_EQ(exits_[1].status.signal, SIGUSR1);
  EXPECT_FALSE(exits_[1].was_stopping);
  gang_->Signal(-1, SIGUSR2);
  ASSERT_TRUE(WaitUntilStopped());
  EXPECT_EQ(exits_[0].status.signal, SIGUSR2);
}

class ChannelGangTest : public GangHarness {
 protected:
  void StartShell(int workers, const std::string& script) {
    auto start = MakeStart(workers, {"bash", "-c", script});
    start.has_channel = true;
    Start(std::move(start));
  }
};

TEST_F(ChannelGangTest, AWorkerWritesToItsChannelAndReadsFromIt) {
  StartShell(1,
             "echo \"fd $HVDRAY_CHANNEL_FD\"; echo hello >&$HVDRAY_CHANNEL_FD; "
             "read -r -u $HVDRAY_CHANNEL_FD line; echo \"heard $line\" >&$HVDRAY_CHANNEL_FD");
  ASSERT_TRUE(WaitFor(*loop_, [&] { return FromChannel(0) == "hello\n"; }));
  ASSERT_TRUE(WriteChannel(0, "first\nrest").ok());
  ASSERT_TRUE(WaitUntilStopped());
  EXPECT_EQ(Stdout(0), "fd 4\n");
  EXPECT_EQ(FromChannel(0), "hello\nheard first\n");
  EXPECT_EQ(Stderr(0), "");
  EXPECT_EQ(channel_credit_, 10U);
  EXPECT_EQ(stdin_credit_, 0U);
  EXPECT_EQ(ended_.size(), 3U);
  EXPECT_TRUE(exits_[0].status.is_success());
}

TEST_F(ChannelGangTest, TheChannelIsASocketAndTheOnlyDescriptorMore) {
  StartShell(1, "ls /proc/$$/fd; readlink /proc/$$/fd/4");
  ASSERT_TRUE(WaitUntilStopped());
  EXPECT_TRUE(Stdout(0).starts_with("0\n1\n2\n4\nsocket:[")) << Stdout(0);
}

TEST_F(ChannelGangTest, WithoutOneThereIsNoVariableThoughItWasInherited) {
  auto start =
      MakeStart(1, {"bash", "-c", "echo \"<${HVDRAY_CHANNEL_FD-none}>\"; ls /proc/$$/fd; :"});
  start.environment.emplace_back("HVDRAY_CHANNEL_FD=9");
  Start(std::move(start));
  ASSERT_TRUE(WaitUntilStopped());
  EXPECT_EQ(Stdout(0), "<none>\n0\n1\n2\n");
  EXPECT_EQ(ended_.size(), 2U);
}

TEST_F(ChannelGangTest, AnInheritedVariableIsReplaced) {
  auto start = MakeStart(1, {"bash", "-c", "echo $HVDRAY_CHANNEL_FD"});
  start.environment.emplace_back("HVDRAY_CHANNEL_FD=9");
  start.has_channel = true;
  Start(std::move(start));
  ASSERT_TRUE(WaitUntilStopped());
  EXPECT_EQ(Stdout(0), "4\n");
}

TEST_F(ChannelGangTest, SixtyFourWorkersHaveOneEach) {
  constexpr int kWorkers = 64;
  StartShell(
      kWorkers,
      "read -r -u $HVDRAY_CHANNEL_FD line; echo \"$HVDRAY_RANK $line\" >&$HVDRAY_CHANNEL_FD");
  ASSERT_TRUE(WaitFor(*loop_, [&] { return started_.size() == kWorkers; }));
  for (int rank = 0; rank < kWorkers; ++rank) {
    ASSERT_TRUE(WriteChannel(rank, "for " + std::to_string(rank) + "\n").ok());
  }
  ASSERT_TRUE(WaitUntilStopped());
  for (int rank = 0; rank < kWorkers; ++rank) {
    const std::string n = std::to_string(rank);
    EXPECT_EQ(FromChannel(rank), n + " for " + n + "\n");
  }
  EXPECT_EQ(ended_.size(), 3U * kWorkers);
}

TEST_F(ChannelGangTest, WhatComesBeforeItsWorkerIsStartedIsKept) {
  constexpr int kWorkers = 64;  // some of them are started in a later turn of the loop
  StartShell(kWorkers, "read -r -u $HVDRAY_CHANNEL_FD line; echo \"$line\" >&$HVDRAY_CHANNEL_FD");
  for (int rank = 0; rank < kWorkers; ++rank) {
    ASSERT_TRUE(WriteChannel(rank, "for " + std::to_string(rank) + "\n").ok());
  }
  ASSERT_TRUE(WaitUntilStopped());
  for (int rank = 0; rank < kWorkers; ++rank) {
    EXPECT_EQ(FromChannel(rank), "for " + std::to_string(rank) + "\n");
  }
}

TEST_F(ChannelGangTest, WhatCameForAWorkerThatIsNotStartedIsGrantedAgain) {
  constexpr int kWorkers = 64;
  StartShell(kWorkers, "exec sleep 60");
  ASSERT_TRUE(WriteChannel(kWorkers - 1, "too early").ok());
  gang_->Stop(Duration::zero());
  ASSERT_TRUE(WaitUntilStopped());
  EXPECT_EQ(channel_credit_, 9U);
}

TEST_F(ChannelGangTest, AFullChannelHoldsItsWriterAndNotTheOutput) {
  constexpr size_t kBytes = 3 << 20;
  is_credit_returned_ = false;
  StartShell(1, "head -c 3145728 /dev/zero >&$HVDRAY_CHANNEL_FD & echo beside it; wait");
  ASSERT_TRUE(WaitFor(*loop_, [&] {
    return FromChannel(0).size() == wire::kOutputWindowBytes && Stdout(0) == "beside it\n";
  }));
  bool is_over = false;
  const Watch pause = loop_->After(std::chrono::milliseconds(20), [&] { is_over = true; });
  ASSERT_TRUE(WaitFor(*loop_, [&] { return is_over; }));
  EXPECT_EQ(FromChannel(0).size(), size_t{wire::kOutputWindowBytes});
  EXPECT_TRUE(exits_.empty());
  AddCredit(0, StreamId::kStdout, kBytes);
  AddCredit(0, StreamId::kChannel, kBytes);
  ASSERT_TRUE(WaitUntilStopped());
  EXPECT_EQ(FromChannel(0).size(), kBytes);
}

TEST_F(ChannelGangTest, MoreThanItsWindowForAWorkerThatDoesNotReadIsAnError) {
  StartShell(1, "echo ready; exec sleep 60");
  ASSERT_TRUE(WaitUntilReady(1));
  Status status;
  size_t sent = 0;
  for (; status.ok() && sent < 64; ++sent) status = WriteChannel(0, std::string(65536, 'x'));
  EXPECT_EQ(status.code(), ErrorCode::kProtocolError);
  EXPECT_GT(sent, wire::kStdinWindowBytes / 65536);
  gang_->Stop(Duration::zero());
  ASSERT_TRUE(WaitUntilStopped());
  EXPECT_EQ(channel_credit_, (sent - 1) * 65536) << "what a dead worker did not read is granted";
}

TEST_F(ChannelGangTest, BytesForAWorkerWithoutAChannelAreGrantedAgain) {
  StartProbes(1, {"wait"});
  ASSERT_TRUE(WaitUntilReady(1));
  ASSERT_TRUE(WriteChannel(0, "for nobody").ok());
  EXPECT_EQ(channel_credit_, 10U);
  gang_->Stop(Duration::zero());
  ASSERT_TRUE(WaitUntilStopped());
}

TEST_F(ChannelGangTest, AnEndIsAnEndOfFileToTheWorkerWhoMayStillAnswer) {
  StartShell(1, "cat <&$HVDRAY_CHANNEL_FD; echo bye >&$HVDRAY_CHANNEL_FD");
  ASSERT_TRUE(WriteChannel(0, "last", /*is_end=*/true).ok());
  ASSERT_TRUE(WaitUntilStopped());
  EXPECT_EQ(Stdout(0), "last");
  EXPECT_EQ(FromChannel(0), "bye\n");
}

TEST_F(ChannelGangTest, ACommandThatIsNowhereHasAnEndForItsChannelToo) {
  auto start = MakeStart(2, {"no-such-command"});
  start.has_channel = true;
  Start(std::move(start));
  ASSERT_TRUE(WaitUntilStopped());
  EXPECT_EQ(exits_[1].status.error, ENOENT);
  EXPECT_EQ(ended_.size(), 6U);
  EXPECT_TRUE(ended_.contains({1, StreamId::kChannel}));
}

TEST_F(ChannelGangTest, ADaemonThatHoldsOnlyTheChannelIsSwept) {
  options_.linger = std::chrono::milliseconds(20);
  StartShell(1,
             "setsid sleep 60 >/dev/null 2>&1 </dev/null & "
             "echo held >&$HVDRAY_CHANNEL_FD");
  ASSERT_TRUE(WaitUntilStopped());
  EXPECT_EQ(FromChannel(0), "held\n");
  EXPECT_EQ(ended_.size(), 3U);
  EXPECT_EQ(swept_, 1U);
  EXPECT_TRUE(exits_[0].status.is_success());
}

}  // namespace
}  // namespace hvdray
