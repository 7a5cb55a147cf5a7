// SPDX-License-Identifier: Apache-2.0
// The forms of a cluster file: modern, with defaults, for Ray; and what happens to one node.
#include "cluster/file/cluster_form.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "base/yaml_writer.h"
#include "cluster/file/cluster_spec.h"

namespace hvdray {
namespace {

using Lines = std::vector<std::string>;

ClusterSpec Parsed(const std::string& text, const ClusterOverrides& overrides = {}) {
  const Result<ClusterSpec> spec = ParseClusterSpec(text, "c.yaml", overrides);
  EXPECT_TRUE(spec.ok()) << spec.status().ToString() << "\n" << text;
  return spec.ok() ? *spec : ClusterSpec();
}

constexpr const char* kLocal = "provider: {type: local, head_ip: a, worker_ips: [b, c]}\n";
constexpr const char* kAws = "provider: {type: aws, region: us-west-2}\n";

std::string Modern(const std::string& text) { return YamlText(*Parsed(text).modern); }
std::string ForRay(const std::string& text) { return YamlText(RayCluster(*Parsed(text).resolved)); }

bool Has(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

TEST(ModernClusterTest, AModernFileStaysAsItIs) {
  EXPECT_EQ(
      Modern("provider:\n  type: local\n  head_ip: a\n  worker_ips:\n    - b\nmin_workers: 1\n"),
      "provider:\n  type: local\n  head_ip: a\n  worker_ips:\n    - b\nmin_workers: 1\n");
}

TEST(ModernClusterTest, TheOldFormBecomesTypes) {
  const std::string text = std::string(kAws) +
                           "autoscaling_mode: default\nmin_workers: 1\nmax_workers: 3\n"
                           "initial_workers: 2\ntarget_utilization_fraction: 0.8\n"
                           "head_node: {InstanceType: m}\nworker_default_node_type: w\n"
                           "worker_nodes: {InstanceType: p, resources: {GPU: 8}}\n";
  EXPECT_EQ(Modern(text),
            "provider:\n  type: aws\n  region: us-west-2\n"
            "max_workers: 3\n"
            "head_node_type: ray-legacy-head-node-type\n"
            "available_node_types:\n"
            "  ray-legacy-head-node-type:\n"
            "    node_config:\n      InstanceType: m\n"
            "    min_workers: 0\n    max_workers: 0\n"
            "  ray-legacy-worker-node-type:\n"
            "    node_config:\n      InstanceType: p\n"
            "    resources:\n      GPU: 8\n"
            "    min_workers: 2\n    max_workers: 3\n");
  EXPECT_EQ(Parsed(text).warnings.size(), 7U) << "one for each old key";
  const ClusterSpec again = Parsed(Modern(text));
  EXPECT_TRUE(again.warnings.empty());
  EXPECT_EQ(YamlText(*again.resolved), YamlText(*Parsed(text).resolved));
}

TEST(ModernClusterTest, AMinimumWithoutTypesIsThatOfRaysWorkerType) {
  const ClusterSpec spec = Parsed(std::string(kAws) + "min_workers: 2\n");
  ASSERT_EQ(spec.node_types.size(), 2U);
  EXPECT_EQ(spec.node_types[1].name, "ray.worker.default");
  EXPECT_EQ(spec.node_types[1].min_workers, 2);
  ASSERT_EQ(spec.warnings.size(), 1U);
  EXPECT_TRUE(Has(spec.warnings[0], "c.yaml:2:1: min_workers")) << spec.warnings[0];
  EXPECT_EQ(Modern(std::string(kAws) +
                   "head_node: {}\nworker_nodes: {}\nhead_node_type: ray.head.default\n"),
            "provider:\n  type: aws\n  region: us-west-2\nhead_node_type: ray.head.default\n");
  const ClusterSpec other = Parsed("provider: {type: gcp}\nmin_workers: 2\ninitial_workers: 1\n");
  EXPECT_EQ(other.warnings.size(), 2U) << "only Ray knows the types of gcp";
  EXPECT_EQ(other.modern->Find("min_workers"), nullptr);
}

TEST(ModernClusterTest, OptionsOverrideTheFile) {
  ClusterOverrides more;
  more.cluster_name = "other";
  more.min_workers = 1;
  more.max_workers = 1;
  const ClusterSpec local = Parsed(std::string(kLocal) + "cluster_name: c\n", more);
  EXPECT_EQ(local.cluster_name, "other");
  EXPECT_EQ(local.min_workers, 1);
  EXPECT_EQ(local.max_workers, 1);
  const std::string types =
      "head_node_type: h\navailable_node_types:\n  h: {node_config: {}}\n"
      "  w: {node_config: {}, min_workers: 0}\n";
  const ClusterSpec typed = Parsed(kAws + types, more);
  ASSERT_EQ(typed.node_types.size(), 2U);
  EXPECT_EQ(typed.node_types[1].min_workers, 1);
  EXPECT_TRUE(typed.warnings.empty());
  EXPECT_EQ(Parsed(kAws, more).node_types.at(1).min_workers, 1) << "of Ray's own type";
  const Status two =
      ParseClusterSpec(kAws + types + "  x: {node_config: {}}\n", "c.yaml", more).status();
  EXPECT_EQ(two.code(), ErrorCode::kUsage) << two.ToString();
  ClusterOverrides bad;
  bad.cluster_name = "a/b";
  EXPECT_EQ(ParseClusterSpec(kLocal, "c.yaml", bad).status().code(), ErrorCode::kSpecInvalid);
}

TEST(ClusterDefaultsTest, AwsGetsTheTypesOfRay) {
  const ClusterSpec spec = Parsed("provider: {type: aws}\n");
  EXPECT_EQ(spec.provider.region, "us-west-2");
  EXPECT_TRUE(spec.provider.availability_zones.empty()) << "as Ray has it beside any provider";
  EXPECT_EQ(spec.auth.ssh_user, "ubuntu");
  EXPECT_EQ(spec.max_workers, 2);
  EXPECT_EQ(spec.head_node_type, "ray.head.default");
  ASSERT_EQ(spec.node_types.size(), 2U);
  EXPECT_EQ(spec.node_types[0].max_workers, 0);
  EXPECT_EQ(spec.node_types[1].max_workers, 2);
  ASSERT_EQ(spec.node_types[1].node_config.size(), 2U);
  EXPECT_EQ(spec.node_types[1].node_config[0].value.text(), "m5.large");
}

TEST(ClusterDefaultsTest, OtherProvidersKeepTheirOwn) {
  EXPECT_EQ(ForRay("provider: {type: gcp}\n"), "cluster_name: default\nprovider:\n  type: gcp\n");
}

TEST(ClusterDefaultsTest, TheFilesListsReplaceTheDefaultOnes) {
  const ClusterSpec spec =
      Parsed(std::string(kAws) + "setup_commands: [a]\nhead_setup_commands: []\n");
  EXPECT_EQ(spec.commands.setup, Lines{"a"});
  EXPECT_TRUE(spec.commands.head_setup.empty());
  EXPECT_EQ(spec.commands.worker_start.size(), 2U);
}

TEST(RayClusterTest, OurSectionIsLeftOutAndCountsAreWrittenOut) {
  const std::string text =
      ForRay(std::string(kLocal) + "max_workers: 5\nhvdray: {slots_per_host: 2}\n");
  EXPECT_FALSE(Has(text, "hvdray"));
  EXPECT_TRUE(Has(text, "min_workers: 2\nmax_workers: 2\n")) << text;
  EXPECT_TRUE(Has(text, "--autoscaling-config")) << "Ray's own launcher needs it: " << text;
  EXPECT_FALSE(Has(text, "available_node_types")) << "Ray refuses them on-prem";
  const ClusterSpec ours = Parsed(kLocal);
  EXPECT_FALSE(Has(YamlText(HvdrayCluster(*ours.resolved)), "--autoscaling-config"));
  EXPECT_TRUE(Has(YamlText(HvdrayCluster(*Parsed(kAws).resolved)), "--autoscaling-config"));
}

TEST(RayClusterTest, NullsThatRayRefusesAreLeftOut) {
  const std::string text = ForRay(
      std::string(kAws) +
      "head_node_type: h\navailable_node_types: {h: {node_config: {}, idle_timeout_s: null}}\n");
  EXPECT_FALSE(Has(text, "idle_timeout_s"));
  EXPECT_TRUE(Has(text, "resources: {}")) << "its schema wants the key";
}

TEST(RayClusterTest, WhatIsPrintedMeansTheSame) {
  for (const std::string& text :
       {std::string(kLocal), std::string(kAws), kAws + std::string("min_workers: 1\n"),
        kLocal + std::string("max_workers: 0\n"), std::string("provider: {type: gcp}\n")}) {
    const ClusterSpec spec = Parsed(text);
    const ClusterSpec again = Parsed(YamlText(*spec.resolved));
    EXPECT_EQ(YamlText(*again.resolved), YamlText(*spec.resolved));
    EXPECT_EQ(again.min_workers, spec.min_workers);
  }
}

TEST(WithoutAutoscalingTest, TakesTheOptionAndItsValue) {
  const std::pair<const char*, const char*> rows[] = {
      {"ray start --head --autoscaling-config=~/c.yaml --port=1", "ray start --head --port=1"},
      {"ray start --head --autoscaling-config ~/c.yaml", "ray start --head"},
      {"ray start --head --autoscaling-config  ~/c.yaml; x", "ray start --head; x"},
      {"ray start --autoscaling-config='/a b/c.yaml' --head", "ray start --head"},
      {"ray start --autoscaling-config=\"~/c\"&& x", "ray start&& x"},
      {"ray start --autoscaling-config", "ray start"},
      {"ray start --autoscaling-config=", "ray start"},
      {"ray start --autoscaling-config='open", "ray start"},
      {"--autoscaling-config=a --autoscaling-config=b c", " c"},
      {"ray stop", "ray stop"},
      {"", ""},
  };
  for (const auto& [with, without] : rows) EXPECT_EQ(WithoutAutoscaling(with), without) << with;
}

constexpr const char* kLists =
    "initialization_commands: [i]\nsetup_commands: [s]\nhead_setup_commands: [h]\n"
    "worker_setup_commands: [w]\nhead_start_ray_commands: [ray start --head "
    "--autoscaling-config=x]\n"
    "worker_start_ray_commands: [ray start --address=$RAY_HEAD_IP]\n"
    "file_mounts: {/z: ./z, /a: ~/a}\ncluster_synced_files: [/shared]\n"
    "rsync_exclude: ['*.o']\nrsync_filter: [.gitignore]\n";

TEST(ClusterNodeSetupTest, HeadAndWorkersGetTheCommonAndTheirOwnCommands) {
  const ClusterSpec spec = Parsed(std::string(kLocal) + kLists);
  const ClusterNodeSetup head = ToClusterNodeSetup(spec, ClusterNodeKind::kHead);
  EXPECT_EQ(head.initialization_commands, Lines{"i"});
  EXPECT_EQ(head.setup_commands, (Lines{"s", "h"}));
  EXPECT_EQ(head.start_commands, Lines{"ray start --head"});
  EXPECT_TRUE(head.cluster_synced_files.empty()) << "it is where they come from";
  EXPECT_EQ(head.file_mounts, (std::vector<ClusterFileMount>{{"/z", "./z"}, {"/a", "~/a"}}))
      << "in the file's order";
  EXPECT_EQ(head.rsync_exclude, Lines{"*.o"});
  EXPECT_EQ(head.rsync_filter, Lines{".gitignore"});
  EXPECT_FALSE(head.container);
  const ClusterNodeSetup worker = ToClusterNodeSetup(spec, ClusterNodeKind::kWorker);
  EXPECT_EQ(worker.setup_commands, (Lines{"s", "w"}));
  EXPECT_EQ(worker.start_commands, Lines{"ray start --address=$RAY_HEAD_IP"});
  EXPECT_EQ(worker.cluster_synced_files, Lines{"/shared"});
}

TEST(ClusterNodeSetupTest, OnPremDefaultsStartRayWithoutAnAutoscaler) {
  const ClusterSpec spec = Parsed(kLocal);
  EXPECT_EQ(ToClusterNodeSetup(spec, ClusterNodeKind::kHead).start_commands,
            (Lines{"ray stop", "ulimit -c unlimited; ray start --head --port=6379"}));
  EXPECT_EQ(ToClusterNodeSetup(spec, ClusterNodeKind::kWorker).start_commands,
            (Lines{"ray stop", "ray start --address=$RAY_HEAD_IP:6379"}));
  EXPECT_TRUE(ToClusterNodeSetup(spec, ClusterNodeKind::kHead).setup_commands.empty());
  EXPECT_TRUE(Has(ToClusterNodeSetup(Parsed(kAws), ClusterNodeKind::kHead).start_commands.at(1),
                  "--autoscaling-config=~/ray_bootstrap_config.yaml"));
}

TEST(ClusterNodeSetupTest, ATypesListsReplaceTheCommonOnesForItsWorkers) {
  const ClusterSpec spec =
      Parsed(std::string(kAws) + kLists +
             "head_node_type: h\navailable_node_types:\n"
             "  h: {node_config: {}, worker_setup_commands: [never]}\n"
             "  w: {node_config: {}, worker_setup_commands: [own], initialization_commands: []}\n"
             "  x: {node_config: {}}\n");
  EXPECT_EQ(ToClusterNodeSetup(spec, ClusterNodeKind::kHead).setup_commands, (Lines{"s", "h"}));
  const ClusterNodeSetup own = ToClusterNodeSetup(spec, ClusterNodeKind::kWorker, "w");
  EXPECT_EQ(own.setup_commands, Lines{"own"});
  EXPECT_TRUE(own.initialization_commands.empty());
  EXPECT_EQ(ToClusterNodeSetup(spec, ClusterNodeKind::kWorker, "x").setup_commands,
            (Lines{"s", "w"}));
}

TEST(ClusterNodeSetupTest, ContainersHaveTheImageAndOptionsOfTheirKindAndType) {
  const ClusterSpec spec = Parsed(
      std::string(kAws) +
      "docker: {image: i, container_name: c, run_options: [r], head_image: hi, "
      "head_run_options: [ho], worker_run_options: [wo], use_podman: yes, "
      "disable_shm_size_detection: yes}\n"
      "head_node_type: h\navailable_node_types:\n  h: {node_config: {}}\n  w: {node_config: {}}\n"
      "  x: {node_config: {}, docker: {worker_image: xi, worker_run_options: [xo], "
      "pull_before_run: no}}\n");
  const auto head = ToClusterNodeSetup(spec, ClusterNodeKind::kHead).container;
  ASSERT_TRUE(head);
  EXPECT_EQ(head->image, "hi");
  EXPECT_EQ(head->name, "c");
  EXPECT_EQ(head->run_options, (Lines{"r", "ho"}));
  EXPECT_TRUE(head->is_pulled);
  EXPECT_TRUE(head->is_podman);
  EXPECT_TRUE(head->detects_runtime);
  EXPECT_FALSE(head->detects_shm_size);
  const auto common = ToClusterNodeSetup(spec, ClusterNodeKind::kWorker, "w").container;
  ASSERT_TRUE(common);
  EXPECT_EQ(common->image, "i");
  EXPECT_EQ(common->run_options, (Lines{"r", "wo"}));
  const auto own = ToClusterNodeSetup(spec, ClusterNodeKind::kWorker, "x").container;
  ASSERT_TRUE(own);
  EXPECT_EQ(own->image, "xi");
  EXPECT_EQ(own->run_options, (Lines{"r", "xo"}));
  EXPECT_FALSE(own->is_pulled);
}

}  // namespace
}  // namespace hvdray
