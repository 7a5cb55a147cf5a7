// SPDX-License-Identifier: Apache-2.0
// The examples in configs/ are what people start from: each is read as hvdray would read it.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <set>
#include <string>

#include "base/fd.h"
#include "base/yaml_writer.h"
#include "cluster/file/cluster_form.h"
#include "cluster/file/cluster_schema.h"
#include "cluster/file/cluster_spec.h"
#include "launcher/job/file_pages.h"
#include "launcher/job/help.h"
#include "launcher/job/option_table.h"
#include "launcher/job/options_resolver.h"
#include "launcher/job/ray_job_file.h"
#include "launcher/job/run_schema.h"
#include "tests/fakes/golden.h"

namespace hvdray {
namespace {

Result<ClusterHosts> LoadCluster(const std::string& path) {
  HVDRAY_ASSIGN_OR_RETURN(ClusterSpec spec, LoadClusterSpec(path));
  HVDRAY_ASSIGN_OR_RETURN(const std::vector<ClusterHost> hosts, ToClusterHosts(spec, 2));
  ClusterHosts result;
  for (const ClusterHost& host : hosts) result.hosts.push_back({host.address, host.slots});
  result.run = std::move(spec.run);
  return result;
}

Result<RunRequest> Resolve(std::vector<std::string> args, const std::string& job_text = "") {
  ResolverFiles files = RealResolverFiles();
  files.load_cluster = &LoadCluster;
  if (!job_text.empty()) {
    files.read = [job_text](const std::string& path) -> Result<std::optional<std::string>> {
      if (path == "job.yaml") return std::optional<std::string>(job_text);
      if (path == "hosts.txt") return std::optional<std::string>("node1 slots=4\n");
      if (path == "horovod.yaml")
        return std::optional<std::string>("params: {cache_capacity: 1}\n");
      return std::optional<std::string>();
    };
  }
  Environment environment;
  environment.Set("HOME", "/nowhere");
  environment.Set("PATH", "/usr/bin");
  return ResolveRun(args, environment, files);
}

ClusterSpec Cluster(const std::string& name) {
  const Result<ClusterSpec> spec = LoadClusterSpec("configs/" + name);
  EXPECT_TRUE(spec.ok()) << spec.status().ToString();
  return spec.ok() ? *spec : ClusterSpec();
}

TEST(ConfigsTest, QuickstartNeedsNoOtherWord) {
  const Result<RunRequest> request = Resolve({"--cluster", "configs/quickstart.yaml"});
  ASSERT_TRUE(request.ok()) << request.status().ToString();
  EXPECT_EQ(*request->spec.np, 4);
  EXPECT_EQ(*request->spec.hosts, (std::vector<HostSlots>{{"127.0.0.1", 4}}));
  ASSERT_EQ(request->spec.command->size(), 3U);
  EXPECT_EQ(request->spec.command->at(0), "build/release/bin/hvdray-digits");
  EXPECT_TRUE(std::filesystem::path(request->spec.command->at(2)).is_relative());
  EXPECT_TRUE(Cluster("quickstart.yaml").warnings.empty());
}

TEST(ConfigsTest, TheStaticJobResolves) {
  const Result<RunRequest> request = Resolve({"-f", "configs/static_job.yaml"});
  ASSERT_TRUE(request.ok()) << request.status().ToString();
  EXPECT_EQ(*request->spec.np, 2);
  EXPECT_FALSE(request->spec.is_elastic());
  EXPECT_TRUE(request->warnings.empty());
}

TEST(ConfigsTest, TheElasticJobResolves) {
  const Result<RunRequest> request = Resolve({"-f", "configs/elastic_job.yaml"});
  ASSERT_TRUE(request.ok()) << request.status().ToString();
  const JobSpec& spec = request->spec;
  EXPECT_TRUE(spec.is_elastic());
  EXPECT_EQ(*spec.elastic_mode, ElasticMode::kHorovod);
  EXPECT_EQ(*spec.np, 3);
  EXPECT_EQ(**spec.min_np, 2);
  EXPECT_EQ(**spec.max_np, 8);
  EXPECT_EQ(*spec.host_discovery_script, "printf 'localhost:2\\n127.0.0.1:1\\n'");
  EXPECT_TRUE(request->warnings.empty());
}

TEST(ConfigsTest, TheRayJobResolves) {
  const Result<RunRequest> request = Resolve({"-f", "configs/ray_job.yaml"});
  ASSERT_TRUE(request.ok()) << request.status().ToString();
  EXPECT_TRUE(request->warnings.empty());
  const JobSpec& spec = request->spec;
  EXPECT_TRUE(*spec.ray.is_wanted);
  EXPECT_EQ(*spec.np, 4);
  const Result<RayRequest> slots = MakeRayRequest(ToRayAsk(spec));
  ASSERT_TRUE(slots.ok()) << slots.status().ToString();
  EXPECT_EQ(slots->bundles, std::vector<RayAmounts>(2, {{"CPU", 2}}));
  EXPECT_TRUE(std::filesystem::is_regular_file(*spec.ray.working_dir + "/" + spec.command->at(1)));
}

/// "key: value" of each line that begins with '#' and a key.
std::vector<std::string> ExamplesInComments(const std::string& text) {
  std::vector<std::string> lines;
  for (size_t start = 0; start < text.size();) {
    const size_t end = std::min(text.find('\n', start), text.size());
    const std::string line = text.substr(start, end - start);
    start = end + 1;
    if (line.size() > 1 && line[0] == '#' && line[1] >= 'a' && line[1] <= 'z') {
      lines.push_back(line.substr(1));
    }
  }
  return lines;
}

bool NeedsRay(const std::string& example) {
  const std::string name = example.substr(0, example.find(':'));
  for (const OptionKey& key : AllKeys()) {
    if (key.text != name) continue;
    return key.row->group == OptionGroup::kRay && key.row->id != OptionId::kRay &&
           key.row->id != OptionId::kBackend;
  }
  return false;
}

TEST(ConfigsTest, EachExampleInTheStaticJobsCommentsWorks) {
  const Result<std::string> text = ReadFile("configs/static_job.yaml");
  ASSERT_TRUE(text.ok());
  const std::vector<std::string> examples = ExamplesInComments(*text);
  EXPECT_GT(examples.size(), 40U);
  for (const std::string& example : examples) {
    // Some mean nothing alone.
    std::string job = "command: [python3, x]\nnp: 1\n" + example + "\n";
    if (example.starts_with("autotune_")) job += "autotune: true\n";
    if (example.starts_with("max_np")) job += "min_np: 1\n";
    if (NeedsRay(example)) job += "ray: true\n";
    const Result<RunRequest> request = Resolve({"-f", "job.yaml"}, job);
    EXPECT_TRUE(request.ok()) << example << ": " << request.status().ToString();
  }
}

TEST(ConfigsTest, TheStaticJobKnowsEveryKey) {
  const Result<std::string> text = ReadFile("configs/static_job.yaml");
  ASSERT_TRUE(text.ok());
  std::set<OptionId> known;
  for (const OptionKey& key : AllKeys()) {
    const bool is_there = text->find("\n" + key.text + ":") != std::string::npos ||
                          text->find("\n#" + key.text + ":") != std::string::npos;
    if (is_there) known.insert(key.row->id);
  }
  for (const OptionRow& row : OptionTable()) {
    // A file cannot name itself, and what is not supported is no example.
    const bool is_left_out = row.type == OptionType::kAction || row.id == OptionId::kJobFile ||
                             row.group == OptionGroup::kDeveloper ||
                             (row.group == OptionGroup::kController && row.id != OptionId::kGloo);
    EXPECT_TRUE(is_left_out || known.count(row.id) == 1) << row.name;
  }
}

TEST(ConfigsTest, TheLegacyClusterIsTheOneOfHorovodsDocuments) {
  const ClusterSpec spec = Cluster("ray_cluster_legacy.yaml");
  EXPECT_EQ(spec.cluster_name, "horovod-cluster");
  EXPECT_EQ(spec.provider_type, "aws");
  EXPECT_EQ(spec.auth.ssh_user, "ubuntu");
  EXPECT_EQ(spec.min_workers, 3);
  EXPECT_EQ(spec.max_workers, 3);
  ASSERT_EQ(spec.node_types.size(), 2U);
  EXPECT_EQ(spec.node_types[1].name, "ray-legacy-worker-node-type");
  EXPECT_EQ(spec.node_types[1].min_workers, 3);
  EXPECT_EQ(spec.warnings.size(), 6U) << "one for each old key";
}

TEST(ConfigsTest, TheOnPremisesClusterNamesItsHosts) {
  const ClusterSpec spec = Cluster("ray_cluster_onprem.yaml");
  EXPECT_TRUE(spec.warnings.empty());
  const Result<std::vector<ClusterHost>> hosts = ToClusterHosts(spec, 1);
  ASSERT_TRUE(hosts.ok()) << hosts.status().ToString();
  EXPECT_EQ(*hosts,
            (std::vector<ClusterHost>{{"10.0.0.10", 8}, {"10.0.0.11", 8}, {"10.0.0.12", 8}}));
}

TEST(ConfigsTest, TheAwsClusterHasAHeadAndWorkers) {
  const ClusterSpec spec = Cluster("ray_cluster_aws.yaml");
  EXPECT_TRUE(spec.warnings.empty());
  EXPECT_EQ(spec.head_node_type, "head");
  ASSERT_EQ(spec.node_types.size(), 2U);
  EXPECT_EQ(spec.min_workers, 2);
  EXPECT_EQ(spec.node_types[1].resources, (std::map<std::string, int64_t>{{"CPU", 8}, {"GPU", 1}}));
  EXPECT_EQ(ToClusterHosts(spec, 1).status().code(), ErrorCode::kNotSupported);
}

/// The clusters among the examples.
constexpr const char* kClusters[] = {"quickstart", "ray_cluster_aws", "ray_cluster_aws_minimal",
                                     "ray_cluster_legacy", "ray_cluster_onprem"};

TEST(ConfigsTest, WhatRayGetsFromEachClusterIsOnRecord) {
  for (const std::string name : kClusters) {
    const ClusterSpec spec = Cluster(name + ".yaml");
    ASSERT_TRUE(spec.resolved);
    ExpectGolden("tests/golden/cluster/" + name + ".yaml", YamlText(RayCluster(*spec.resolved)));
  }
}

TEST(ConfigsTest, TheModernFormOfEachClusterMeansTheSame) {
  for (const std::string name : kClusters) {
    const ClusterSpec spec = Cluster(name + ".yaml");
    ASSERT_TRUE(spec.modern);
    const Result<ClusterSpec> again = ParseClusterSpec(YamlText(*spec.modern), name);
    ASSERT_TRUE(again.ok()) << again.status().ToString();
    EXPECT_TRUE(again->warnings.empty()) << name;
    EXPECT_EQ(YamlText(*again->resolved), YamlText(*spec.resolved)) << name;
  }
}

TEST(ConfigsTest, TheEditorsSchemaIsUpToDate) {
  const Result<std::string> schema = ReadFile("configs/schema/cluster.schema.json");
  ASSERT_TRUE(schema.ok()) << schema.status().ToString();
  EXPECT_EQ(*schema, ClusterJsonSchema(RunSectionSchema()))
      << "update with: hvdray-gen-cli . (in the source directory)";
}

TEST(ConfigsTest, TheManPagesOfFilesAreUpToDate) {
  constexpr const char* kHowToUpdate = "update with: hvdray-gen-cli . (in the source directory)";
  const std::string release = NewestRelease(*ReadFile("CHANGELOG.md"));
  EXPECT_EQ(*ReadFile("docs/man/hvdray-job.5"), JobFilePage(release)) << kHowToUpdate;
  EXPECT_EQ(*ReadFile("docs/man/hvdray-cluster.5"),
            ClusterFilePage(Json::parse(ClusterJsonSchema(Json::object())), release))
      << kHowToUpdate;
}

TEST(ConfigsTest, NoExampleIsLeftWithoutATest) {
  std::set<std::string> names;
  for (const auto& entry : std::filesystem::directory_iterator("configs")) {
    if (entry.is_directory()) continue;
    names.insert(entry.path().filename());
  }
  EXPECT_EQ(names,
            (std::set<std::string>{"elastic_job.yaml", "quickstart.yaml", "ray_cluster_aws.yaml",
                                   "ray_cluster_aws_minimal.yaml", "ray_cluster_legacy.yaml",
                                   "ray_cluster_onprem.yaml", "ray_job.yaml", "static_job.yaml"}));
}

}  // namespace
}  // namespace hvdray
