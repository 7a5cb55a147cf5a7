// SPDX-License-Identifier: Apache-2.0
// Variables of -x that hvdray sets, too: each counts or is refused, wherever it is given.
#include "launcher/job/user_variables.h"

#include <gtest/gtest.h>

#include "tests/unit/spec/spec_test_support.h"
#include "wire/slot_environment.h"

namespace hvdray {
namespace {

using Strings = std::vector<std::string>;

Strings Kept(const std::string& line) {
  const Result<RunRequest> request = SpecWorld().Resolve(line);
  EXPECT_TRUE(request.ok()) << request.status().ToString();
  return request.ok() ? KeptVariables(request->spec) : Strings();
}

TEST(UserVariablesTest, InterfacesAreTheUsersToName) {
  EXPECT_EQ(Kept("-np 1 -x NCCL_SOCKET_IFNAME=ib0 -x GLOO_SOCKET_IFNAME=ib0 "
                 "-x HOROVOD_GLOO_IFACE=ib0 -x PYTHONUNBUFFERED= -x A=1 ./t"),
            (Strings{"GLOO_SOCKET_IFNAME", "HOROVOD_GLOO_IFACE", "NCCL_SOCKET_IFNAME",
                     "PYTHONUNBUFFERED"}));
}

TEST(UserVariablesTest, NoneOfTheSlotsVariablesIsDroppedSilently) {
  wire::StartGeneration all;
  all.gloo_interface = all.nccl_interfaces = "eth0";
  all.master_address = "10.0.0.1";
  all.master_port = 1;
  const SpecWorld world;
  for (const auto& [name, value] : SlotEnvironment(all, {}, "job", 1)) {
    const std::string line = "-np 1 -x " + name + "=7 ./t";
    if (Result<RunRequest> request = world.Resolve(line); request.ok()) {
      EXPECT_EQ(KeptVariables(request->spec), Strings{name}) << name;
    } else {
      world.ExpectRefused(line, "flag -x");
    }
  }
}

TEST(UserVariablesTest, AWorkersPlaceIsRefusedWithAHintWhereThereIsAnotherWay) {
  const SpecWorld world;
  EXPECT_EQ(world.ExpectRefused("-np 1 -x HOROVOD_RANK=3 ./t", "flag -x"), "leave it out");
  world.ExpectRefused("-np 1 -x RANK=3 ./t", "flag -x");
  EXPECT_NE(world.ExpectRefused("-np 1 -x MASTER_PORT=29500 ./t", "flag -x").find("--master-port"),
            std::string::npos);
  EXPECT_EQ(world.ExpectRefused("-np 1 -x HOROVOD_SIZE=3 ./t", "flag -x"), "-np N");
  world.ExpectRefused("-np 1 -x HOROVOD_CONTROLLER=mpi ./t", "flag -x");
  world.ExpectRefused("-np 1 -x HVDRAY_RANK=0 ./t", "flag -x");
  world.ExpectRefused("-np 1 -x HVDRAY_CHANNEL_FD=4 ./t", "flag -x");
  world.ExpectRefused("-np 1 -x TORCHELASTIC_ERROR_FILE=/tmp/e ./t", "flag -x");
  EXPECT_TRUE(world.ToStatus("-np 1 -x HOROVOD_CPU_OPERATIONS=gloo ./t").ok());
}

TEST(UserVariablesTest, TheSameHoldsWhereverAVariableIsGiven) {
  SpecWorld world;
  world.files["job.yaml"] = "env: {RANK: 3}\n";
  world.ExpectRefused("-np 1 -f job.yaml ./t", "job.yaml:1:6");
  world.files["job.yaml"] = "env: {NCCL_SOCKET_IFNAME: ib0}\n";
  EXPECT_EQ(KeptVariables(world.Resolve("-np 1 -f job.yaml ./t")->spec),
            Strings{"NCCL_SOCKET_IFNAME"});
  world.environment = Env({{"HVDRAY_ENV", "LOCAL_RANK=3"}});
  world.ExpectRefused("-np 1 ./t", "env HVDRAY_ENV");
  world.environment = Env({{"WORLD_SIZE", "3"}});
  world.ExpectRefused("-np 1 -x WORLD_SIZE ./t", "flag -x");
}

TEST(UserVariablesTest, ABlankBesideACommaIsNoPartOfAName) {
  SpecWorld world;
  world.environment = Env({{"HVDRAY_ENV", "A=1, B=2"}});
  world.ExpectRefused("-np 1 ./t", "env HVDRAY_ENV");
  world.environment = Env({{"HVDRAY_ENV", "A=1 ,B= 2"}});
  EXPECT_EQ(*world.Resolve("-np 1 ./t")->spec.env, (std::vector<std::string>{"A=1 ", "B= 2"}));
  world.environment = Env({});
  EXPECT_FALSE(world.Resolve({"-np", "1", "-x", "A =1", "--", "./t"}).ok());
}

TEST(UserVariablesTest, WithoutTorchsVariablesTheyAreTheUsers) {
  EXPECT_EQ(Kept("-np 1 --no-torch-env -x MASTER_PORT=1 -x RANK=0 ./t"),
            (Strings{"MASTER_PORT", "RANK"}));
  EXPECT_EQ(Kept("-np 1 --min-np 1 --no-torch-env -x MASTER_PORT=1 ./t"), Strings{"MASTER_PORT"});
  SpecWorld().ExpectRefused("-np 1 --min-np 1 -x MASTER_PORT=1 ./t", "flag -x");
  SpecWorld().ExpectRefused("-np 1 --no-torch-env -x HOROVOD_RANK=1 ./t", "flag -x");
}

TEST(UserVariablesTest, OnRayTheGpusAndTheRuntimeEnvironmentAreCheckedToo) {
  const SpecWorld world;
  world.ExpectRefused("--ray -np 1 --use-gpu -x CUDA_VISIBLE_DEVICES=0 ./t", "flag -x");
  EXPECT_TRUE(world.ToStatus("--ray -np 1 -x CUDA_VISIBLE_DEVICES=0 ./t").ok());
  const auto with = [](const std::string& name) {
    return Strings{"--ray", "-np", "1", "--runtime-env", R"({"env_vars":{")" + name + R"(":"1"}})",
                   "./t"};
  };
  EXPECT_EQ(world.Resolve(with("RANK")).status().code(), ErrorCode::kUsage);
  const Status interface = world.Resolve(with("NCCL_SOCKET_IFNAME")).status();
  EXPECT_EQ(interface.code(), ErrorCode::kUsage);
  EXPECT_EQ(interface.hint(), "-x NCCL_SOCKET_IFNAME=VALUE");
  EXPECT_TRUE(world.Resolve(with("OTHER")).ok());
}

}  // namespace
}  // namespace hvdray
