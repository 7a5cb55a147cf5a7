// SPDX-License-Identifier: Apache-2.0
// A LocalGang with real processes, whose launcher is the test.
#ifndef HVDRAY_TESTS_UNIT_AGENT_GANG_HARNESS_H_
#define HVDRAY_TESTS_UNIT_AGENT_GANG_HARNESS_H_

#include <gtest/gtest.h>

#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "agent/local_gang.h"
#include "tests/fakes/fake_link.h"
#include "tests/unit/agent/probe.h"
#include "tests/unit/agent/process_scan.h"

namespace hvdray {

class GangHarness : public ::testing::Test, private LocalGang::Owner {
 protected:
  void SetUp() override {
    auto loop = Loop::Create();
    ASSERT_TRUE(loop.ok());
    loop_ = std::move(loop).value();
  }

  void TearDown() override {
    gang_.reset();
    EXPECT_TRUE(WaitFor([&] { return FindMarked(mark_).empty(); }));
  }

  wire::StartGeneration MakeStart(int workers, std::vector<std::string> command) const {
    wire::StartGeneration start;
    start.size = workers;
    start.local_size = workers;
    start.host_name = "here";
    for (int i = 0; i < workers; ++i) start.workers.push_back({i, i, 0, 1});
    start.command = std::move(command);
    start.environment = {"PATH=/usr/bin:/bin", mark_};
    return start;
  }

  void Start(wire::StartGeneration start) {
    options_.job_id = "job";
    options_.generation = 1;
    gang_ = std::make_unique<LocalGang>(*loop_, link_, std::move(start), options_,
                                        static_cast<LocalGang::Owner&>(*this));
    gang_->Start();
  }

  Result<uint16_t> OpenRelay(const LocalGang& /*gang*/, const wire::WorkerSlot& slot) override {
    if (slot.rank == refused_relay_) return Status(ErrorCode::kOutOfResources, "no more");
    EXPECT_TRUE(open_relays_.insert(slot.rank).second);
    return static_cast<uint16_t>(20000 + slot.rank);
  }
  void CloseRelay(int rank) override { EXPECT_EQ(open_relays_.erase(rank), 1U); }
  ForkServer* FindServer(const ForkServerPlan& /*plan*/, Generation /*generation*/,
                         Duration /*limit*/) override {
    return nullptr;
  }
  bool IsOurs(pid_t pid) const override { return gang_->workers().IsLive(pid); }
  bool HasSiblings() const override { return false; }
  void OnStopped(LocalGang& /*gang*/, uint32_t swept) override {
    EXPECT_FALSE(swept_.has_value());
    swept_ = swept;
    gang_.reset();
  }

  void StartProbes(int workers, std::vector<std::string> words) {
    Start(MakeStart(workers, ProbeCommand(std::move(words))));
  }

  bool WaitUntilStopped() {
    return WaitFor(*loop_, [&] { return swept_.has_value(); });
  }

  bool WaitUntilReady(int workers) {
    return WaitFor(*loop_, [&] {
      for (int rank = 0; rank < workers; ++rank) {
        if (output_[{rank, wire::StreamId::kStdout}] != "ready\n") return false;
      }
      return true;
    });
  }

  void OnSend(wire::Body body) {
    EXPECT_FALSE(swept_.has_value()) << "sent after the end";
    if (auto* output = std::get_if<wire::Output>(&body)) {
      const std::pair key{output->rank, output->stream};
      EXPECT_FALSE(ended_.contains(key));
      EXPECT_LE(output->bytes.size(), kOutputFrameBytes);
      output_[key] += output->bytes;
      if (output->is_end) ended_.insert(key);
      if (is_credit_returned_ && !output->bytes.empty() && gang_) {
        AddCredit(output->rank, output->stream, output->bytes.size());
      }
    } else if (auto* started = std::get_if<wire::WorkerStarted>(&body)) {
      EXPECT_FALSE(exits_.contains(started->rank));
      EXPECT_TRUE(started_.emplace(started->rank, started->pid).second);
    } else if (auto* exited = std::get_if<wire::WorkerExited>(&body)) {
      EXPECT_TRUE(exits_.emplace(exited->rank, *exited).second);
    } else if (auto* credit = std::get_if<wire::Credit>(&body)) {
      (credit->stream == wire::StreamId::kChannel ? channel_credit_ : stdin_credit_) +=
          credit->bytes;
    }
  }

  /// As a launcher does: what came on stdout or stderr is granted as kStdout.
  void AddCredit(int rank, wire::StreamId stream, size_t bytes) {
    if (stream == wire::StreamId::kStderr) stream = wire::StreamId::kStdout;
    gang_->output().AddCredit(rank, stream, static_cast<uint32_t>(bytes));
  }
  Status WriteStdin(int rank, std::string bytes, bool is_end) {
    return gang_->inputs().Write({rank, is_end, std::move(bytes)});
  }
  Status WriteChannel(int rank, std::string bytes, bool is_end = false) {
    return gang_->inputs().Write({rank, is_end, std::move(bytes), wire::StreamId::kChannel});
  }

  const std::string& Stdout(int rank) { return output_[{rank, wire::StreamId::kStdout}]; }
  const std::string& Stderr(int rank) { return output_[{rank, wire::StreamId::kStderr}]; }
  const std::string& FromChannel(int rank) { return output_[{rank, wire::StreamId::kChannel}]; }

  std::string mark_ = MakeMark();
  std::unique_ptr<Loop> loop_;
  LocalGang::Options options_;
  wire::FakeLink link_{[this](wire::Message message) {
    EXPECT_EQ(message.generation, options_.generation);
    OnSend(std::move(message.body));
  }};
  std::unique_ptr<LocalGang> gang_;
  bool is_credit_returned_ = true;
  int refused_relay_ = -1;
  std::set<int> open_relays_;
  std::map<std::pair<int, wire::StreamId>, std::string> output_;
  std::set<std::pair<int, wire::StreamId>> ended_;
  std::map<int, uint32_t> started_;
  std::map<int, wire::WorkerExited> exits_;
  uint64_t stdin_credit_ = 0;
  uint64_t channel_credit_ = 0;
  std::optional<uint32_t> swept_;
};

}  // namespace hvdray

#endif  // HVDRAY_TESTS_UNIT_AGENT_GANG_HARNESS_H_
