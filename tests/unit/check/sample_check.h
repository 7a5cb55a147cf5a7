// SPDX-License-Identifier: Apache-2.0
// Hosts as `hvdray check` may find them, and what a test expects of a finding.
#ifndef HVDRAY_TESTS_UNIT_CHECK_SAMPLE_CHECK_H_
#define HVDRAY_TESTS_UNIT_CHECK_SAMPLE_CHECK_H_

#include <string>
#include <utility>

#include "launcher/report/check_findings.h"
#include "tests/fakes/fault_catalogue.h"

namespace hvdray {

inline constexpr uint64_t kTestMiB = uint64_t{1} << 20;
inline constexpr uint64_t kTestGiB = uint64_t{1} << 30;

inline wire::Inspection GoodInspection() {
  wire::Inspection inspection;
  inspection.kernel = "6.1.0-28-amd64";
  inspection.distribution = "Debian GNU/Linux 12 (bookworm)";
  inspection.libc = "glibc 2.36";
  inspection.memory_bytes = 64 * kTestGiB;
  inspection.available_bytes = 60 * kTestGiB;
  inspection.directories = {
      {"agent", "/home/ann/.cache/hvdray", 0, true, false, 100 * kTestGiB, 40 * kTestGiB},
      {"tmp", "/tmp", 0, true, false, 100 * kTestGiB, 40 * kTestGiB},
      {"shm", "/dev/shm", 0, true, false, 32 * kTestGiB, 32 * kTestGiB},
      {"home", "/home/ann", 0, true, false, 100 * kTestGiB, 40 * kTestGiB},
      {"working", "/data/job", 0, true, false, 900 * kTestGiB, 500 * kTestGiB}};
  inspection.limits = {{"nofile", 65536, 1048576},
                       {"nproc", 256000, 256000},
                       {"memlock", 8 * kTestMiB, UINT64_MAX},
                       {"core", 0, UINT64_MAX},
                       {"stack", 8 * kTestMiB, UINT64_MAX},
                       {"as", UINT64_MAX, UINT64_MAX}};
  inspection.command_path = "/usr/bin/python3";
  inspection.command_version = "Python 3.11.2";
  return inspection;
}

/// The n-th of like hosts with four workers each, all well.
inline CheckedHost GoodHost(int n) {
  CheckedHost host;
  host.name = "node" + std::to_string(n);
  host.slots = 4;
  host.workers = 4;
  host.is_remote = true;
  host.ready_after = std::chrono::milliseconds(200 + 10 * n);
  host.build = "hvdray 0.1.0";
  host.facts.host_name = host.name;
  host.facts.machine = "x86_64";
  host.facts.cpu_count = 16;
  host.facts.cleanup = "cgroup";
  host.facts.measures = true;
  host.nic = "eth0";
  host.address = "10.1.0." + std::to_string(n);
  wire::InterfaceFacts eth;
  eth.name = host.nic;
  eth.addresses = {{host.address, 24}};
  eth.is_up = true;
  eth.speed_mbps = 100000;
  host.facts.interfaces = {eth};
  host.inspection = GoodInspection();
  host.clock = ClockReading{std::chrono::microseconds(150 * n), std::chrono::microseconds(100)};
  return host;
}

/// A pair with these numbers.
inline MeasuredPair Measured(size_t from, size_t to, double round_trip_ms = 0.06,
                             double gigabytes = 1.1) {
  return {from,
          to,
          {},
          std::chrono::nanoseconds(static_cast<int64_t>(round_trip_ms * 1e6)),
          gigabytes * 1e9,
          gigabytes * 1e9};
}

inline CheckFacts GoodFacts(int hosts = 2) {
  CheckFacts facts;
  facts.build = "hvdray 0.1.0 (abc1234)";
  facts.np = 4 * hosts;
  facts.command = "python3";
  facts.working_directory = "/data/job";
  for (int n = 1; n <= hosts; ++n) facts.hosts.push_back(GoodHost(n));
  facts.is_probed = hosts > 1;
  for (size_t a = 0; a < facts.hosts.size(); ++a) {
    for (size_t b = a + 1; b < facts.hosts.size(); ++b) facts.pairs.push_back(Measured(a, b));
  }
  return facts;
}

/// A bit of everything.
inline CheckFacts BadFacts() {
  CheckFacts facts = GoodFacts(5);
  facts.script = "train.py";
  facts.unused_hosts = {"node8", "node9"};
  for (const int lost : {2, 3}) {
    CheckedHost host;
    host.name = "node" + std::to_string(lost);
    host.slots = host.workers = 4;
    host.is_remote = true;
    host.lost = Status(ErrorCode::kHostRefused,
                       "host " + host.name + ": connect: Connection refused", "start sshd there");
    facts.hosts[static_cast<size_t>(lost - 1)] = std::move(host);
  }
  wire::Inspection& fourth = *facts.hosts[3].inspection;
  fourth.libc = "glibc 2.31";
  fourth.directories[4] = {"working", "/data/job", 2};
  fourth.command_path.clear();
  fourth.command_version.clear();
  fourth.command_error = 2;
  fourth.name_addresses = {"127.0.1.1", "10.1.0.4"};
  fourth.missing_files = {{"train.py", 2}, {"conf.yaml", 13}};
  fourth.modules = {{"torch", "2.1.0", ""}, {"horovod.torch", "", "ImportError: none"}};
  fourth.packages = {{"Python", "3.11.2"}, {"torch", "2.1.0"}};
  fourth.variables = {{"NCCL_DEBUG", "INFO", "login"}, {"NCCL_IB_HCA", "mlx5_0", "nccl.conf"}};
  wire::Inspection& fifth = *facts.hosts[4].inspection;
  fifth.gpus = {{"NVIDIA H100 80GB HBM3", 80 * kTestGiB}, {"NVIDIA H100 80GB HBM3", 0}};
  fifth.gpu_driver = "535.104.05";
  fifth.gpu_device_count = 2;
  fifth.unanswered = {"nvidia-smi"};
  facts.hosts[4].clock =
      ClockReading{std::chrono::milliseconds(-3200), std::chrono::milliseconds(2)};
  facts.hosts[4].facts.measures = false;
  facts.pairs = {Measured(3, 0, 0.071, 0.97), {.from = 0, .to = 3}};
  facts.pairs[1].why = Status(ErrorCode::kConnectTimeout,
                              "connected, but no message came back: timed out after 4 s");
  facts.closed_ways = {{0, 3, Status(ErrorCode::kConnectTimeout, "timed out after 5 s", "look")}};
  return facts;
}

/// Expects that `finding` is of `kind` and names `facts`; its wording goes into the catalogue.
inline void ExpectFinding(const Finding& finding, std::string_view kind, Facts facts) {
  EXPECT_EQ(finding.kind, kind) << finding.text;
  ExpectSays(finding.text, facts);
}

}  // namespace hvdray

#endif  // HVDRAY_TESTS_UNIT_CHECK_SAMPLE_CHECK_H_
