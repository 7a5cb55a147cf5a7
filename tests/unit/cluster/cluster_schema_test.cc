// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <span>
#include <string>

#include "cluster/cluster_spec.h"

namespace hvdray {
namespace {

/// "" when accepted.
std::string ErrorOf(const std::string& text, std::vector<std::string>* warnings = nullptr,
                    std::string* hint = nullptr) {
  const Result<YamlNode> root = ParseYaml(text, "c.yaml");
  EXPECT_TRUE(root.ok()) << root.status().ToString();
  std::vector<std::string> ignored;
  const Status status = CheckClusterSchema(*root, warnings != nullptr ? *warnings : ignored);
  EXPECT_EQ(status.code(), status.ok() ? ErrorCode::kOk : ErrorCode::kSpecInvalid);
  if (hint != nullptr) *hint = status.hint();
  return status.message();
}

struct Row {
  const char* key;
  const char* good;
  const char* bad;
  const char* wanted;  ///< The message for `bad`, after the place.
};

/// Puts "key: value" where `before` ends and checks both values of each row.
void CheckRows(std::span<const Row> rows, const std::string& before, const std::string& place) {
  for (const Row& row : rows) {
    const std::string start = before + row.key + ": ";
    EXPECT_EQ(ErrorOf(start + row.good + "\n"), "") << row.key;
    const std::string error = ErrorOf(start + row.bad + "\n");
    EXPECT_TRUE(error.starts_with(place)) << row.key << ": " << error;
    EXPECT_TRUE(error.ends_with(row.wanted)) << row.key << ": " << error;
  }
}

TEST(ClusterSchemaTest, EveryTopLevelKeyHasItsType) {
  const Row rows[] = {
      {"cluster_name", "c", "[c]", "cluster_name is a list, not a string"},
      {"min_workers", "0", "-1", "min_workers is -1, not within 0 to 2147483647"},
      {"max_workers", "7", "two", "max_workers is a string (\"two\"), not an integer"},
      {"upscaling_speed", "1.5", "-0.5", "upscaling_speed is -0.5, but must be at least 0"},
      {"idle_timeout_minutes", "5", "five",
       "idle_timeout_minutes is a string (\"five\"), not a number"},
      {"auth", "{}", "[]", "auth is a list, not a map"},
      {"docker", "{}", "x", "docker is a plain value, not a map"},
      {"head_node_type", "head", "{}", "head_node_type is a map, not a string"},
      {"available_node_types", "{}", "[]", "available_node_types is a list, not a map"},
      {"file_mounts", "{/r: ./l, /n: 1}", "{/r: [x]}", "file_mounts./r is a list, not a string"},
      {"cluster_synced_files", "[a]", "a",
       "cluster_synced_files is a string (\"a\"), not a list of strings"},
      {"file_mounts_sync_continuously", "no", "0",
       "file_mounts_sync_continuously is a number (0), not true or false"},
      {"rsync_exclude", "['**/.git']", "{}", "rsync_exclude is a map, not a list of strings"},
      {"rsync_filter", "[]", "[[x]]", "rsync_filter[0] is a list, not a string"},
      {"metadata", "{any: [{thing: 1}]}", "3", "metadata is a plain value, not a map"},
      {"initialization_commands", "[a]", "[{a: b}]",
       "initialization_commands[0] is a map, not a string"},
      {"setup_commands", "[]", "pip",
       "setup_commands is a string (\"pip\"), not a list of strings"},
      {"head_setup_commands", "[a]", "", "head_setup_commands is empty, not a list of strings"},
      {"worker_setup_commands", "[a, b]", "[~]", "worker_setup_commands[0] is empty, not a string"},
      {"head_start_ray_commands", "[ray stop]", "1",
       "head_start_ray_commands is a number (1), not a list of strings"},
      {"worker_start_ray_commands", "[ray stop]", "{}",
       "worker_start_ray_commands is a map, not a list of strings"},
      {"no_restart", "true", "[]", "no_restart is a list, not true or false"},
      {"hvdray", "{}", "4", "hvdray is a plain value, not a map"},
      {"head_node", "{InstanceType: m5.large}", "m5.large",
       "head_node is a plain value, not a map"},
      {"worker_nodes", "{}", "[]", "worker_nodes is a list, not a map"},
      {"initial_workers", "1", "x", "initial_workers is a string (\"x\"), not an integer"},
      {"autoscaling_mode", "default", "[]", "autoscaling_mode is a list, not a string"},
      {"target_utilization_fraction", "0.8", "x",
       "target_utilization_fraction is a string (\"x\"), not a number"},
      {"worker_default_node_type", "w", "{}", "worker_default_node_type is a map, not a string"},
  };
  CheckRows(rows, "provider: {type: local}\n", "c.yaml:2:");
}

TEST(ClusterSchemaTest, EveryKeyOfAuthAndDockerHasItsType) {
  const Row auth[] = {
      {"ssh_user", "u", "[]", "auth.ssh_user is a list, not a string"},
      {"ssh_private_key", "~/.ssh/id", "{}", "auth.ssh_private_key is a map, not a string"},
      {"ssh_public_key", "k", "", "auth.ssh_public_key is empty, not a string"},
      {"ssh_proxy_command", "ssh -W %h:%p j", "[]",
       "auth.ssh_proxy_command is a list, not a string"},
      {"ssh_proxy_use_node_id", "true", "maybe",
       "auth.ssh_proxy_use_node_id is a string (\"maybe\"), not true or false"},
  };
  CheckRows(auth, "provider: {type: local}\nauth:\n  ", "c.yaml:3:");
  const Row docker[] = {
      {"image", "i", "[]", "docker.image is a list, not a string"},
      {"container_name", "''", "{}", "docker.container_name is a map, not a string"},
      {"pull_before_run", "false", "'false'",
       "docker.pull_before_run is a quoted string (\"false\"), not true or false"},
      {"run_options", "[--ipc=host]", "--ipc",
       "docker.run_options is a string (\"--ipc\"), not a list of strings"},
      {"head_image", "i", "[]", "docker.head_image is a list, not a string"},
      {"head_run_options", "[]", "{}", "docker.head_run_options is a map, not a list of strings"},
      {"worker_image", "i", "[]", "docker.worker_image is a list, not a string"},
      {"worker_run_options", "[]", "{}",
       "docker.worker_run_options is a map, not a list of strings"},
      {"disable_automatic_runtime_detection", "true", "1",
       "docker.disable_automatic_runtime_detection is a number (1), not true or false"},
      {"disable_shm_size_detection", "on", "1",
       "docker.disable_shm_size_detection is a number (1), not true or false"},
      {"use_podman", "true", "[]", "docker.use_podman is a list, not true or false"},
  };
  CheckRows(docker, "provider: {type: local}\ndocker:\n  ", "c.yaml:3:");
}

TEST(ClusterSchemaTest, EveryKnownKeyOfTheProviderHasItsType) {
  const Row rows[] = {
      {"module", "m", "[]", "provider.module is a list, not a string"},
      {"use_internal_ips", "true", "x",
       "provider.use_internal_ips is a string (\"x\"), not true or false"},
      {"use_external_head_ip", "true", "1",
       "provider.use_external_head_ip is a number (1), not true or false"},
      {"disable_node_updaters", "true", "1",
       "provider.disable_node_updaters is a number (1), not true or false"},
      {"disable_launch_config_check", "no", "1",
       "provider.disable_launch_config_check is a number (1), not true or false"},
      {"foreground_node_launch", "no", "1",
       "provider.foreground_node_launch is a number (1), not true or false"},
      {"worker_liveness_check", "no", "1",
       "provider.worker_liveness_check is a number (1), not true or false"},
      {"head_ip", "10.0.0.1", "[a]", "provider.head_ip is a list, not a string"},
      {"worker_ips", "[a, b]", "a,b",
       "provider.worker_ips is a string (\"a,b\"), not a list of strings"},
      {"external_head_ip", "a", "{}", "provider.external_head_ip is a map, not a string"},
      {"coordinator_address", "a:1", "{}", "provider.coordinator_address is a map, not a string"},
      {"region", "us-west-2", "[]", "provider.region is a list, not a string"},
      {"availability_zone", "a,b", "[a]", "provider.availability_zone is a list, not a string"},
      {"cache_stopped_nodes", "false", "0",
       "provider.cache_stopped_nodes is a number (0), not true or false"},
      {"key_pair", "{key_name: k, more: 1}", "{key_name: []}",
       "provider.key_pair.key_name is a list, not a string"},
      {"security_group", "{GroupName: g, IpPermissions: [{FromPort: 22}]}", "{IpPermissions: {}}",
       "provider.security_group.IpPermissions is a map, not a list"},
      {"aws_credentials", "{profile_name: p}", "p",
       "provider.aws_credentials is a plain value, not a map"},
      {"cloudwatch", "{agent: {}}", "[]", "provider.cloudwatch is a list, not a map"},
  };
  CheckRows(rows, "provider:\n  type: aws\n  ", "c.yaml:3:");
}

TEST(ClusterSchemaTest, EveryKeyOfANodeTypeHasItsType) {
  const Row rows[] = {
      {"resources", "{CPU: 4, memory: 8589934592}", "{CPU: 0.5}",
       "available_node_types.n.resources.CPU is a number (0.5), not an integer"},
      {"min_workers", "1", "-1",
       "available_node_types.n.min_workers is -1, not within 0 to 2147483647"},
      {"max_workers", "1", "x",
       "available_node_types.n.max_workers is a string (\"x\"), not an integer"},
      {"idle_timeout_s", "null", "-1",
       "available_node_types.n.idle_timeout_s is -1, but must be at least 0"},
      {"priority", "-5", "1.5",
       "available_node_types.n.priority is a number (1.5), not an integer"},
      {"labels", "{a: b}", "{a: []}", "available_node_types.n.labels.a is a list, not a string"},
      {"initialization_commands", "[a]", "a",
       "available_node_types.n.initialization_commands is a string (\"a\"), not a list of strings"},
      {"worker_setup_commands", "[]", "{}",
       "available_node_types.n.worker_setup_commands is a map, not a list of strings"},
      {"docker", "{worker_image: i, worker_run_options: [], pull_before_run: no}", "{image: i}",
       "unknown key 'image' in available_node_types.n.docker"},
  };
  CheckRows(rows, "provider: {type: aws}\navailable_node_types:\n n:\n  node_config: {}\n  ",
            "c.yaml:5:");
  EXPECT_EQ(ErrorOf("provider: {type: aws}\navailable_node_types: {n: {}}\n"),
            "c.yaml:2:27: available_node_types.n.node_config is missing");
  EXPECT_EQ(ErrorOf("provider: {type: aws}\navailable_node_types: {n: {node_config: []}}\n"),
            "c.yaml:2:41: available_node_types.n.node_config is a list, not a map");
  EXPECT_EQ(ErrorOf("provider: {type: aws}\navailable_node_types: {n: 3}\n"),
            "c.yaml:2:27: available_node_types.n is a plain value, not a map");
}

TEST(ClusterSchemaTest, EveryKeyOfOurSectionHasItsType) {
  const Row rows[] = {
      {"slots_per_host", "4", "0", "hvdray.slots_per_host is 0, not within 1 to 65536"},
      {"slots_per_host", "65536", "65537", "hvdray.slots_per_host is 65537, not within 1 to 65536"},
      {"run", "{np: 4, whatever: [1]}", "python train.py",
       "hvdray.run is a plain value, not a map"},
  };
  CheckRows(rows, "provider: {type: local}\nhvdray:\n  ", "c.yaml:3:");
}

TEST(ClusterSchemaTest, UnknownKeysAreRefusedWithTheNearestOne) {
  std::string hint;
  EXPECT_EQ(ErrorOf("provider: {type: local}\nmax_worker: 2\n", nullptr, &hint),
            "c.yaml:2:1: unknown key 'max_worker'");
  EXPECT_EQ(hint, "did you mean max_workers?");
  EXPECT_EQ(ErrorOf("provider: {type: local}\nauth: {ssh_usr: u}\n", nullptr, &hint),
            "c.yaml:2:8: unknown key 'ssh_usr' in auth");
  EXPECT_EQ(hint, "did you mean ssh_user?");
  EXPECT_EQ(ErrorOf("provider: {type: local}\nhvdray: {qqqqqqqq: 1}\n", nullptr, &hint),
            "c.yaml:2:10: unknown key 'qqqqqqqq' in hvdray");
  EXPECT_EQ(hint, "keys are slots_per_host, run");
  EXPECT_EQ(ErrorOf("provider: {type: aws, security_group: {Name: g}}\n"),
            "c.yaml:1:40: unknown key 'Name' in provider.security_group");
}

TEST(ClusterSchemaTest, UnknownKeysAreAcceptedWhereAProviderHasItsOwn) {
  EXPECT_EQ(ErrorOf("provider: {type: gcp, project_id: p, key_pair: {x: 1}}\n"), "");
  EXPECT_EQ(
      ErrorOf("provider: {type: aws}\nhead_node: {Anything: [goes]}\nmetadata: {x: {y: z}}\n"), "");
}

TEST(ClusterSchemaTest, TheFileIsAMapWithAProviderAndItsType) {
  EXPECT_EQ(ErrorOf(""), "c.yaml:1:1: the file is empty, not a map");
  EXPECT_EQ(ErrorOf("- a\n"), "c.yaml:1:1: the file is a list, not a map");
  EXPECT_EQ(ErrorOf("text"), "c.yaml:1:1: the file is a plain value, not a map");
  EXPECT_EQ(ErrorOf("cluster_name: c\n"), "c.yaml:1:1: provider is missing");
  EXPECT_EQ(ErrorOf("provider: {region: r}\n"), "c.yaml:1:11: provider.type is missing");
  EXPECT_EQ(ErrorOf("provider:\n"), "c.yaml:1:1: provider is empty, not a map");
}

TEST(ClusterSchemaTest, OldKeysGiveOneWarningEach) {
  std::vector<std::string> warnings;
  EXPECT_EQ(
      ErrorOf("provider: {type: aws}\nautoscaling_mode: default\ntarget_utilization_fraction: 0.8\n"
              "worker_default_node_type: w\nhead_node: {a: b}\nworker_nodes: {a: b}\n",
              &warnings),
      "");
  EXPECT_EQ(
      warnings,
      (std::vector<std::string>{
          "c.yaml:2:1: autoscaling_mode is from older Ray versions and has no effect",
          "c.yaml:3:1: target_utilization_fraction is from older Ray versions and has no effect",
          "c.yaml:4:1: worker_default_node_type is from older Ray versions and has no effect",
          "c.yaml:5:1: head_node is from older Ray versions: treated as a type of "
          "available_node_types",
          "c.yaml:6:1: worker_nodes is from older Ray versions: treated as a type of "
          "available_node_types"}));
  warnings.clear();
  EXPECT_EQ(ErrorOf("provider: {type: aws}\nhead_node: {}\nworker_nodes: {}\n", &warnings), "");
  EXPECT_TRUE(warnings.empty()) << "empty, they say nothing";
}

TEST(ClusterSchemaTest, LongAndStrangeNamesStayShortInMessages) {
  const std::string name(100'000, 'n');
  EXPECT_LT(ErrorOf("provider: {type: aws}\n? " + name + "\n: 1\n").size(), 150U);
  EXPECT_LT(ErrorOf("provider: {type: aws}\nfile_mounts:\n  ? " + name + "\n  : []\n").size(),
            150U);
  EXPECT_EQ(ErrorOf("provider: {type: aws}\n\"a\\nb\": 1\n"), "c.yaml:2:1: unknown key 'a\\x0ab'");
}

}  // namespace
}  // namespace hvdray
