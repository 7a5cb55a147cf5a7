// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <string>

#include "cluster/cluster_spec.h"

namespace hvdray {
namespace {

Result<ClusterSpec> Aws(const std::string& text) {
  return ParseClusterSpec("provider: {type: aws}\n" + text, "c.yaml");
}

/// "name:min..max" of each type, or the error.
std::string TypesOf(const Result<ClusterSpec>& spec) {
  if (!spec.ok()) {
    EXPECT_EQ(spec.status().code(), ErrorCode::kSpecInvalid);
    return spec.status().message();
  }
  std::string out =
      fmt::format("{}..{} head={}", spec->min_workers, spec->max_workers, spec->head_node_type);
  for (const ClusterNodeType& type : spec->node_types) {
    out += fmt::format(" {}:{}..{}", type.name, type.min_workers, type.max_workers);
  }
  return out;
}

TEST(ClusterNodeTypesTest, DefaultsAreThoseOfRay) {
  EXPECT_EQ(TypesOf(Aws("")), "0..2 head=");
  EXPECT_EQ(TypesOf(Aws("head_node_type: h\nmax_workers: 5\navailable_node_types:\n"
                        "  h: {node_config: {}}\n  w: {node_config: {}, min_workers: 1}\n")),
            "1..5 head=h h:0..0 w:1..5");
  EXPECT_EQ(TypesOf(Aws("available_node_types: {ray.head.default: {node_config: {}}}\n")),
            "0..2 head=ray.head.default ray.head.default:0..0");
  EXPECT_EQ(TypesOf(Aws("head_node_type: ray.head.default\n")), "0..2 head=");
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
  EXPECT_EQ(TypesOf(Aws("available_node_types: {w: {node_config: {}}}\n")),
            "c.yaml:2:23: head_node_type is missing");
  const Result<ClusterSpec> spec =
      Aws("head_node_type: hed\navailable_node_types: {head: {node_config: {}}}\n");
  EXPECT_EQ(TypesOf(spec), "c.yaml:2:17: head_node_type 'hed' is not among available_node_types");
  EXPECT_EQ(spec.status().hint(), "did you mean head?");
  EXPECT_EQ(TypesOf(Aws("head_node_type: h\n")),
            "c.yaml:2:17: head_node_type without available_node_types");
}

TEST(ClusterNodeTypesTest, WorkersThatAreNeededHaveToFit) {
  const std::string types =
      "head_node_type: h\navailable_node_types:\n  h: {node_config: {}}\n"
      "  a: {node_config: {}, min_workers: 2}\n  b: {node_config: {}, min_workers: 1}\n";
  EXPECT_EQ(TypesOf(Aws("max_workers: 3\n" + types)), "3..3 head=h h:0..0 a:2..3 b:1..3");
  EXPECT_EQ(TypesOf(Aws(types)),
            "c.yaml:4:3: min_workers of all types add up to 3, but max_workers is 2");
  EXPECT_EQ(Aws(types).status().hint(), "set max_workers: 3 or lower min_workers");
  EXPECT_EQ(TypesOf(Aws("head_node_type: h\navailable_node_types:\n"
                        "  h: {node_config: {}, min_workers: 2, max_workers: 1}\n")),
            "c.yaml:4:6: available_node_types.h: min_workers (2) is above max_workers (1)");
  EXPECT_EQ(TypesOf(Aws("min_workers: 3\n")),
            "c.yaml:2:14: min_workers (3) is above max_workers (2)");
}

TEST(ClusterNodeTypesTest, ResourcesAreNeededWhereNoCloudKnowsThem) {
  const std::string types = "head_node_type: h\navailable_node_types:\n  h: {node_config: {}}\n";
  EXPECT_TRUE(ParseClusterSpec("provider: {type: gcp}\n" + types, "c.yaml").ok());
  const Result<ClusterSpec> spec =
      ParseClusterSpec("provider: {type: external, module: m}\n" + types, "c.yaml");
  EXPECT_EQ(TypesOf(spec), "c.yaml:4:6: available_node_types.h.resources is missing");
}

TEST(ClusterNodeTypesTest, TopLevelMinimumHasNoEffectBesideTypes) {
  const Result<ClusterSpec> spec =
      Aws("min_workers: 2\ninitial_workers: 1\nhead_node_type: h\n"
          "available_node_types: {h: {node_config: {}}}\n");
  EXPECT_EQ(TypesOf(spec), "0..2 head=h h:0..0");
  EXPECT_EQ(
      spec->warnings,
      (std::vector<std::string>{
          "c.yaml:2:1: min_workers has no effect with available_node_types: set it per type",
          "c.yaml:3:1: initial_workers has no effect with available_node_types: set it per type"}));
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
  EXPECT_EQ(spec->warnings.size(), 2U);
}

TEST(ClusterNodeTypesTest, TheOldFormIsWholeAndAlone) {
  EXPECT_EQ(TypesOf(Aws("head_node: {a: b}\n")), "c.yaml:2:12: head_node without worker_nodes");
  EXPECT_EQ(TypesOf(Aws("worker_nodes: {a: b}\n")), "c.yaml:2:15: worker_nodes without head_node");
  const std::string both = "head_node: {a: b}\nworker_nodes: {a: b}\n";
  EXPECT_EQ(TypesOf(Aws(both + "available_node_types: {h: {node_config: {}}}\n")),
            "c.yaml:4:23: available_node_types and head_node are mutually exclusive");
  EXPECT_EQ(TypesOf(Aws(both + "head_node_type: h\n")),
            "c.yaml:4:17: head_node_type and head_node are mutually exclusive");
  EXPECT_TRUE(Aws(both + "available_node_types: {}\n").ok());
  EXPECT_EQ(TypesOf(Aws(both + "min_workers: 3\n")),
            "c.yaml:3:15: min_workers of all types add up to 3, but max_workers is 2");
  EXPECT_EQ(TypesOf(Aws("head_node: {resources: {CPU: 0.5}}\nworker_nodes: {}\n")),
            "c.yaml:2:30: resources.CPU is a number (0.5), not an integer");
}

TEST(ClusterNodeTypesTest, InitialWorkersRaiseTheMinimumWithinTheMaximum) {
  const std::string both = "head_node: {a: b}\nworker_nodes: {a: b}\nmax_workers: 4\n";
  const Result<ClusterSpec> raised = Aws(both + "min_workers: 1\ninitial_workers: 3\n");
  ASSERT_TRUE(raised.ok()) << raised.status().ToString();
  EXPECT_EQ(raised->min_workers, 3);
  EXPECT_EQ(raised->warnings.back(),
            "c.yaml:6:1: initial_workers is from older Ray versions: min_workers is now 3");
  EXPECT_EQ(Aws(both + "initial_workers: 9\n")->min_workers, 4);
  EXPECT_EQ(Aws(both + "min_workers: 2\ninitial_workers: 1\n")->min_workers, 2);
}

}  // namespace
}  // namespace hvdray
