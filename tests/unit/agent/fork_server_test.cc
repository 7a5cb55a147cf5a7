// SPDX-License-Identifier: Apache-2.0
#include "agent/fork_server.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include "tests/fakes/loop_runner.h"

namespace hvdray {
namespace {

using Words = std::vector<std::string>;

wire::StartGeneration StartOf(Words command) {
  wire::StartGeneration start;
  start.command = std::move(command);
  start.preload = {"json"};
  start.workers = {{0, 0, 0, 1}};
  return start;
}

size_t SizeOf(const Words& words) {
  size_t size = 0;
  for (const std::string& word : words) size += word.size() + 1;
  return size;
}

TEST(ForkServerPlanTest, HasTheEnvironmentThatAllWorkersShareAndPythonsOwn) {
  const auto plan =
      PlanForkServer(StartOf({"python3", "a.py"}),
                     {"PATH=/bin", "OMP_NUM_THREADS=4", "CUDA_VISIBLE_DEVICES=0",
                      "HIP_VISIBLE_DEVICES=0", "HVDRAY_JOB_ID=j", "HVDRAY_GENERATION=3"},
                     {"HOROVOD_RANK=0", "PYTHONUNBUFFERED=1"});
  ASSERT_TRUE(plan.ok());
  EXPECT_EQ(plan->environment,
            (Words{"PATH=/bin", "OMP_NUM_THREADS=4", "HVDRAY_JOB_ID=j", "PYTHONUNBUFFERED=1"}));
  EXPECT_FALSE(PlanForkServer(StartOf({"sh", "a.sh"}), {}, {}).ok());
}

TEST(ForkServerPlanTest, AnotherShareOfTheCpusIsNoReasonToImportAgain) {
  const auto plan = [](uint32_t share, const std::string& entry) {
    wire::StartGeneration start = StartOf({"python3", "a.py"});
    start.threads = share;
    return PlanForkServer(start, {"PATH=/bin", entry}, {}).value();
  };
  EXPECT_EQ(plan(2, "OMP_NUM_THREADS=2").threads, Words{"OMP_NUM_THREADS=2"});
  EXPECT_EQ(plan(2, "OMP_NUM_THREADS=2"), plan(4, "OMP_NUM_THREADS=4"));
  EXPECT_NE(plan(0, "OMP_NUM_THREADS=2"), plan(0, "OMP_NUM_THREADS=4")) << "the user's";
}

TEST(ForkServerPlanTest, ItsCommandLineHasRoomForAWorkers) {
  const Words commands[] = {{"python3", "a.py"},
                            {"python3", "a"},
                            {"python3", "abc"},
                            {"python3", "-u", "-Xdev", "train.py", "--rate", "0.1"},
                            {"python3", "-m", "pack", "x"},
                            {"/usr/bin/python3", "-c", std::string(100000, 'x')}};
  for (const Words& command : commands) {
    const auto plan = PlanForkServer(StartOf(command), {}, {});
    ASSERT_TRUE(plan.ok());
    const Words server = ServerCommand(*plan);
    EXPECT_EQ(server[plan->call.interpreter.size()], "-") << "reads its program from stdin";
    // An option of two letters in one word takes more room apart.
    EXPECT_LE(SizeOf(command), SizeOf(server)) << command[1];
    EXPECT_LE(SizeOf(server), SizeOf(command) + 2) << command[1];
  }
}

class ForkServerTest : public ::testing::Test {
 protected:
  void SetUp() override {
    auto loop = Loop::Create();
    ASSERT_TRUE(loop.ok());
    loop_ = std::move(loop).value();
  }
  wire::Warmed Settle(const wire::StartGeneration& start,
                      Duration limit = std::chrono::minutes(1)) {
    auto plan = PlanForkServer(start, {"PATH=/usr/bin:/bin"}, {});
    EXPECT_TRUE(plan.ok());
    std::optional<wire::Warmed> settled;
    server_ = std::make_unique<ForkServer>(*loop_, std::move(plan).value(), limit,
                                           [&](const wire::Warmed& result) {
                                             EXPECT_FALSE(settled) << "once";
                                             settled = result;
                                           });
    EXPECT_FALSE(settled) << "from the loop";
    EXPECT_TRUE(RunUntil(*loop_, [&] { return settled.has_value(); }));
    return settled.value_or(wire::Warmed());
  }

  std::unique_ptr<Loop> loop_;
  std::unique_ptr<ForkServer> server_;
};

TEST_F(ForkServerTest, AnInterpreterThatIsNotThereIsColdWithItsReason) {
  const wire::Warmed result = Settle(StartOf({"/nowhere/python3", "a.py"}));
  EXPECT_FALSE(result.is_warm);
  EXPECT_EQ(result.why, "No such file or directory");
  EXPECT_FALSE(server_->is_warm());
  EXPECT_FALSE(server_->is_lost());
}

TEST_F(ForkServerTest, AProgramThatOnlyHasPythonsNameIsCold) {
  char directory[] = "/tmp/hvdray-fork-server-XXXXXX";
  ASSERT_NE(::mkdtemp(directory), nullptr);
  const std::string path = std::string(directory) + "/python3";
  ASSERT_EQ(::symlink("/bin/true", path.c_str()), 0);
  const wire::Warmed result = Settle(StartOf({path, "a.py"}));
  EXPECT_FALSE(result.is_warm);
  EXPECT_EQ(result.why, "Python ended (exit code 0) during the start of Python");
  ASSERT_EQ(::unlink(path.c_str()), 0);
  ASSERT_EQ(::symlink("/bin/yes", path.c_str()), 0);
  EXPECT_EQ(Settle(StartOf({path, "a.py"}), std::chrono::milliseconds(200)).why,
            "the start of Python did not end within 0.2 s");
  ::unlink(path.c_str());
  ::rmdir(directory);
}

TEST_F(ForkServerTest, ARequestToADeadServerIsAnsweredWithNothing) {
  ASSERT_FALSE(Settle(StartOf({"/nowhere/python3", "a.py"})).is_warm);
  bool is_answered = false;
  ForkRequest request;
  request.own_environments.emplace_back();
  request.ends.emplace_back();
  server_->Fork(std::move(request), [&](const Forked& answer) {
    EXPECT_TRUE(answer.pids.empty());
    is_answered = true;
  });
  EXPECT_TRUE(server_->is_forking());
  EXPECT_TRUE(RunUntil(*loop_, [&] { return is_answered; }));
  EXPECT_FALSE(server_->is_forking());
}

}  // namespace
}  // namespace hvdray
