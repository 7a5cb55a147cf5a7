// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <algorithm>

#include "agent/gang_environment.h"

namespace hvdray {
namespace {

using wire::GpuVisibility;
using Strings = std::vector<std::string>;

const Strings kOfActor = {"HOME=/root",
                          "OMP_NUM_THREADS=1",
                          "PATH=/usr/bin",
                          "PYTHONBREAKPOINT=ray.util.rpdb.set_trace",
                          "PYTHONPATH=/session/working_dir",
                          "PYTHONWARNINGS=ignore",
                          "RAY_ADDRESS=10.0.0.10:6379",
                          "RAY_AUTH_TOKEN=secret"};

TEST(NodeEnvironmentTest, WhatRayPutThereForItselfIsDropped) {
  EXPECT_EQ(WithoutRay(kOfActor, RayNames::kDropped),
            (Strings{"HOME=/root", "PATH=/usr/bin", "PYTHONPATH=/session/working_dir"}));
}

TEST(NodeEnvironmentTest, KeptNamesOfRayBringNoThrottleAlong) {
  EXPECT_EQ(WithoutRay(kOfActor, RayNames::kKept),
            (Strings{"HOME=/root", "PATH=/usr/bin", "PYTHONPATH=/session/working_dir",
                     "RAY_ADDRESS=10.0.0.10:6379", "RAY_AUTH_TOKEN=secret"}));
}

TEST(NodeEnvironmentTest, DirectoriesThatRayMadeForItselfAreNobodysBusiness) {
  const std::string place = "/s/runtime_resources/";
  EXPECT_EQ(WithoutRay({"PWD=/x", "OLDPWD=/",
                        "PYTHONPATH=" + place + "py_modules_files/hvdray_job_hvd-1:" + place +
                            "working_dir_files/hvdray_0123:/nodes/own:" + place +
                            "working_dir_files/hvdray_0123/mine"},
                       RayNames::kKept),
            (Strings{"PYTHONPATH=" + place + "working_dir_files/hvdray_0123/files:/nodes/own:" +
                     place + "working_dir_files/hvdray_0123/mine"}));
  EXPECT_EQ(
      WithoutRay({"PYTHONPATH=" + place + "py_modules_files/hvdray_job_hvd-1"}, RayNames::kDropped),
      Strings());
}

TEST(NodeEnvironmentTest, WhatOnlyLooksLikeItStays) {
  const Strings entries = {"RAYON_NUM_THREADS=4", "XRAY_=1", "OMP_NUM_THREADS_X=1",
                           "PYTHONWARNINGS=error", "PYTHONBREAKPOINT=0"};
  EXPECT_EQ(WithoutRay(entries, RayNames::kDropped), entries);
}

TEST(VisibleGpusTest, EachVisibilityGivesItsShare) {
  const Strings four = {"4", "5", "6", "7"};
  EXPECT_EQ(VisibleGpus(GpuVisibility::kInherited, four, 0, 2), "");
  EXPECT_EQ(VisibleGpus(GpuVisibility::kHost, four, 1, 2), "4,5,6,7");
  EXPECT_EQ(VisibleGpus(GpuVisibility::kRank, four, 0, 4), "4");
  EXPECT_EQ(VisibleGpus(GpuVisibility::kRank, four, 3, 4), "7");
  EXPECT_EQ(VisibleGpus(GpuVisibility::kRank, four, 1, 2), "6,7");
  EXPECT_EQ(VisibleGpus(GpuVisibility::kRank, four, 2, 3), "6") << "one is left over";
  EXPECT_EQ(VisibleGpus(GpuVisibility::kRank, {"0", "1"}, 2, 4), "1") << "two workers share it";
  EXPECT_EQ(VisibleGpus(GpuVisibility::kHost, {}, 0, 1), "");
  EXPECT_EQ(VisibleGpus(GpuVisibility::kRank, four, 9, 4), "5") << "never out of range";
}

wire::StartGeneration Start(bool is_on_own, GpuVisibility visibility) {
  wire::StartGeneration start;
  start.size = start.local_size = 2;
  start.is_on_own_environment = is_on_own;
  start.gpu_visibility = visibility;
  start.environment = {"OMP_NUM_THREADS=4", "PATH=/mine", "CUDA_VISIBLE_DEVICES=9"};
  return start;
}

std::vector<std::string> ValuesOf(const wire::StartGeneration& start, const NodeShare& node,
                                  const std::string& name, int local_rank = 1) {
  const GangEnvironment environment(start, "job", 1, node);
  Strings entries = environment.shared();
  for (auto& own : environment.ForWorker({local_rank, local_rank, 0, 1}, 1)) entries.push_back(own);
  Strings values;
  for (const std::string& entry : entries) {
    if (entry.starts_with(name + "=")) values.push_back(entry.substr(name.size() + 1));
  }
  return values;
}

TEST(NodeShareTest, JobsVariablesGoOverThoseOfTheNode) {
  const NodeShare node{{"PATH=/node", "HOME=/root", "HOROVOD_RANK=7"}, {}};
  const auto start = Start(true, GpuVisibility::kInherited);
  EXPECT_EQ(ValuesOf(start, node, "PATH"), Strings{"/mine"});
  EXPECT_EQ(ValuesOf(start, node, "HOME"), Strings{"/root"});
  EXPECT_EQ(ValuesOf(start, node, "OMP_NUM_THREADS"), Strings{"4"});
  EXPECT_EQ(ValuesOf(start, node, "HOROVOD_RANK"), Strings{"1"}) << "slot variables always win";
}

TEST(NodeShareTest, ARankThatTheNodeInheritedFromSrunIsNoWorkers) {
  const NodeShare node{{"SLURM_PROCID=3", "OMPI_COMM_WORLD_RANK=3", "RANK=3", "SLURM_JOB_ID=7"},
                       {}};
  auto start = Start(true, GpuVisibility::kInherited);
  EXPECT_EQ(ValuesOf(start, node, "SLURM_PROCID"), Strings{});
  EXPECT_EQ(ValuesOf(start, node, "OMPI_COMM_WORLD_RANK"), Strings{});
  EXPECT_EQ(ValuesOf(start, node, "RANK"), Strings{"1"});
  EXPECT_EQ(ValuesOf(start, node, "SLURM_JOB_ID"), Strings{"7"});
  start.environment.emplace_back("SLURM_PROCID=9");
  EXPECT_EQ(ValuesOf(start, node, "SLURM_PROCID"), Strings{"9"}) << "the user's own";
  start.environment.pop_back();
  start.keeps_rank_variables = true;
  EXPECT_EQ(ValuesOf(start, node, "SLURM_PROCID"), Strings{"3"});
  EXPECT_EQ(ValuesOf(start, node, "RANK"), Strings{"1"});
}

TEST(WithoutRayTest, OurOwnPackageAmongTheModulesIsNobodys) {
  const std::string directory = "/run/runtime_resources/py_modules_files";
  EXPECT_EQ(
      WithoutRay({"PYTHONPATH=/run/runtime_resources/working_dir_files/s3_b_x:" + directory +
                  "/hvdray_0123:" + directory + "/hvdray_job_1:" + directory + "/hvdray_mod_4567"},
                 RayNames::kDropped),
      Strings{"PYTHONPATH=/run/runtime_resources/working_dir_files/s3_b_x:" + directory +
              "/hvdray_mod_4567"});
}

TEST(NodeShareTest, RaysOwnPythonIsTheLastOnThePath) {
  const NodeShare node{{"PATH=/node:/bin"}, {}, "/ray/bin/python3"};
  auto start = Start(true, GpuVisibility::kInherited);
  EXPECT_EQ(ValuesOf(start, node, "PATH"), Strings{"/mine:/ray/bin"});
  start.environment.clear();
  EXPECT_EQ(ValuesOf(start, node, "PATH"), Strings{"/node:/bin:/ray/bin"});
  EXPECT_EQ(WithPathEnd("PATH=/ray/bin:/bin", "/ray/bin"), "PATH=/ray/bin:/bin");
  EXPECT_EQ(WithPathEnd("PATH=/bin", ""), "PATH=/bin");
}

TEST(NodeShareTest, OtherJobsSeeNothingOfTheNode) {
  const NodeShare node{{"HOME=/root"}, {}};
  EXPECT_EQ(ValuesOf(Start(false, GpuVisibility::kInherited), node, "HOME"), Strings{});
}

TEST(NodeShareTest, GpusOfRayBeatWhateverElseSaysWhichToUse) {
  const NodeShare node{{"CUDA_VISIBLE_DEVICES=0,1,2,3"}, {"2", "3"}};
  const std::string name = "CUDA_VISIBLE_DEVICES";
  EXPECT_EQ(ValuesOf(Start(true, GpuVisibility::kRank), node, name), Strings{"3"});
  EXPECT_EQ(ValuesOf(Start(true, GpuVisibility::kHost), node, name), Strings{"2,3"});
  EXPECT_EQ(ValuesOf(Start(true, GpuVisibility::kInherited), node, name), Strings{"9"});
  EXPECT_EQ(ValuesOf(Start(true, GpuVisibility::kRank), {node.environment, {}}, name), Strings{"9"})
      << "no GPU was asked for: nothing is touched";
}

TEST(NodeShareTest, WhereRayNamesGpusByHipTheWorkersShareIsNamedByItToo) {
  const NodeShare node{{"HIP_VISIBLE_DEVICES=2,3", "HIP_VISIBLE_DEVICES_NOT=1"}, {"2", "3"}};
  const std::string name = "HIP_VISIBLE_DEVICES";
  EXPECT_EQ(ValuesOf(Start(true, GpuVisibility::kRank), node, name), Strings{"3"});
  EXPECT_EQ(ValuesOf(Start(true, GpuVisibility::kHost), node, name), Strings{"2,3"});
  EXPECT_EQ(ValuesOf(Start(true, GpuVisibility::kRank), node, "CUDA_VISIBLE_DEVICES"),
            Strings{"3"});
  EXPECT_EQ(ValuesOf(Start(true, GpuVisibility::kInherited), node, name), Strings{"2,3"});
  EXPECT_EQ(ValuesOf(Start(true, GpuVisibility::kRank), {{}, {"2", "3"}}, name), Strings{})
      << "nobody reads it there";
}

}  // namespace
}  // namespace hvdray
