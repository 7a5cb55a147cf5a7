// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <set>

#include "launcher/job/argv.h"
#include "launcher/job/horovod_options.h"
#include "launcher/job/option_table.h"
#include "tests/unit/spec/spec_test_support.h"

namespace hvdray {
namespace {

Status StatusOf(const std::string& line) { return ParseArgv(Words(line)).status(); }

TEST(ForeignOptionsTest, OtherLaunchersOptionsGetAHintThatNamesOurs) {
  const std::vector<std::pair<std::string, std::string>> cases = {
      {"--nproc_per_node 4", "-H localhost:N"},
      {"--nproc-per-node=4", "-H localhost:N"},
      {"-N 4", "-H localhost:N"},
      {"-npernode 4", "-H localhost:N"},
      {"--ntasks-per-node 4", "-H localhost:N"},
      {"--nnodes 2", "-H a:4,b:4"},
      {"--node_rank=1", "-H a:4,b:4"},
      {"--rdzv_backend c10d", "--master-port"},
      {"--bind-to core", "taskset"},
      {"--mca btl tcp", "-x NAME=VALUE"},
      {"-machinefile x", "--hostfile"},
      {"-wdir x", "--cwd"},
      {"--ray --ray-mode jobs", "placement group"},
      {"-m train", "python -m MODULE"},
      {"--no-python", "leave it out"},
      {"-l", "--tag-output"},
      {"--gres=gpu:4", "LOCAL_RANK"},
      {"--gpus-per-task 1", "LOCAL_RANK"},
      {"--export=ALL,A=1", "-x NAME=VALUE"},
  };
  for (const auto& [line, hint] : cases) {
    const Status status = StatusOf(line + " ./t");
    EXPECT_EQ(status.code(), ErrorCode::kUsage) << line;
    EXPECT_NE(status.message().find("unknown option '-"), std::string::npos) << line;
    EXPECT_NE(status.hint().find(hint), std::string::npos) << line << ": " << status.hint();
  }
}

TEST(ForeignOptionsTest, ABeginningOfOursThatIsAWholeOneThereGetsTheHintToo) {
  EXPECT_NE(StatusOf("--n 4 ./t").hint().find("-np N"), std::string::npos);
  EXPECT_NE(StatusOf("--host a ./t").hint().find("-H a:4"), std::string::npos);
  EXPECT_EQ(StatusOf("--ver ./t").hint(), "");
}

TEST(ForeignOptionsTest, OurOwnSpellingsAreNobodyElses) {
  for (const Spelling& spelling : AllSpellings()) {
    if (spelling.text == "-n") continue;  // the same here: only --n is not
    EXPECT_EQ(HintForForeignOption(spelling.text), "") << spelling.text;
  }
  EXPECT_EQ(HintForForeignOption("--"), "");
  EXPECT_EQ(HintForForeignOption(""), "");
}

TEST(ForeignOptionsTest, HintsNameOptionsThatExist) {
  std::set<std::string> known;
  for (const Spelling& spelling : AllSpellings()) known.emplace(spelling.text);
  for (const char* option :
       {"--n", "--ppn", "--nnodes", "--node-rank", "--rdzv-id", "--genv", "--machinefile", "--wd",
        "--map-by", "--mca", "--gres", "--label", "--export", "--time", "--display-map", "--tee",
        "--allow-run-as-root"}) {
    const std::string_view hint = HintForForeignOption(option);
    EXPECT_NE(hint, "") << option;
    for (std::string word : Words(std::string(hint))) {
      while (word.ends_with(':') || word.ends_with(',') || word.ends_with(';')) word.pop_back();
      EXPECT_TRUE(!word.starts_with('-') || known.contains(word)) << option << ": " << word;
    }
  }
}

}  // namespace
}  // namespace hvdray
