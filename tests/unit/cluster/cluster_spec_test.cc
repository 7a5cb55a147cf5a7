// SPDX-License-Identifier: Apache-2.0
#include "cluster/cluster_spec.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <string>

namespace hvdray {
namespace {

Result<ClusterSpec> Parsed(const std::string& text) { return ParseClusterSpec(text, "c.yaml"); }

Result<ClusterSpec> Local(const std::string& keys, const std::string& rest = "") {
  return Parsed("provider: {type: local, " + keys + "}\n" + rest);
}

std::string ErrorOf(const Result<ClusterSpec>& spec) {
  if (spec.ok()) return "no error";
  EXPECT_EQ(spec.status().code(), ErrorCode::kSpecInvalid);
  return spec.status().message();
}

std::string HostsOf(const Result<ClusterSpec>& spec, int default_slots = 2) {
  if (!spec.ok()) return spec.status().message();
  const Result<std::vector<ClusterHost>> hosts = ClusterHostsOf(*spec, default_slots);
  if (!hosts.ok()) {
    EXPECT_EQ(hosts.status().code(), ErrorCode::kNotSupported);
    return hosts.status().message();
  }
  std::string out;
  for (const ClusterHost& host : *hosts) out += fmt::format("{}={} ", host.address, host.slots);
  return out;
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
  EXPECT_EQ(ErrorOf(Local("worker_ips: [a]")),
            "c.yaml:1:11: provider.head_ip is missing: type local needs head_ip and worker_ips");
  const Result<ClusterSpec> spec = Local("head_ip: a");
  EXPECT_EQ(ErrorOf(spec),
            "c.yaml:1:11: provider.worker_ips is missing: type local needs head_ip and worker_ips");
  EXPECT_EQ(spec.status().hint(), "worker_ips: [] if the head is the only host");
}

TEST(ClusterSpecTest, AddressesAreNamesOrNumbersAndNothingElse) {
  for (const char* address : {"10.0.0.1", "node-1.example.com", "fe80::1", "node_1"}) {
    EXPECT_TRUE(Local(fmt::format("head_ip: '{}', worker_ips: []", address)).ok()) << address;
  }
  for (const char* address : {"-oProxyCommand=x", "a b", "user@host", "a;b", "$(x)", "", "[::1]",
                              "host:22", "fe80::1::2"}) {
    EXPECT_EQ(ErrorOf(Local(fmt::format("head_ip: '{}', worker_ips: []", address))),
              fmt::format("c.yaml:1:34: provider.head_ip '{}' is not an address", address));
    EXPECT_EQ(ErrorOf(Local(fmt::format("head_ip: a, worker_ips: ['{}']", address))),
              fmt::format("c.yaml:1:50: provider.worker_ips '{}' is not an address", address));
  }
  EXPECT_EQ(ErrorOf(Local("head_ip: a, worker_ips: [], external_head_ip: -x")),
            "c.yaml:1:71: provider.external_head_ip '-x' is not an address");
  EXPECT_EQ(Local("head_ip: a, worker_ips: [], external_head_ip: b")->external_head_ip, "b");
}

TEST(ClusterSpecTest, EachHostIsListedOnce) {
  EXPECT_EQ(ErrorOf(Local("head_ip: a, worker_ips: [b, c, b]")),
            "c.yaml:1:56: host b is listed twice, first at c.yaml:1:50");
  EXPECT_EQ(ErrorOf(Local("head_ip: a, worker_ips: [a]")),
            "c.yaml:1:50: host a is listed twice, first at c.yaml:1:34");
}

TEST(ClusterSpecTest, WorkerCountsAreCappedAtTheAddresses) {
  const Result<ClusterSpec> spec =
      Local("head_ip: a, worker_ips: [b]", "min_workers: 3\nmax_workers: 4\n");
  ASSERT_TRUE(spec.ok()) << spec.status().ToString();
  EXPECT_EQ(spec->min_workers, 1);
  EXPECT_EQ(spec->max_workers, 1);
  EXPECT_EQ(spec->warnings,
            (std::vector<std::string>{"c.yaml:3:14: max_workers is 4, but worker_ips has 1",
                                      "c.yaml:2:14: min_workers is 3, but worker_ips has 1"}));
}

TEST(ClusterSpecTest, MaxWorkersLeavesTheLastWorkersOut) {
  const Result<ClusterSpec> spec = Local("head_ip: a, worker_ips: [b, c, d]", "max_workers: 1\n");
  EXPECT_EQ(HostsOf(spec), "a=2 b=2 ");
  EXPECT_EQ(spec->warnings,
            (std::vector<std::string>{"c.yaml:2:14: max_workers leaves 2 of worker_ips unused"}));
  EXPECT_EQ(HostsOf(Local("head_ip: a, worker_ips: [b]", "max_workers: 0\n")), "a=2 ");
  EXPECT_EQ(ErrorOf(Local("head_ip: a, worker_ips: [b, c]", "max_workers: 1\nmin_workers: 2\n")),
            "c.yaml:3:14: min_workers (2) is above max_workers (1)");
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
  EXPECT_EQ(ErrorOf(Local(addresses, "available_node_types: {n: {node_config: {}}}\n")),
            "c.yaml:2:1: available_node_types is not valid with provider type local");
  EXPECT_EQ(ErrorOf(Local(addresses, "head_node: {a: b}\n")),
            "c.yaml:2:1: head_node is not valid with provider type local");
  EXPECT_EQ(ErrorOf(Local(addresses, "worker_nodes: {a: b}\n")),
            "c.yaml:2:1: worker_nodes is not valid with provider type local");
  EXPECT_TRUE(Local(addresses, "head_node: {}\nworker_nodes: {}\n").ok())
      << "as old examples have it";
}

TEST(ClusterSpecTest, HostsThatAreNotInTheFileAreSaidToBeElsewhere) {
  EXPECT_EQ(HostsOf(Local("coordinator_address: 10.0.0.1:8000")),
            "a cluster file with a coordinator_address does not list its hosts");
  EXPECT_EQ(HostsOf(Parsed("provider: {type: gcp}\n")),
            "a cluster file with provider type gcp does not list its hosts");
}

TEST(ClusterSpecTest, ProviderTypesAreKnown) {
  for (const char* type : {"aws", "gcp", "azure", "vsphere", "aliyun", "kuberay", "readonly",
                           "spark", "fake_multinode", "fake_multinode_docker"}) {
    const Result<ClusterSpec> spec = Parsed(fmt::format("provider: {{type: {}}}\n", type));
    ASSERT_TRUE(spec.ok()) << spec.status().ToString();
    EXPECT_EQ(spec->provider_type, type);
  }
  const Result<ClusterSpec> wrong = Parsed("provider: {type: asw}\n");
  EXPECT_EQ(ErrorOf(wrong), "c.yaml:1:18: unknown provider.type 'asw'");
  EXPECT_EQ(wrong.status().hint(), "did you mean aws?");
  EXPECT_EQ(ErrorOf(Parsed("provider: {type: external}\n")),
            "c.yaml:1:11: provider.module is missing: type external needs it");
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
  EXPECT_EQ(ErrorOf(Parsed("provider: {type: aws}\nauth: {ssh_proxy_use_node_id: true}\n")),
            "c.yaml:2:31: auth.ssh_proxy_use_node_id needs ssh_proxy_command");
  EXPECT_TRUE(Parsed("provider: {type: aws}\nauth: {ssh_proxy_use_node_id: false}\n").ok());
}

TEST(ClusterSpecTest, DockerHasANameAndAnImageOrNeither) {
  const auto docker = [](const std::string& keys) {
    return ErrorOf(Parsed("provider: {type: aws}\ndocker: {" + keys + "}\n"));
  };
  for (const char* keys : {"", "image: '', container_name: ''", "image: i, container_name: n",
                           "head_image: h, worker_image: w, container_name: n", "head_image: h",
                           "pull_before_run: no"}) {
    EXPECT_EQ(docker(keys), "no error") << keys;
  }
  EXPECT_EQ(docker("container_name: n"), "c.yaml:2:9: docker has a container_name but no image");
  EXPECT_EQ(docker("container_name: n, head_image: h"),
            "c.yaml:2:9: docker has a container_name but no image");
  EXPECT_EQ(docker("image: i"), "c.yaml:2:9: docker has an image but no container_name");
  EXPECT_EQ(docker("image: i, container_name: ''"),
            "c.yaml:2:9: docker has an image but no container_name");
}

TEST(ClusterSpecTest, NamesAreNotEmpty) {
  EXPECT_EQ(ErrorOf(Parsed("cluster_name: ''\nprovider: {type: aws}\n")),
            "c.yaml:1:15: cluster_name is empty");
  EXPECT_EQ(Parsed("cluster_name: c\nprovider: {type: aws}\n")->cluster_name, "c");
}

TEST(ClusterSpecTest, BrokenYamlAndMissingFilesAreSaid) {
  EXPECT_EQ(ErrorOf(Parsed("provider: {type: local\n")), "c.yaml:2:1: end of map flow not found");
  EXPECT_EQ(ErrorOf(Parsed("auth: {}\nauth: {}\n")),
            "c.yaml:2:1: duplicate key auth, first at c.yaml:1:1");
  EXPECT_EQ(LoadClusterSpec("/nowhere/c.yaml").status().code(), ErrorCode::kFileUnreadable);
}

}  // namespace
}  // namespace hvdray
