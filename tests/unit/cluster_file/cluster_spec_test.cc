// SPDX-License-Identifier: Apache-2.0
// Cluster files: the schema of every key, node types, the local provider, and what they become. Not
// here: the run section (tests/unit/spec), the providers themselves (tests/unit/host_sources).
#include "cluster/file/cluster_spec.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <map>
#include <span>
#include <string>

#include "base/fd.h"
#include "base/yaml_writer.h"
#include "cluster/file/cluster_schema.h"
#include "tests/fakes/fault_catalogue.h"

namespace hvdray {
namespace {

const auto* const kCatalogue = FaultCatalogue::Install("tests/golden/messages/cluster.txt");

Result<ClusterSpec> Parsed(const std::string& text) { return ParseClusterSpec(text, "c.yaml"); }

std::string LocalText(const std::string& keys, const std::string& rest = "") {
  return "provider: {type: local, " + keys + "}\n" + rest;
}

Result<ClusterSpec> Local(const std::string& keys, const std::string& rest = "") {
  return Parsed(LocalText(keys, rest));
}

std::string AwsText(const std::string& text) { return "provider: {type: aws}\n" + text; }

Result<ClusterSpec> Aws(const std::string& text) { return Parsed(AwsText(text)); }

/// Returns the hint.
std::string ExpectRefused(const std::string& text, std::string_view place) {
  const Status status = Parsed(text).status();
  ExpectFault(text, status, ErrorCode::kSpecInvalid, place);
  return status.hint();
}

std::string HostsOf(const Result<ClusterSpec>& spec, int default_slots = 2) {
  if (!spec.ok()) return spec.status().message();
  const Result<std::vector<ClusterHost>> hosts = ToClusterHosts(*spec, default_slots);
  if (!hosts.ok()) {
    EXPECT_EQ(hosts.status().code(), ErrorCode::kNotSupported);
    return hosts.status().message();
  }
  std::string out;
  for (const ClusterHost& host : *hosts) out += fmt::format("{}={} ", host.address, host.slots);
  return out;
}

/// "name:min..max" of each type, or the fault.
std::string TypesOf(const Result<ClusterSpec>& spec) {
  if (!spec.ok()) return spec.status().ToString();
  std::string out =
      fmt::format("{}..{} head={}", spec->min_workers, spec->max_workers, spec->head_node_type);
  for (const ClusterNodeType& type : spec->node_types) {
    out += fmt::format(" {}:{}..{}", type.name, type.min_workers, type.max_workers);
  }
  return out;
}

Status CheckSchema(const std::string& text, std::vector<std::string>* warnings = nullptr) {
  const Result<YamlNode> root = ParseYaml(text, "c.yaml");
  EXPECT_TRUE(root.ok()) << root.status().ToString();
  std::vector<std::string> ignored;
  return CheckClusterSchema(*root, warnings != nullptr ? *warnings : ignored);
}

/// Returns the hint.
std::string ExpectBadSchema(const std::string& text, std::string_view place) {
  const Status status = CheckSchema(text);
  ExpectFault(text, status, ErrorCode::kSpecInvalid, place);
  return status.hint();
}

struct Row {
  const char* key;
  const char* good;
  const char* bad;
  const char* path;  ///< The key that the message for `bad` names.
};

/// Puts "key: value" where `before` ends and checks both values of each row.
void CheckRows(std::span<const Row> rows, const std::string& before, const std::string& line) {
  for (const Row& row : rows) {
    const std::string start = before + row.key + ": ";
    EXPECT_TRUE(CheckSchema(start + row.good + "\n").ok()) << row.key;
    const std::string text = start + row.bad + "\n";
    const Status status = CheckSchema(text);
    ExpectFault(text, status, ErrorCode::kSpecInvalid);
    EXPECT_TRUE(status.message().starts_with(line)) << status.ToString();
    EXPECT_NE(status.message().find(row.path), std::string::npos) << status.ToString();
  }
}

TEST(ClusterSpecTest, ALocalClusterIsItsHeadAndItsWorkers) {
  const Result<ClusterSpec> spec =
      Local("head_ip: 10.0.0.1, worker_ips: [10.0.0.2, node-3]", "hvdray: {slots_per_host: 4}\n");
  EXPECT_EQ(HostsOf(spec), "10.0.0.1=4 10.0.0.2=4 node-3=4 ");
  EXPECT_EQ(spec->min_workers, 2);
  EXPECT_EQ(spec->max_workers, 2);
  EXPECT_TRUE(spec->warnings.empty());
  EXPECT_EQ(spec->cluster_name, "default");
}

TEST(ClusterSpecTest, SlotsComeFromTheCallerWhenTheFileSaysNothing) {
  EXPECT_EQ(HostsOf(Local("head_ip: 127.0.0.1, worker_ips: []"), 8), "127.0.0.1=8 ");
}

TEST(ClusterSpecTest, TheRunSectionIsKeptForTheResolver) {
  const Result<ClusterSpec> spec =
      Local("head_ip: a, worker_ips: []", "hvdray:\n  run:\n    np: 4\n    command: [x]\n");
  ASSERT_TRUE(spec.ok());
  ASSERT_TRUE(spec->run.has_value());
  EXPECT_EQ(spec->run->Find("np")->Where(), "c.yaml:4:9");
  EXPECT_FALSE(Local("head_ip: a, worker_ips: []")->run.has_value());
}

TEST(ClusterSpecTest, ALocalClusterNeedsItsAddresses) {
  ExpectRefused(LocalText("worker_ips: [a]"), "c.yaml:1:11");
  const std::string hint = ExpectRefused(LocalText("head_ip: a"), "c.yaml:1:11");
  EXPECT_NE(hint.find("worker_ips: []"), std::string::npos) << hint;
}

TEST(ClusterSpecTest, AddressesAreNamesOrNumbersAndNothingElse) {
  for (const char* address : {"10.0.0.1", "node-1.example.com", "fe80::1", "node_1"}) {
    EXPECT_TRUE(Local(fmt::format("head_ip: '{}', worker_ips: []", address)).ok()) << address;
  }
  for (const char* address : {"-oProxyCommand=x", "a b", "user@host", "a;b", "$(x)", "", "[::1]",
                              "host:22", "fe80::1::2"}) {
    ExpectRefused(LocalText(fmt::format("head_ip: '{}', worker_ips: []", address)), "c.yaml:1:34");
    ExpectRefused(LocalText(fmt::format("head_ip: a, worker_ips: ['{}']", address)), "c.yaml:1:50");
  }
  ExpectRefused(LocalText("head_ip: a, worker_ips: [], external_head_ip: -x"), "c.yaml:1:71");
  EXPECT_EQ(Local("head_ip: a, worker_ips: [], external_head_ip: b")->external_head_ip, "b");
}

TEST(ClusterSpecTest, EachHostIsListedOnce) {
  ExpectRefused(LocalText("head_ip: a, worker_ips: [b, c, b]"), "c.yaml:1:56");
  ExpectRefused(LocalText("head_ip: a, worker_ips: [a]"), "c.yaml:1:50");
}

TEST(ClusterSpecTest, WorkerCountsAreCappedAtTheAddresses) {
  const Result<ClusterSpec> spec =
      Local("head_ip: a, worker_ips: [b]", "min_workers: 3\nmax_workers: 4\n");
  ASSERT_TRUE(spec.ok()) << spec.status().ToString();
  EXPECT_EQ(spec->min_workers, 1);
  EXPECT_EQ(spec->max_workers, 1);
  ExpectWarnings("one address, min_workers: 3, max_workers: 4", spec->warnings,
                 {"c.yaml:3:14", "c.yaml:2:14"});
}

TEST(ClusterSpecTest, MaxWorkersLeavesTheLastWorkersOut) {
  const Result<ClusterSpec> spec = Local("head_ip: a, worker_ips: [b, c, d]", "max_workers: 1\n");
  EXPECT_EQ(HostsOf(spec), "a=2 b=2 ");
  ExpectWarnings("three addresses, max_workers: 1", spec->warnings, {"c.yaml:2:14"});
  EXPECT_EQ(HostsOf(Local("head_ip: a, worker_ips: [b]", "max_workers: 0\n")), "a=2 ");
  ExpectRefused(LocalText("head_ip: a, worker_ips: [b, c]", "max_workers: 1\nmin_workers: 2\n"),
                "c.yaml:3:14");
}

TEST(ClusterSpecTest, OldInitialWorkersRaiseTheMinimum) {
  const Result<ClusterSpec> spec =
      Local("head_ip: a, worker_ips: [b, c]", "min_workers: 0\ninitial_workers: 1\n");
  ASSERT_TRUE(spec.ok());
  EXPECT_EQ(spec->min_workers, 1);
  EXPECT_EQ(spec->warnings.size(), 1U);
}

TEST(ClusterSpecTest, NodeTypesDoNotGoWithALocalCluster) {
  const std::string addresses = "head_ip: a, worker_ips: []";
  ExpectRefused(LocalText(addresses, "available_node_types: {n: {node_config: {}}}\n"),
                "c.yaml:2:1");
  ExpectRefused(LocalText(addresses, "head_node: {a: b}\n"), "c.yaml:2:1");
  ExpectRefused(LocalText(addresses, "worker_nodes: {a: b}\n"), "c.yaml:2:1");
  EXPECT_TRUE(Local(addresses, "head_node: {}\nworker_nodes: {}\n").ok())
      << "as old examples have it";
}

TEST(ClusterSpecTest, HostsThatAreNotInTheFileAreSaidToBeElsewhere) {
  for (const char* provider :
       {"{type: local, coordinator_address: 10.0.0.1:8000}", "{type: gcp}"}) {
    const Result<ClusterSpec> spec =
        Parsed(fmt::format("provider: {}\nmax_workers: 2\n", provider));
    ASSERT_TRUE(spec.ok()) << spec.status().ToString();
    ExpectFault(provider, ToClusterHosts(*spec, 2).status(), ErrorCode::kNotSupported);
  }
}

TEST(ClusterSpecTest, ProviderTypesAreKnown) {
  for (const char* type : {"aws", "gcp", "azure", "vsphere", "aliyun", "kuberay", "readonly",
                           "spark", "fake_multinode", "fake_multinode_docker"}) {
    const Result<ClusterSpec> spec = Parsed(fmt::format("provider: {{type: {}}}\n", type));
    ASSERT_TRUE(spec.ok()) << spec.status().ToString();
    EXPECT_EQ(spec->provider_type, type);
  }
  const std::string hint = ExpectRefused("provider: {type: asw}\n", "c.yaml:1:18");
  EXPECT_NE(hint.find("aws?"), std::string::npos) << hint;
  ExpectRefused("provider: {type: external}\n", "c.yaml:1:11");
  EXPECT_TRUE(Parsed("provider: {type: external, module: my.provider}\n").ok());
}

TEST(ClusterSpecTest, AuthIsRead) {
  const Result<ClusterSpec> spec =
      Local("head_ip: a, worker_ips: []",
            "auth:\n  ssh_user: u\n  ssh_private_key: ~/.ssh/k\n  ssh_public_key: p\n"
            "  ssh_proxy_command: ssh -W %h:%p j\n  ssh_proxy_use_node_id: true\n");
  ASSERT_TRUE(spec.ok()) << spec.status().ToString();
  EXPECT_EQ(spec->auth.ssh_user, "u");
  EXPECT_EQ(spec->auth.ssh_private_key, "~/.ssh/k");
  EXPECT_EQ(spec->auth.ssh_public_key, "p");
  EXPECT_EQ(spec->auth.ssh_proxy_command, "ssh -W %h:%p j");
  EXPECT_TRUE(spec->auth.is_proxied_by_node_id);
  ExpectRefused("provider: {type: aws}\nauth: {ssh_proxy_use_node_id: true}\n", "c.yaml:2:31");
  EXPECT_TRUE(Parsed("provider: {type: aws}\nauth: {ssh_proxy_use_node_id: false}\n").ok());
}

TEST(ClusterSpecTest, DockerHasANameAndAnImageOrNeither) {
  const auto docker = [](const std::string& keys) { return AwsText("docker: {" + keys + "}\n"); };
  for (const char* keys : {"", "image: '', container_name: ''", "image: i, container_name: n",
                           "head_image: h, worker_image: w, container_name: n", "head_image: h",
                           "pull_before_run: no"}) {
    EXPECT_TRUE(Parsed(docker(keys)).ok()) << keys;
  }
  ExpectRefused(docker("container_name: n"), "c.yaml:2:9");
  ExpectRefused(docker("container_name: n, head_image: h"), "c.yaml:2:9");
  ExpectRefused(docker("image: i"), "c.yaml:2:9");
  ExpectRefused(docker("image: i, container_name: ''"), "c.yaml:2:9");
}

TEST(ClusterSpecTest, ATypesImageNeedsAContainer) {
  const std::string types =
      "head_node_type: h\navailable_node_types:\n  h: {node_config: {}, docker: {worker_image: "
      "i}}\n";
  ExpectRefused(AwsText(types), "c.yaml:4:47");
  ExpectRefused(AwsText("docker: {image: ''}\n" + types), "c.yaml:5:47");
  EXPECT_TRUE(Aws("docker: {image: i, container_name: c}\n" + types).ok());
}

TEST(ClusterSpecTest, ACoordinatorNeedsANumberOfWorkers) {
  const std::string coordinator = LocalText("coordinator_address: 'a:1'");
  ExpectRefused(coordinator, "c.yaml:1:11");
  ExpectRefused(coordinator + "max_workers: 1\nmin_workers: 2\n", "c.yaml:3:14");
  EXPECT_EQ(Parsed(coordinator + "max_workers: 3\n")->max_workers, 3);
}

TEST(ClusterSpecTest, ZonesBelongToTheRegion) {
  ExpectRefused("provider: {type: aws, availability_zone: us-east-1a}\n", "c.yaml:1:42");
  ExpectRefused(
      "provider: {type: aws, region: us-west-1, availability_zone: 'us-west-1b, us-west-1'}\n",
      "c.yaml:1:61");
  const Result<ClusterSpec> spec = Parsed(
      "provider: {type: aws, region: eu-west-1, availability_zone: 'eu-west-1b, eu-west-1a,'}\n");
  ASSERT_TRUE(spec.ok()) << spec.status().ToString();
  EXPECT_EQ(spec->provider.availability_zones,
            (std::vector<std::string>{"eu-west-1b", "eu-west-1a"}));
}

TEST(ClusterSpecTest, AnOwnKeyNeedsItsNameInEveryType) {
  const std::string key = "auth: {ssh_private_key: k.pem}\nhead_node_type: h\n";
  ExpectRefused(AwsText(key + "available_node_types:\n  h: {node_config: {KeyName: k}}\n"
                              "  w: {node_config: {}}\n"),
                "c.yaml:2:25");
  EXPECT_TRUE(Aws(key + "available_node_types:\n  h: {node_config: {KeyName: k}}\n"
                        "  w: {node_config: {UserData: x}}\n")
                  .ok());
  ExpectRefused(AwsText("auth: {ssh_private_key: k.pem}\n"), "c.yaml:2:25");
}

TEST(ClusterSpecTest, TheProvidersKeysAreRead) {
  const Result<ClusterSpec> spec = Parsed(
      "provider: {type: aws, use_internal_ips: yes, use_external_head_ip: yes, "
      "disable_node_updaters: yes, disable_launch_config_check: yes, foreground_node_launch: yes, "
      "worker_liveness_check: no, cache_stopped_nodes: no, key_pair: {key_name: k}, "
      "security_group: {GroupName: g, IpPermissions: [{FromPort: 1}]}, "
      "aws_credentials: {profile_name: p}, cloudwatch: {agent: {}}}\n"
      "upscaling_speed: 2.5\nidle_timeout_minutes: 0.5\nfile_mounts_sync_continuously: yes\n");
  ASSERT_TRUE(spec.ok()) << spec.status().ToString();
  const ClusterProvider& provider = spec->provider;
  EXPECT_TRUE(provider.use_internal_ips && provider.use_external_head_ip &&
              provider.disable_node_updaters && provider.disable_launch_config_check &&
              provider.foreground_node_launch);
  EXPECT_FALSE(provider.worker_liveness_check || provider.cache_stopped_nodes);
  EXPECT_EQ(provider.key_name, "k");
  EXPECT_EQ(provider.security_group_name, "g");
  EXPECT_EQ(provider.security_group_rules.size(), 1U);
  EXPECT_EQ(provider.aws_credentials.at("profile_name"), "p");
  EXPECT_TRUE(provider.cloudwatch.has_value());
  EXPECT_EQ(spec->upscaling_speed, 2.5);
  EXPECT_EQ(spec->idle_timeout_minutes, 0.5);
  EXPECT_TRUE(spec->file_mounts_sync_continuously);
}

TEST(ClusterSpecTest, NamesGoIntoPathsAndTags) {
  for (const char* name : {"a/b", "'a b'", "-a", ".a", "\"a\\nb\"", "'$(x)'", "ü"}) {
    ExpectRefused(fmt::format("provider: {{type: aws}}\ncluster_name: {}\n", name), "c.yaml:2:15");
  }
  EXPECT_TRUE(Aws("cluster_name: A-1_b.c\n").ok());
  EXPECT_TRUE(Aws("cluster_name: " + std::string(100, 'n') + "\n").ok());
  EXPECT_FALSE(Aws("cluster_name: " + std::string(101, 'n') + "\n").ok());
}

TEST(ClusterSpecTest, NamesAreNotEmpty) {
  ExpectRefused("cluster_name: ''\nprovider: {type: aws}\n", "c.yaml:1:15");
  EXPECT_EQ(Parsed("cluster_name: c\nprovider: {type: aws}\n")->cluster_name, "c");
}

TEST(ClusterSpecTest, BrokenYamlAndMissingFilesAreSaid) {
  ExpectRefused("provider: {type: local\n", "c.yaml:2:1");
  EXPECT_EQ(LoadClusterSpec("/nowhere/c.yaml").status().code(), ErrorCode::kFileUnreadable);
}

TEST(ClusterNodeTypesTest, DefaultsAreThoseOfRay) {
  const std::string both =
      "0..2 head=ray.head.default ray.head.default:0..0 ray.worker.default:0..2";
  EXPECT_EQ(TypesOf(Aws("")), both);
  EXPECT_EQ(TypesOf(Aws("head_node_type: h\nmax_workers: 5\navailable_node_types:\n"
                        "  h: {node_config: {}}\n  w: {node_config: {}, min_workers: 1}\n")),
            "1..5 head=h h:0..0 w:1..5");
  EXPECT_EQ(TypesOf(Aws("available_node_types: {ray.head.default: {node_config: {}}}\n")),
            "0..2 head=ray.head.default ray.head.default:0..0");
  EXPECT_EQ(TypesOf(Aws("head_node_type: ray.head.default\n")), both);
}

TEST(ClusterNodeTypesTest, KeepsResourcesAndTheProvidersWords) {
  const Result<ClusterSpec> spec = Aws(
      "head_node_type: h\navailable_node_types:\n"
      "  h: {node_config: {InstanceType: m5.large, ImageId: x}, resources: {CPU: 2, GPU: 0}}\n");
  ASSERT_TRUE(spec.ok()) << spec.status().ToString();
  const ClusterNodeType& type = spec->node_types.at(0);
  EXPECT_EQ(type.resources, (std::map<std::string, int64_t>{{"CPU", 2}, {"GPU", 0}}));
  ASSERT_EQ(type.node_config.size(), 2U);
  EXPECT_EQ(type.node_config[0].key, "InstanceType");
  EXPECT_EQ(type.node_config[0].value.text(), "m5.large");
}

TEST(ClusterNodeTypesTest, TheHeadTypeIsOneOfTheTypes) {
  ExpectRefused(AwsText("available_node_types: {w: {node_config: {}}}\n"), "c.yaml:2:23");
  const std::string hint = ExpectRefused(
      AwsText("head_node_type: hed\navailable_node_types: {head: {node_config: {}}}\n"),
      "c.yaml:2:17");
  EXPECT_NE(hint.find("head?"), std::string::npos) << hint;
  ExpectRefused(AwsText("head_node_type: h\n"), "c.yaml:2:17");
}

TEST(ClusterNodeTypesTest, WorkersThatAreNeededHaveToFit) {
  const std::string types =
      "head_node_type: h\navailable_node_types:\n  h: {node_config: {}}\n"
      "  a: {node_config: {}, min_workers: 2}\n  b: {node_config: {}, min_workers: 1}\n";
  EXPECT_EQ(TypesOf(Aws("max_workers: 3\n" + types)), "3..3 head=h h:0..0 a:2..3 b:1..3");
  ExpectRefused(AwsText(types), "c.yaml:4:3");
  EXPECT_NE(Aws(types).status().hint().find("max_workers: 3"), std::string::npos);
  ExpectRefused(AwsText("head_node_type: h\navailable_node_types:\n"
                        "  h: {node_config: {}, min_workers: 2, max_workers: 1}\n"),
                "c.yaml:4:6");
  ExpectRefused(AwsText("min_workers: 3\n"), "c.yaml:2:14");
}

TEST(ClusterNodeTypesTest, ResourcesAreNeededWhereNoCloudKnowsThem) {
  const std::string types = "head_node_type: h\navailable_node_types:\n  h: {node_config: {}}\n";
  EXPECT_TRUE(ParseClusterSpec("provider: {type: gcp}\n" + types, "c.yaml").ok());
  ExpectRefused("provider: {type: external, module: m}\n" + types, "c.yaml:4:6");
}

TEST(ClusterNodeTypesTest, TopLevelMinimumHasNoEffectBesideTypes) {
  const Result<ClusterSpec> spec =
      Aws("min_workers: 2\ninitial_workers: 1\nhead_node_type: h\n"
          "available_node_types: {h: {node_config: {}}}\n");
  EXPECT_EQ(TypesOf(spec), "0..2 head=h h:0..0");
  ExpectWarnings("min_workers and initial_workers beside types", spec->warnings,
                 {"c.yaml:2:1", "c.yaml:3:1"});
}

TEST(ClusterNodeTypesTest, TheOldFormBecomesTwoTypes) {
  const Result<ClusterSpec> spec =
      Aws("min_workers: 1\nmax_workers: 3\nhead_node: {InstanceType: a}\n"
          "worker_nodes: {InstanceType: b, resources: {CPU: 8}}\n");
  EXPECT_EQ(TypesOf(spec),
            "1..3 head=ray-legacy-head-node-type ray-legacy-head-node-type:0..0 "
            "ray-legacy-worker-node-type:1..3");
  ASSERT_TRUE(spec.ok());
  const ClusterNodeType& worker = spec->node_types.at(1);
  EXPECT_EQ(worker.resources, (std::map<std::string, int64_t>{{"CPU", 8}}));
  ASSERT_EQ(worker.node_config.size(), 1U) << "resources stand beside the provider's words now";
  EXPECT_EQ(worker.node_config[0].key, "InstanceType");
  ExpectWarnings("the old form with min_workers", spec->warnings,
                 {"c.yaml:4:1", "c.yaml:5:1", "c.yaml:2:1"});
}

TEST(ClusterNodeTypesTest, TheOldFormIsWholeAndAlone) {
  ExpectRefused(AwsText("head_node: {a: b}\n"), "c.yaml:2:12");
  ExpectRefused(AwsText("worker_nodes: {a: b}\n"), "c.yaml:2:15");
  const std::string both = "head_node: {a: b}\nworker_nodes: {a: b}\n";
  ExpectRefused(AwsText(both + "available_node_types: {h: {node_config: {}}}\n"), "c.yaml:4:23");
  ExpectRefused(AwsText(both + "head_node_type: h\n"), "c.yaml:4:17");
  EXPECT_TRUE(Aws(both + "available_node_types: {}\n").ok());
  ExpectRefused(AwsText(both + "min_workers: 3\n"), "c.yaml:3:15");
  ExpectRefused(AwsText("head_node: {resources: {CPU: 0.5}}\nworker_nodes: {}\n"), "c.yaml:2:30");
}

TEST(ClusterNodeTypesTest, InitialWorkersRaiseTheMinimumWithinTheMaximum) {
  const std::string both = "head_node: {a: b}\nworker_nodes: {a: b}\nmax_workers: 4\n";
  const Result<ClusterSpec> raised = Aws(both + "min_workers: 1\ninitial_workers: 3\n");
  ASSERT_TRUE(raised.ok()) << raised.status().ToString();
  EXPECT_EQ(raised->min_workers, 3);
  ExpectWarnings("initial_workers: 3", {raised->warnings.back()}, {"c.yaml:6:1"});
  EXPECT_EQ(Aws(both + "initial_workers: 9\n")->min_workers, 4);
  EXPECT_EQ(Aws(both + "min_workers: 2\ninitial_workers: 1\n")->min_workers, 2);
}

TEST(ClusterSchemaTest, EveryTopLevelKeyHasItsType) {
  const Row rows[] = {
      {"cluster_name", "c", "[c]", "cluster_name"},
      {"min_workers", "0", "-1", "min_workers"},
      {"max_workers", "7", "two", "max_workers"},
      {"upscaling_speed", "1.5", "-0.5", "upscaling_speed"},
      {"idle_timeout_minutes", "5", "five", "idle_timeout_minutes"},
      {"auth", "{}", "[]", "auth"},
      {"docker", "{}", "x", "docker"},
      {"head_node_type", "head", "{}", "head_node_type"},
      {"available_node_types", "{}", "[]", "available_node_types"},
      {"file_mounts", "{/r: ./l, /n: 1}", "{/r: [x]}", "file_mounts./r"},
      {"cluster_synced_files", "[a]", "a", "cluster_synced_files"},
      {"file_mounts_sync_continuously", "no", "0", "file_mounts_sync_continuously"},
      {"rsync_exclude", "['**/.git']", "{}", "rsync_exclude"},
      {"rsync_filter", "[]", "[[x]]", "rsync_filter[0]"},
      {"metadata", "{any: [{thing: 1}]}", "3", "metadata"},
      {"initialization_commands", "[a]", "[{a: b}]", "initialization_commands[0]"},
      {"setup_commands", "[]", "pip", "setup_commands"},
      {"head_setup_commands", "[a]", "", "head_setup_commands"},
      {"worker_setup_commands", "[a, b]", "[~]", "worker_setup_commands[0]"},
      {"head_start_ray_commands", "[ray stop]", "1", "head_start_ray_commands"},
      {"worker_start_ray_commands", "[ray stop]", "{}", "worker_start_ray_commands"},
      {"no_restart", "true", "[]", "no_restart"},
      {"hvdray", "{}", "4", "hvdray"},
      {"head_node", "{InstanceType: m5.large}", "m5.large", "head_node"},
      {"worker_nodes", "{}", "[]", "worker_nodes"},
      {"initial_workers", "1", "x", "initial_workers"},
      {"autoscaling_mode", "default", "[]", "autoscaling_mode"},
      {"target_utilization_fraction", "0.8", "x", "target_utilization_fraction"},
      {"worker_default_node_type", "w", "{}", "worker_default_node_type"},
  };
  CheckRows(rows, "provider: {type: local}\n", "c.yaml:2:");
}

TEST(ClusterSchemaTest, EveryKeyOfAuthAndDockerHasItsType) {
  const Row auth[] = {
      {"ssh_user", "u", "[]", "auth.ssh_user"},
      {"ssh_private_key", "~/.ssh/id", "{}", "auth.ssh_private_key"},
      {"ssh_public_key", "k", "", "auth.ssh_public_key"},
      {"ssh_proxy_command", "ssh -W %h:%p j", "[]", "auth.ssh_proxy_command"},
      {"ssh_proxy_use_node_id", "true", "maybe", "auth.ssh_proxy_use_node_id"},
  };
  CheckRows(auth, "provider: {type: local}\nauth:\n  ", "c.yaml:3:");
  const Row docker[] = {
      {"image", "i", "[]", "docker.image"},
      {"container_name", "''", "{}", "docker.container_name"},
      {"pull_before_run", "false", "'false'", "docker.pull_before_run"},
      {"run_options", "[--ipc=host]", "--ipc", "docker.run_options"},
      {"head_image", "i", "[]", "docker.head_image"},
      {"head_run_options", "[]", "{}", "docker.head_run_options"},
      {"worker_image", "i", "[]", "docker.worker_image"},
      {"worker_run_options", "[]", "{}", "docker.worker_run_options"},
      {"disable_automatic_runtime_detection", "true", "1",
       "docker.disable_automatic_runtime_detection"},
      {"disable_shm_size_detection", "on", "1", "docker.disable_shm_size_detection"},
      {"use_podman", "true", "[]", "docker.use_podman"},
  };
  CheckRows(docker, "provider: {type: local}\ndocker:\n  ", "c.yaml:3:");
}

TEST(ClusterSchemaTest, EveryKnownKeyOfTheProviderHasItsType) {
  const Row rows[] = {
      {"module", "m", "[]", "provider.module"},
      {"use_internal_ips", "true", "x", "provider.use_internal_ips"},
      {"use_external_head_ip", "true", "1", "provider.use_external_head_ip"},
      {"disable_node_updaters", "true", "1", "provider.disable_node_updaters"},
      {"disable_launch_config_check", "no", "1", "provider.disable_launch_config_check"},
      {"foreground_node_launch", "no", "1", "provider.foreground_node_launch"},
      {"worker_liveness_check", "no", "1", "provider.worker_liveness_check"},
      {"head_ip", "10.0.0.1", "[a]", "provider.head_ip"},
      {"worker_ips", "[a, b]", "a,b", "provider.worker_ips"},
      {"external_head_ip", "a", "{}", "provider.external_head_ip"},
      {"coordinator_address", "a:1", "{}", "provider.coordinator_address"},
      {"region", "us-west-2", "[]", "provider.region"},
      {"availability_zone", "a,b", "[a]", "provider.availability_zone"},
      {"cache_stopped_nodes", "false", "0", "provider.cache_stopped_nodes"},
      {"key_pair", "{key_name: k, more: 1}", "{key_name: []}", "provider.key_pair.key_name"},
      {"security_group", "{GroupName: g, IpPermissions: [{FromPort: 22}]}", "{IpPermissions: {}}",
       "provider.security_group.IpPermissions"},
      {"aws_credentials", "{profile_name: p}", "p", "provider.aws_credentials"},
      {"cloudwatch", "{agent: {}}", "[]", "provider.cloudwatch"},
  };
  CheckRows(rows, "provider:\n  type: aws\n  ", "c.yaml:3:");
}

TEST(ClusterSchemaTest, EveryKeyOfANodeTypeHasItsType) {
  const Row rows[] = {
      {"resources", "{CPU: 4, memory: 8589934592}", "{CPU: 0.5}",
       "available_node_types.n.resources.CPU"},
      {"min_workers", "1", "-1", "available_node_types.n.min_workers"},
      {"max_workers", "1", "x", "available_node_types.n.max_workers"},
      {"idle_timeout_s", "null", "-1", "available_node_types.n.idle_timeout_s"},
      {"priority", "-5", "1.5", "available_node_types.n.priority"},
      {"labels", "{a: b}", "{a: []}", "available_node_types.n.labels.a"},
      {"initialization_commands", "[a]", "a", "available_node_types.n.initialization_commands"},
      {"worker_setup_commands", "[]", "{}", "available_node_types.n.worker_setup_commands"},
      {"docker", "{worker_image: i, worker_run_options: [], pull_before_run: no}", "{image: i}",
       "available_node_types.n.docker"},
  };
  CheckRows(rows, "provider: {type: aws}\navailable_node_types:\n n:\n  node_config: {}\n  ",
            "c.yaml:5:");
  ExpectBadSchema("provider: {type: aws}\navailable_node_types: {n: {}}\n", "c.yaml:2:27");
  ExpectBadSchema("provider: {type: aws}\navailable_node_types: {n: {node_config: []}}\n",
                  "c.yaml:2:41");
  ExpectBadSchema("provider: {type: aws}\navailable_node_types: {n: 3}\n", "c.yaml:2:27");
}

TEST(ClusterSchemaTest, EveryKeyOfOurSectionHasItsType) {
  const Row rows[] = {
      {"slots_per_host", "4", "0", "hvdray.slots_per_host"},
      {"slots_per_host", "65536", "65537", "hvdray.slots_per_host"},
      {"on_demand_fallback", "true", "maybe", "hvdray.on_demand_fallback"},
      {"run", "{np: 4, whatever: [1]}", "python train.py", "hvdray.run"},
  };
  CheckRows(rows, "provider: {type: local}\nhvdray:\n  ", "c.yaml:3:");
}

TEST(ClusterSchemaTest, UnknownKeysAreRefusedWithTheNearestOne) {
  std::string hint;
  hint = ExpectBadSchema("provider: {type: local}\nmax_worker: 2\n", "c.yaml:2:1");
  EXPECT_NE(hint.find("max_workers?"), std::string::npos);
  hint = ExpectBadSchema("provider: {type: local}\nauth: {ssh_usr: u}\n", "c.yaml:2:8");
  EXPECT_NE(hint.find("ssh_user?"), std::string::npos);
  hint = ExpectBadSchema("provider: {type: local}\nhvdray: {qqqqqqqq: 1}\n", "c.yaml:2:10");
  EXPECT_NE(hint.find("slots_per_host, on_demand_fallback, run"), std::string::npos);
  ExpectBadSchema("provider: {type: aws, security_group: {Name: g}}\n", "c.yaml:1:40");
}

TEST(ClusterSchemaTest, UnknownKeysAreAcceptedWhereAProviderHasItsOwn) {
  EXPECT_TRUE(CheckSchema("provider: {type: gcp, project_id: p, key_pair: {x: 1}}\n").ok());
  EXPECT_TRUE(
      CheckSchema("provider: {type: aws}\nhead_node: {Anything: [goes]}\nmetadata: {x: {y: z}}\n")
          .ok());
}

TEST(ClusterSchemaTest, AKnownProviderHasItsOwnKeysAndNoOthers) {
  std::string hint = ExpectBadSchema("provider: {type: aws, avalability_zone: a}\n", "c.yaml:1:23");
  EXPECT_NE(hint.find("availability_zone?"), std::string::npos) << hint;
  hint = ExpectBadSchema("provider: {type: local, worker_ip: [a]}\n", "c.yaml:1:25");
  EXPECT_NE(hint.find("worker_ips?"), std::string::npos) << hint;
  std::vector<std::string> warnings;
  EXPECT_TRUE(CheckSchema("provider: {type: local, region: r}\n", &warnings).ok());
  ExpectWarnings("region with type local", warnings, {"c.yaml:1:25"});
  warnings.clear();
  EXPECT_TRUE(CheckSchema("provider: {type: gcp, region: r, head_ip: a}\n", &warnings).ok());
  EXPECT_TRUE(warnings.empty()) << "whatever gcp makes of it";
}

/// Expects that each key of an object of the schema, and of those below it, says what it means.
void ExpectDescriptions(const Json& object, const std::string& path) {
  const Json& properties = object.value("properties", Json::object());
  for (const auto& [name, key] : properties.items()) {
    EXPECT_GT(key.value("description", "").size(), 7u) << path << name;
    ExpectDescriptions(key, path + name + ".");
    const auto named = key.find("additionalProperties");
    if (named != key.end() && named->is_object())
      ExpectDescriptions(*named, path + name + ".NAME.");
  }
}

TEST(ClusterSchemaTest, TheJsonSchemaSaysOfEachKeyWhatItMeans) {
  const Json schema = Json::parse(ClusterJsonSchema(Json::object()));
  ExpectDescriptions(schema, "");
  for (const std::string_view key : ClusterTopKeys()) {
    EXPECT_TRUE(schema["properties"].contains(std::string(key))) << key;
  }
  const Json& provider = schema["properties"]["provider"]["properties"];
  EXPECT_EQ(provider["head_ip"]["description"], "Name or address of the head. Only of type local.");
}

TEST(ClusterSchemaTest, TheFileIsAMapWithAProviderAndItsType) {
  ExpectBadSchema("", "c.yaml:1:1");
  ExpectBadSchema("- a\n", "c.yaml:1:1");
  ExpectBadSchema("text", "c.yaml:1:1");
  ExpectBadSchema("cluster_name: c\n", "c.yaml:1:1");
  ExpectBadSchema("provider: {region: r}\n", "c.yaml:1:11");
  ExpectBadSchema("provider:\n", "c.yaml:1:1");
}

TEST(ClusterSchemaTest, OldKeysGiveOneWarningEach) {
  std::vector<std::string> warnings;
  EXPECT_TRUE(
      CheckSchema(
          "provider: {type: aws}\nautoscaling_mode: default\ntarget_utilization_fraction: 0.8\n"
          "worker_default_node_type: w\nhead_node: {a: b}\nworker_nodes: {a: b}\n",
          &warnings)
          .ok());
  ExpectWarnings("keys of older Ray versions", warnings,
                 {"c.yaml:2:1", "c.yaml:3:1", "c.yaml:4:1", "c.yaml:5:1", "c.yaml:6:1"});
  warnings.clear();
  EXPECT_TRUE(
      CheckSchema("provider: {type: aws}\nhead_node: {}\nworker_nodes: {}\n", &warnings).ok());
  EXPECT_TRUE(warnings.empty()) << "empty, they say nothing";
}

TEST(ClusterSchemaTest, LongAndStrangeNamesStayShortInMessages) {
  const std::string name(100'000, 'n');
  EXPECT_LT(CheckSchema("provider: {type: aws}\n? " + name + "\n: 1\n").message().size(), 150U);
  EXPECT_LT(CheckSchema("provider: {type: aws}\nfile_mounts:\n  ? " + name + "\n  : []\n")
                .message()
                .size(),
            150U);
  ExpectBadSchema("provider: {type: aws}\n\"a\\nb\": 1\n", "c.yaml:2:1");
}

TEST(ClusterTypesTest, TextStaysTextForAllReaders) {
  const Result<ClusterSpec> spec = Aws(R"(
cluster_name: 0123
upscaling_speed: 1e3
max_workers: 0x8
setup_commands: [true, 12:30]
head_node_type: 1_0
available_node_types:
  1_0:
    labels: {rack: 007, zone: no, yes: 1, 010: ~x}
    resources: {CPU: 0x8, memory: 8_000_000_000}
    node_config:
      InstanceType: m5.large
      KeyName: 0777
      TagSpecifications:
        - Tags: [{Key: 12345, Value: 0123}, {Key: on, Value: 123e45}, {Key: d, Value: 2026-11-28}]
      CpuOptions: {CoreCount: 0x2}
)");
  ASSERT_TRUE(spec.ok()) << spec.status().ToString();
  const Json json = YamlJson(*spec->resolved);
  EXPECT_EQ(json["cluster_name"], "0123");
  EXPECT_EQ(json["upscaling_speed"], 1000.0);
  EXPECT_EQ(json["max_workers"], 8);
  EXPECT_EQ(json["setup_commands"], Json::array({"true", "12:30"}));
  const Json& type = json["available_node_types"]["1_0"];
  EXPECT_EQ(DumpJson(type["labels"]), R"({"rack":"007","zone":"no","yes":"1","010":"~x"})");
  EXPECT_EQ(DumpJson(type["resources"]), R"({"CPU":8,"memory":8000000000})");
  EXPECT_EQ(type["node_config"]["KeyName"], "0777");
  EXPECT_EQ(DumpJson(type["node_config"]["TagSpecifications"][0]["Tags"]),
            R"([{"Key":"12345","Value":"0123"},{"Key":"on","Value":"123e45"},)"
            R"({"Key":"d","Value":"2026-11-28"}])");
  EXPECT_EQ(type["node_config"]["CpuOptions"]["CoreCount"], 2);
  const std::string text = YamlText(*spec->modern);
  for (const char* line :
       {"cluster_name: '0123'", "- 'true'", "- '12:30'", "head_node_type: '1_0'", "Key: '12345'",
        "Value: '2026-11-28'", "rack: '007'", "'yes': '1'", "'010': ~x"}) {
    EXPECT_NE(text.find(line), std::string::npos) << line << "\n" << text;
  }
}

TEST(ClusterTypesTest, DuplicateKeysAndMergesThatDisagreeAreWarnings) {
  const Result<ClusterSpec> spec = Local("head_ip: a, worker_ips: []", R"(cluster_name: one
metadata:
  x: &x {k: 1}
  y: &y {k: 2}
  z: {<<: [*x, *y]}
cluster_name: two
)");
  ASSERT_TRUE(spec.ok()) << spec.status().ToString();
  EXPECT_EQ(spec->cluster_name, "two");
  ASSERT_EQ(spec->warnings.size(), 2U);
  EXPECT_NE(spec->warnings[0].find("c.yaml:4:10"), std::string::npos) << spec->warnings[0];
  EXPECT_TRUE(spec->warnings[1].starts_with("c.yaml:7:1: ")) << spec->warnings[1];
}

TEST(ClusterTypesTest, WholeNumbersMayHaveAPoint) {
  const Result<ClusterSpec> spec = Parsed(R"(provider: {type: gcp}
max_workers: 3.0
head_node_type: h
available_node_types: {h: {resources: {CPU: 4.0, GPU: 1e0}, node_config: {}}}
)");
  ASSERT_TRUE(spec.ok()) << spec.status().ToString();
  EXPECT_EQ(spec->max_workers, 3);
  EXPECT_EQ(spec->node_types[0].resources.at("CPU"), 4);
  EXPECT_NE(YamlText(*spec->resolved).find("CPU: 4\n"), std::string::npos);
  const std::string half = "{h: {resources: {CPU: 0.5}, node_config: {}}}\n";
  ExpectRefused("provider: {type: gcp}\nhead_node_type: h\navailable_node_types: " + half,
                "c.yaml:3:45");
}

TEST(ClusterSpecTest, AUrlIsNoFile) {
  const Status status = LoadClusterSpec("https://example.com/c.yaml").status();
  EXPECT_EQ(status.code(), ErrorCode::kUsage);
  EXPECT_NE(status.hint().find("curl -fLO https://example.com/c.yaml"), std::string::npos);
}

TEST(ClusterSpecTest, AnOldFileOfACloudThatRayDrivesIsTranslatedForIt) {
  for (const char* provider : {"gcp", "azure"}) {
    const Result<ClusterSpec> spec =
        Parsed(fmt::format("provider: {{type: {}}}\nmin_workers: 1.0\nhead_node: {{machineType: a, "
                           "resources: {{CPU: 2.0}}}}\n"
                           "worker_nodes: {{machineType: b}}\n",
                           provider));
    ASSERT_TRUE(spec.ok()) << spec.status().ToString();
    EXPECT_TRUE(spec->is_translated);
    const Json types = YamlJson(*spec->resolved)["available_node_types"];
    EXPECT_EQ(DumpJson(types["ray-legacy-head-node-type"]["resources"]), R"({"CPU":2})");
    EXPECT_EQ(DumpJson(types["ray-legacy-worker-node-type"]["resources"]), "{}");
    EXPECT_EQ(types["ray-legacy-worker-node-type"]["min_workers"], 1);
  }
  EXPECT_FALSE(Aws("max_workers: 1\n")->is_translated);
  EXPECT_TRUE(Parsed("provider: {type: gcp}\nautoscaling_mode: default\n")->is_translated);
}

}  // namespace
}  // namespace hvdray
