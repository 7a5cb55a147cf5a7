// SPDX-License-Identifier: Apache-2.0
// The section `run` of a cluster file: checked without hosts, and described for editors.
#include <gtest/gtest.h>

#include <string>

#include "base/yaml.h"
#include "launcher/job/option_layers.h"
#include "launcher/job/option_table.h"
#include "launcher/job/run_schema.h"
#include "launcher/job/spec_builder.h"
#include "tests/fakes/fault_catalogue.h"

namespace hvdray {
namespace {

Status Checked(const std::string& text) {
  const Result<YamlNode> run = ParseYaml(text, "c.yaml");
  EXPECT_TRUE(run.ok()) << run.status().ToString();
  return CheckRunSection(*run);
}

TEST(RunSectionTest, EveryKindOfOptionIsTaken) {
  const Status status = Checked(
      "command: [python, train.py]\nnp: 4\ngrace: 30s\ncolor: never\nenv: {A: "
      "b}\ntimeline_mark_cycles: "
      "true\ncycle_time_ms: 3.5\nmin_np: 2\nblacklist_cooldown_range: [1, 10]\nno_torch_env: "
      "true\n");
  EXPECT_TRUE(status.ok()) << status.ToString();
  EXPECT_TRUE(Checked("{}").ok()) << "a job may be on the command line";
}

TEST(RunSectionTest, WhatIsWrongIsNamedAtItsPlace) {
  const std::pair<const char*, ErrorCode> rows[] = {
      {"np: 0\n", ErrorCode::kSpecInvalid},
      {"np: two\n", ErrorCode::kSpecInvalid},
      {"nump: 2\n", ErrorCode::kSpecInvalid},
      {"grace: soon\n", ErrorCode::kUsage},
      {"color: purple\n", ErrorCode::kUsage},
      {"heartbeat_timeout: 1\n", ErrorCode::kUsage},
      {"blacklist_cooldown_range: [9, 1]\n", ErrorCode::kUsage},
      {"fusion_threshold_mb: many\n", ErrorCode::kSpecInvalid},
      {"command: []\n", ErrorCode::kSpecInvalid},
      {"hosts: 'a:1'\n", ErrorCode::kSpecInvalid},
      {"mpi: true\n", ErrorCode::kNotSupported},
  };
  for (const auto& [text, code] : rows) {
    const Status status = Checked(text);
    EXPECT_EQ(status.code(), code) << text << status.ToString();
    EXPECT_TRUE(status.message().starts_with("c.yaml:1:")) << status.ToString();
  }
}

TEST(RunSectionTest, TheSchemaHasEveryKeyThatMayStandThere) {
  const Json schema = RunSectionSchema();
  const Json& properties = schema["properties"];
  EXPECT_TRUE(properties.contains("command"));
  EXPECT_FALSE(properties.contains("hosts")) << "they come from the cluster file";
  for (const OptionKey& key : AllKeys()) {
    const bool is_allowed = WhyNotInFile(key.row->id, FileKind::kClusterRun).empty();
    EXPECT_EQ(properties.contains(key.text), is_allowed) << key.text;
  }
  EXPECT_EQ(properties["np"]["maximum"], 65536);
  EXPECT_EQ(properties["clean_env"]["type"], "boolean");
  EXPECT_EQ(schema["additionalProperties"], false);
}

}  // namespace
}  // namespace hvdray
