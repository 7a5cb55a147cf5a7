// SPDX-License-Identifier: Apache-2.0
// The hosts of a batch job: what Slurm, PBS and LSF say. Not here: real batch systems.
#include "launcher/job/allocation.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <map>
#include <tuple>

#include "tests/fakes/fault_catalogue.h"

namespace hvdray {
namespace {

using Variables = std::map<std::string, std::string>;

const Variables kFiles = {
    {"/pbs/good", "n1\nn1\nn2\nn1\n\n  n2.x  \r\n"},
    {"/pbs/empty", "\n\n"},
    {"/pbs/bad", "n1\n  n2/x\n"},
    {"/pbs/words", "n1\nn1 n2\n"},
};

using Found = Result<std::optional<Setting<std::vector<HostSlots>>>>;

Found FindIn(const Variables& variables) {
  return FindAllocation(Environment(variables),
                        [](const std::string& path) -> Result<std::optional<std::string>> {
                          const auto found = kFiles.find(path);
                          if (found == kFiles.end()) return std::optional<std::string>();
                          return std::optional<std::string>(found->second);
                        });
}

std::string Shown(const Variables& variables) {
  const Found result = FindIn(variables);
  if (!result.ok()) return result.status().ToString();
  if (!*result) return "none";
  std::string out = (*result)->origin() + ":";
  for (const HostSlots& host : ***result) {
    out += fmt::format(" {}={}", host.host, host.slots);
  }
  return out;
}

void ExpectRefused(const Variables& variables, std::string_view origin) {
  std::string input;
  for (const auto& [name, value] : variables) input += fmt::format("{}={} ", name, value);
  ExpectFault(input, FindIn(variables).status(), ErrorCode::kSpecInvalid, origin);
}

TEST(AllocationTest, ThereIsNoneOutsideOfABatchJob) {
  EXPECT_EQ(Shown({}), "none");
  EXPECT_EQ(Shown({{"SLURM_JOB_NODELIST", ""}, {"PBS_NODEFILE", ""}, {"LSB_HOSTS", ""}}), "none");
  EXPECT_EQ(Shown({{"SLURM_TASKS_PER_NODE", "2"}, {"SLURM_CPUS_ON_NODE", "8"}}), "none");
}

TEST(AllocationTest, SlurmsTasksGoToItsHostsInOrder) {
  EXPECT_EQ(Shown({{"SLURM_JOB_NODELIST", "n[01-03],gpu1"}, {"SLURM_TASKS_PER_NODE", "2(x3),1"}}),
            "env SLURM_JOB_NODELIST: n01=2 n02=2 n03=2 gpu1=1");
  EXPECT_EQ(Shown({{"SLURM_JOB_NODELIST", "a"}, {"SLURM_TASKS_PER_NODE", "16"}}),
            "env SLURM_JOB_NODELIST: a=16");
  EXPECT_EQ(Shown({{"SLURM_JOB_NODELIST", "a,b[7,9]"}, {"SLURM_TASKS_PER_NODE", "4,2,1"}}),
            "env SLURM_JOB_NODELIST: a=4 b7=2 b9=1");
}

TEST(AllocationTest, SlurmsOtherCountsStandInForTasks) {
  Variables job = {{"SLURM_JOB_NODELIST", "n[1-2]"}, {"SLURM_JOB_CPUS_PER_NODE", "40,8"}};
  EXPECT_EQ(Shown(job), "env SLURM_JOB_NODELIST: n1=40 n2=8");
  job["SLURM_NTASKS_PER_NODE"] = "3";
  EXPECT_EQ(Shown(job), "env SLURM_JOB_NODELIST: n1=3 n2=3");
  job["SLURM_TASKS_PER_NODE"] = "1(x2)";
  EXPECT_EQ(Shown(job), "env SLURM_JOB_NODELIST: n1=1 n2=1");
  EXPECT_EQ(Shown({{"SLURM_JOB_NODELIST", "n1"}, {"SLURM_CPUS_ON_NODE", "8"}}),
            "env SLURM_JOB_NODELIST: n1=8");
  ExpectRefused({{"SLURM_JOB_NODELIST", "n[1-2]"}, {"SLURM_CPUS_ON_NODE", "8"}},
                "env SLURM_JOB_NODELIST");
}

TEST(AllocationTest, ASlurmVariableThatDoesNotParseIsNamedWithTheColumn) {
  const std::tuple<const char*, const char*, const char*> table[] = {
      {"n[1-2", "1", "env SLURM_JOB_NODELIST:2"},
      {"a,n[2-1]", "1", "env SLURM_JOB_NODELIST:5"},
      {"a,,b", "1", "env SLURM_JOB_NODELIST:3"},
      {"a,-b", "1", "env SLURM_JOB_NODELIST:3"},
      {"a,user@b", "1", "env SLURM_JOB_NODELIST:3"},
      {"a,n[1-100000]", "1", "env SLURM_JOB_NODELIST:3"},
      {"n[1-3],a,n[3-4]", "1", "env SLURM_JOB_NODELIST:10"},
      {"a,b", "2", "env SLURM_TASKS_PER_NODE:2"},
      {"a,b", "2(x2),1", "env SLURM_TASKS_PER_NODE:7"},
      {"a,b", "2(x65536)", "env SLURM_TASKS_PER_NODE:1"},
      {"a,b", "2,two", "env SLURM_TASKS_PER_NODE:3"},
  };
  for (const auto& [hosts, tasks, origin] : table) {
    ExpectRefused({{"SLURM_JOB_NODELIST", hosts}, {"SLURM_TASKS_PER_NODE", tasks}}, origin);
  }
  for (const char* tasks : {"2(x0)", "2(x)", "2(x2", "2(x2)1", "(x2)", "2x2", "-1", " 2", "2,",
                            ","
                            "65537",
                            "99999999999999999999", "2(x-1)", "2(x"}) {
    const Found result =
        FindIn({{"SLURM_JOB_NODELIST", "n[1-3]"}, {"SLURM_TASKS_PER_NODE", tasks}});
    EXPECT_EQ(result.status().code(), ErrorCode::kSpecInvalid) << tasks;
    EXPECT_TRUE(result.status().message().starts_with("env SLURM_TASKS_PER_NODE:")) << tasks;
  }
  ExpectRefused({{"SLURM_JOB_NODELIST", "a"}, {"SLURM_NTASKS_PER_NODE", "2(x2)"}},
                "env SLURM_NTASKS_PER_NODE:1");
  ExpectRefused({{"SLURM_JOB_NODELIST", "a"}, {"SLURM_CPUS_ON_NODE", "x"}},
                "env SLURM_CPUS_ON_NODE:1");
}

TEST(AllocationTest, AStepThatIsNarrowerThanItsSlurmJobCounts) {
  Variables step = {{"SLURM_JOB_NODELIST", "n[1-4]"},  {"SLURM_JOB_CPUS_PER_NODE", "8(x4)"},
                    {"SLURM_TASKS_PER_NODE", "2(x2)"}, {"SLURM_STEP_ID", "0"},
                    {"SLURM_STEP_NODELIST", "n[2,4]"}, {"SLURM_STEP_TASKS_PER_NODE", "2,1"}};
  EXPECT_EQ(Shown(step), "env SLURM_STEP_NODELIST: n2=2 n4=1");
  step["SLURM_STEP_TASKS_PER_NODE"] = "";
  EXPECT_EQ(Shown(step), "env SLURM_STEP_NODELIST: n2=2 n4=2") << "as srun sets it within a step";
  step["SLURM_TASKS_PER_NODE"] = "1,2,3,4";
  EXPECT_EQ(Shown(step), "env SLURM_STEP_NODELIST: n2=2 n4=4") << "the job's, by host";
  step.erase("SLURM_TASKS_PER_NODE");
  EXPECT_EQ(Shown(step), "env SLURM_STEP_NODELIST: n2=8 n4=8");
}

TEST(AllocationTest, AStepOfSlurmThatStandsForTheWholeJobOrIsOfAnotherSaysNothing) {
  Variables job = {{"SLURM_JOB_NODELIST", "n[1-2]"},
                   {"SLURM_TASKS_PER_NODE", "2(x2)"},
                   {"SLURM_STEP_NODELIST", "n1"},
                   {"SLURM_STEP_TASKS_PER_NODE", "1"}};
  for (const char* id : {"4294967290", "4294967291"}) {
    job["SLURM_STEP_ID"] = id;
    EXPECT_EQ(Shown(job), "env SLURM_JOB_NODELIST: n1=2 n2=2") << id;
  }
  job["SLURM_STEP_ID"] = "1";
  EXPECT_EQ(Shown(job), "env SLURM_STEP_NODELIST: n1=1");
  job["SLURM_STEP_NODELIST"] = "n[2-3]";
  EXPECT_EQ(Shown(job), "env SLURM_JOB_NODELIST: n1=2 n2=2") << "n3 is no host of this job";
  job["SLURM_STEP_NODELIST"] = "";
  EXPECT_EQ(Shown(job), "env SLURM_JOB_NODELIST: n1=2 n2=2");
  EXPECT_EQ(Shown({{"SLURM_STEP_NODELIST", "n1"}, {"SLURM_STEP_TASKS_PER_NODE", "1"}}), "none");
}

TEST(AllocationTest, AStepOfSlurmThatDoesNotParseIsNamedWithTheColumn) {
  const std::tuple<const char*, const char*, const char*> table[] = {
      {"n[1-", "1", "env SLURM_STEP_NODELIST:2"},
      {"n[1-2]", "1", "env SLURM_STEP_TASKS_PER_NODE:2"},
      {"n1", "2(x2)", "env SLURM_STEP_TASKS_PER_NODE:1"},
      {"n1", "two", "env SLURM_STEP_TASKS_PER_NODE:1"},
  };
  for (const auto& [hosts, tasks, origin] : table) {
    ExpectRefused({{"SLURM_JOB_NODELIST", "n[1-3]"},
                   {"SLURM_TASKS_PER_NODE", "1(x3)"},
                   {"SLURM_STEP_NODELIST", hosts},
                   {"SLURM_STEP_TASKS_PER_NODE", tasks}},
                  origin);
  }
  ExpectRefused({{"SLURM_JOB_NODELIST", "n[1-3]"}, {"SLURM_STEP_NODELIST", "n[1-2]"}},
                "env SLURM_JOB_NODELIST");
}

TEST(AllocationTest, APbsFileHasALineForEachSlot) {
  EXPECT_EQ(Shown({{"PBS_NODEFILE", "/pbs/good"}}), "env PBS_NODEFILE: n1=3 n2=1 n2.x=1");
}

TEST(AllocationTest, APbsFileThatDoesNotParseIsNamedWithThePlace) {
  ExpectRefused({{"PBS_NODEFILE", "/pbs/bad"}}, "env PBS_NODEFILE: /pbs/bad:2:3");
  ExpectRefused({{"PBS_NODEFILE", "/pbs/words"}}, "env PBS_NODEFILE: /pbs/words:2:4");
  ExpectRefused({{"PBS_NODEFILE", "/pbs/empty"}}, "env PBS_NODEFILE: /pbs/empty");
  ExpectFault("/pbs/none", FindIn({{"PBS_NODEFILE", "/pbs/none"}}).status(),
              ErrorCode::kFileUnreadable, "env PBS_NODEFILE");
}

TEST(AllocationTest, LsfNamesAHostForEachSlotOrCountsThem) {
  EXPECT_EQ(Shown({{"LSB_HOSTS", "a a  b a "}}), "env LSB_HOSTS: a=3 b=1");
  EXPECT_EQ(Shown({{"LSB_MCPU_HOSTS", "a 2 b 1 a 3 "}}), "env LSB_MCPU_HOSTS: a=5 b=1");
  EXPECT_EQ(Shown({{"LSB_HOSTS", "a"}, {"LSB_MCPU_HOSTS", "b 2"}}), "env LSB_HOSTS: a=1");
}

TEST(AllocationTest, AnLsfVariableThatDoesNotParseIsNamedWithTheColumn) {
  ExpectRefused({{"LSB_HOSTS", "a b/c"}}, "env LSB_HOSTS:3");
  ExpectRefused({{"LSB_HOSTS", "  "}}, "env LSB_HOSTS:1");
  ExpectRefused({{"LSB_MCPU_HOSTS", "a 2 b"}}, "env LSB_MCPU_HOSTS:6");
  ExpectRefused({{"LSB_MCPU_HOSTS", "a b"}}, "env LSB_MCPU_HOSTS:3");
  ExpectRefused({{"LSB_MCPU_HOSTS", "a 1 b! 1"}}, "env LSB_MCPU_HOSTS:5");
  ExpectRefused({{"LSB_MCPU_HOSTS", "a 65536 a 1"}}, "env LSB_MCPU_HOSTS:9");
}

TEST(AllocationTest, OneBatchSystemCountsWhereSeveralSpeak) {
  Variables all = {{"SLURM_JOB_NODELIST", "s"},
                   {"SLURM_TASKS_PER_NODE", "1"},
                   {"PBS_NODEFILE", "/pbs/good"},
                   {"LSB_HOSTS", "l"}};
  EXPECT_EQ(Shown(all), "env SLURM_JOB_NODELIST: s=1");
  all.erase("SLURM_JOB_NODELIST");
  EXPECT_EQ(Shown(all), "env PBS_NODEFILE: n1=3 n2=1 n2.x=1");
  all.erase("PBS_NODEFILE");
  EXPECT_EQ(Shown(all), "env LSB_HOSTS: l=1");
}

}  // namespace
}  // namespace hvdray
