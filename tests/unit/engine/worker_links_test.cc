// SPDX-License-Identifier: Apache-2.0
// What agents may say of workers, and where what workers get goes.
#include "launcher/engine/worker_links.h"

#include <gtest/gtest.h>

#include <map>
#include <random>
#include <string>
#include <utility>
#include <variant>

#include "tests/fakes/loop_runner.h"

namespace hvdray {
namespace {

constexpr int kAgents = 3;
constexpr int kWorkers = 4;

/// Agents, launcher and client around the links; counts bytes by worker.
class WorkerLinksTest : public testing::Test, public AgentLinks, public WorkerLinks::Owner {
 protected:
  void Admit(int worker, int agent, Generation generation) {
    links_.guard().SetNewest(generation);
    links_.guard().Admit(worker, agent, generation);
    home_[worker] = {agent, generation};
    printed_[worker] = written_[worker] = granted_[worker] = 0;
  }
  /// `agent` says that the worker has printed so much.
  Result<bool> Print(int agent, int worker, Generation generation, size_t bytes) {
    wire::Message message{
        generation, wire::Output{worker, wire::StreamId::kStdout, false, std::string(bytes, 'x')}};
    return links_.OnMessage(agent, message);
  }

  std::unique_ptr<Loop> loop_ = Loop::Create().value();
  OneGang client_;
  ObjectFeed objects_{ObjectFeed::Hosts::kFixed, *this};
  WorkerLinks links_{*loop_, *this, objects_, /*has_channels=*/true, *this};
  std::map<int, std::pair<int, Generation>> home_;  // by worker
  std::map<int, uint64_t> printed_;                 // by worker, of its generation
  std::map<int, uint64_t> written_;
  std::map<int, uint64_t> granted_;
  int sent_ = 0;

 private:
  void Send(int agent, wire::Message message) override {
    ++sent_;
    int worker = -1;
    if (const auto* credit = std::get_if<wire::Credit>(&message.body)) {
      worker = credit->rank;
      granted_[worker] += credit->bytes;
    } else if (const auto* input = std::get_if<wire::Stdin>(&message.body)) {
      worker = input->rank;
    } else {
      worker = std::get<wire::Signal>(message.body).rank;
    }
    ASSERT_TRUE(home_.contains(worker)) << worker;
    EXPECT_EQ(home_[worker], (std::pair(agent, message.generation)));
  }
  bool HasControlRoom(int /*agent*/) const override { return true; }
  bool HasOutputRoom(int /*agent*/) const override { return true; }
  bool TakesDeflated(int /*agent*/) const override { return true; }
  bool SharesMemory(int /*agent*/) const override { return false; }

  JobClient& client() override { return client_; }
  void OnOutput(wire::Output& output) override { printed_[output.rank] += output.bytes.size(); }
  void OnReport(int /*worker*/, uint32_t /*number*/, const Json& /*metrics*/) override {}
  void OnViolation(int worker, const Status& why) override {
    EXPECT_EQ(why.code(), ErrorCode::kProtocolError) << worker;
  }
};

TEST_F(WorkerLinksTest, AWorkerThatWasNeverAdmittedGetsNothing) {
  links_.Signal(2, 15);
  links_.Write(2, std::make_shared<const std::string>("x"));
  EXPECT_EQ(sent_, 0);
}

TEST_F(WorkerLinksTest, AWorkerThatBreaksTheRulesOfItsChannelIsKilled) {
  Admit(1, 0, 1);
  wire::Message message{1, wire::Output{1, wire::StreamId::kChannel, false, "nonsense\n"}};
  EXPECT_TRUE(*links_.OnMessage(0, message));
  EXPECT_EQ(sent_, 2) << "SIGKILL, and the credit for what was read";
}

// Whatever agents say, and in whatever order.
TEST_F(WorkerLinksTest, EachSpeaksOfItsOwnWorkersAndEachByteIsGrantedOnce) {
  std::map<int, uint32_t> rest;  // by worker: what its last life has printed, and is not written
  for (uint32_t seed = 1; seed <= 300; ++seed) {
    std::mt19937 dice(seed);
    const auto roll = [&](int sides) {
      return static_cast<int>(dice() % static_cast<uint32_t>(sides));
    };
    for (int worker = 0; worker < kWorkers; ++worker) {
      Admit(worker, roll(kAgents), seed);
      links_.OnWritten(worker, rest[worker]);
      EXPECT_EQ(granted_[worker], 0U) << "the credit of its last life is void";
    }
    for (int step = 0; step < 60; ++step) {
      const int worker = roll(kWorkers);
      const auto [home, generation] = home_[worker];
      const uint64_t before = printed_[worker];
      switch (roll(5)) {
        case 0: {  // an agent that may not
          const int other = (home + 1 + roll(kAgents - 1)) % kAgents;
          EXPECT_EQ(Print(other, worker, generation, 9).status().code(), ErrorCode::kProtocolError);
          EXPECT_EQ(printed_[worker], before);
          break;
        }
        case 1:  // of an earlier life
          EXPECT_TRUE(Print(home, worker, generation - 1, 9).value());
          EXPECT_EQ(printed_[worker], before);
          break;
        case 2: {
          const auto bytes = static_cast<uint32_t>(printed_[worker] - written_[worker]);
          if (bytes == 0) break;
          const uint32_t part = 1 + dice() % bytes;
          written_[worker] += part;
          links_.OnWritten(worker, part);
          break;
        }
        case 3:
          links_.Signal(worker, 10);
          break;
        default:
          EXPECT_TRUE(Print(home, worker, generation, static_cast<size_t>(1 + roll(999))).value());
      }
      ASSERT_EQ(granted_[worker], written_[worker]) << "seed " << seed;
    }
    for (int worker = 0; worker < kWorkers; ++worker) {
      rest[worker] = static_cast<uint32_t>(printed_[worker] - written_[worker]);
    }
  }
}

}  // namespace
}  // namespace hvdray
