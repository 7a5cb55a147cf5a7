// SPDX-License-Identifier: Apache-2.0
// `hvdray check` takes the words of `hvdray run`, and a few of its own.
#include <gtest/gtest.h>

#include "tests/unit/spec/spec_test_support.h"

namespace hvdray {
namespace {

Result<CheckRequest> Check(const SpecWorld& world, const std::string& line) {
  return ResolveCheck(Words(line), world.environment, world.Files());
}

TEST(CheckOptionsTest, TheWordsOfAJobAreTakenAsTheyAre) {
  const SpecWorld world;
  const auto request = Check(world,
                             "-np 3 -H a:2,b:2 -i key -p 22 -x A=1 --report r --timeout 5m "
                             "--fusion-threshold-mb 3 python train.py --json");
  ASSERT_TRUE(request.ok()) << request.status().ToString();
  EXPECT_FALSE(request->is_json) << "a word of the command";
  EXPECT_EQ(*request->run.spec.np, 3);
  EXPECT_EQ(request->run.spec.hosts->size(), 2U);
  EXPECT_EQ(request->run.spec.command->back(), "--json");
  EXPECT_TRUE(request->slots.ok());
}

TEST(CheckOptionsTest, NeitherACommandNorANumberIsNeeded) {
  const SpecWorld world;
  const auto hosts = Check(world, "-H a:2,b:2 --json");
  ASSERT_TRUE(hosts.ok()) << hosts.status().ToString();
  EXPECT_TRUE(hosts->is_json);
  EXPECT_EQ(*hosts->run.spec.np, 4);
  const auto nothing = Check(world, "");
  ASSERT_TRUE(nothing.ok()) << nothing.status().ToString();
  EXPECT_EQ(nothing->run.spec.hosts->at(0).host, "localhost");
  EXPECT_EQ(*nothing->run.spec.np, 1);
}

TEST(CheckOptionsTest, ModulesToImportAreAListWithoutDoubles) {
  const SpecWorld world;
  const auto request = Check(world, "--import torch,horovod.torch --import=numpy,torch -H a:1");
  ASSERT_TRUE(request.ok()) << request.status().ToString();
  EXPECT_EQ(request->modules, (std::vector<std::string>{"torch", "horovod.torch", "numpy"}));
  for (const char* wrong : {"--import torch,,numpy", "--import .torch", "--import a-b",
                            "--import os;x", "--import torch."}) {
    const auto refused = Check(world, std::string(wrong) + " -H a:1");
    EXPECT_EQ(refused.status().code(), ErrorCode::kUsage) << wrong;
    EXPECT_NE(refused.status().message().find("flag --import: "), std::string::npos) << wrong;
  }
}

TEST(CheckOptionsTest, TooFewSlotsAreToldBesideTheRest) {
  const SpecWorld world;
  const auto request = Check(world, "-np 9 -H a:2,b:2 -- train");
  ASSERT_TRUE(request.ok()) << request.status().ToString();
  EXPECT_EQ(request->slots.code(), ErrorCode::kNotEnoughSlots);
  EXPECT_EQ(request->slots.message(), world.StatusOf("-np 9 -H a:2,b:2 -- train").message());
}

TEST(CheckOptionsTest, HostsOfABatchSystemAndOfAJobFileCount) {
  SpecWorld world;
  world.files["job.yaml"] = "hosts: [a:1, b:1]\ncommand: [train]\n";
  const auto file = Check(world, "-f job.yaml");
  ASSERT_TRUE(file.ok()) << file.status().ToString();
  EXPECT_EQ(file->run.spec.command->front(), "train");
  world.environment = Env({{"SLURM_JOB_NODELIST", "n[1-3]"}, {"SLURM_TASKS_PER_NODE", "2(x3)"}});
  const auto slurm = Check(world, "-np 7");
  ASSERT_TRUE(slurm.ok()) << slurm.status().ToString();
  EXPECT_EQ(slurm->run.spec.hosts->size(), 3U);
  EXPECT_NE(slurm->slots.hint().find("-H localhost:7"), std::string::npos);
}

TEST(CheckOptionsTest, WhatIsWrongForRunIsWrongHere) {
  const SpecWorld world;
  for (const char* line : {"-H a", "-H a:1 --hostfile x", "-H a:1 --no-such-option", "-np many",
                           "-H a:1 --jsonn", "-H a:1,a:1", "-H a:0", "-f none.yaml", "--mpi"}) {
    const auto request = Check(world, line);
    EXPECT_FALSE(request.ok()) << line;
  }
  EXPECT_EQ(Check(world, "--jsno").status().hint(), "did you mean --json?");
}

TEST(CheckOptionsTest, WhatAsksForAPlanIsRefused) {
  const SpecWorld world;
  for (const char* line : {"-np 1 --dry-run", "-np 1 --print-plan", "-np 1 --print-config"}) {
    EXPECT_EQ(Check(world, line).status().code(), ErrorCode::kUsage) << line;
  }
}

TEST(CheckOptionsTest, RunDoesNotKnowWhatIsOfCheckAlone) {
  SpecWorld world;
  EXPECT_FALSE(world.StatusOf("-np 1 --json train").ok());
  world.files["job.yaml"] = "json: true\ncommand: [train]\n";
  EXPECT_FALSE(Check(world, "-np 1 -f job.yaml").ok());
  world.environment = Env({{"HVDRAY_JSON", "1"}});
  const auto request = Check(world, "-np 1");
  ASSERT_TRUE(request.ok());
  EXPECT_FALSE(request->is_json);
  EXPECT_EQ(request->run.warnings.size(), 1U);
}

TEST(CheckOptionsTest, HelpEndsTheReading) {
  const SpecWorld world;
  EXPECT_TRUE(Check(world, "--json -h --nonsense")->run.wants_help);
  EXPECT_TRUE(Check(world, "-v")->run.wants_version);
}

}  // namespace
}  // namespace hvdray
