// SPDX-License-Identifier: Apache-2.0
// One message of each type with every field off its default, for codec tests and fuzzing.
#ifndef HVDRAY_TESTS_UNIT_WIRE_SAMPLE_MESSAGES_H_
#define HVDRAY_TESTS_UNIT_WIRE_SAMPLE_MESSAGES_H_

#include <string>
#include <utility>
#include <vector>

#include "wire/message.h"

namespace hvdray::wire {

inline HostFacts SampleFacts() {
  HostFacts facts;
  facts.host_name = "node7";
  facts.machine = "x86_64";
  facts.system = "Linux";
  facts.cpu_count = 96;
  facts.agent_pid = 4711;
  facts.offered_port = 29512;
  facts.probe_port = 40123;
  facts.open_file_limit = UINT64_MAX;
  facts.cleanup = "cgroup";
  facts.interfaces = {
      {"lo", {{"127.0.0.1", 8}}, true, true, false, 0, false},
      {"eth0", {{"10.0.0.7", 24}, {"10.1.0.7", 32}}, true, false, false, 100000, true},
      {"docker0", {}, false, false, true, 0, false}};
  return facts;
}

inline StartGeneration SampleStart() {
  StartGeneration start;
  start.size = 4;
  start.local_size = 2;
  start.host_index = 1;
  start.host_count = 2;
  start.restart_count = 3;
  start.max_restarts = 5;
  start.host_name = "node7";
  start.gloo_interface = "eth0";
  start.nccl_interfaces = "eth0,eth1";
  start.master_address = "10.0.0.6";
  start.master_port = 29512;
  start.is_torch_environment = false;
  start.stdin_rank = 2;
  start.working_directory = "/home/caf\xe9/job";
  start.workers = {{2, 0, 1, 2}, {3, 1, 1, 2}};
  start.command = {"python3", "", "train.py", "--name=\xff\xfe"};
  start.environment = {"PATH=/usr/bin", "EMPTY=", "BASH_FUNC_x%%=() {  echo \"a\n\"; }"};
  return start;
}

inline Inspection SampleInspection() {
  Inspection inspection;
  inspection.received_ns = 1795232250007000001;
  inspection.sent_ns = 1795232250107000002;
  inspection.kernel = "6.1.0-28-amd64";
  inspection.distribution = "Debian GNU/Linux 12 (bookworm)";
  inspection.libc = "glibc 2.36";
  inspection.memory_bytes = uint64_t{256} << 30;
  inspection.available_bytes = uint64_t{200} << 30;
  inspection.memory_limit_bytes = uint64_t{64} << 30;
  inspection.directories = {
      {"home", "/home/ann", 0, true, false, uint64_t{1} << 40, uint64_t{1} << 30},
      {"tmp", "/tmp", 0, false, true, 4096, 0},
      {"working", "/data/job", 2, false, false, 0, 0}};
  inspection.limits = {{"nofile", 1024, 1048576}, {"memlock", UINT64_MAX, UINT64_MAX}};
  inspection.gpus = {{"NVIDIA H100 80GB HBM3", uint64_t{81559} << 20}, {"other", 0}};
  inspection.gpu_device_count = 2;
  inspection.gpu_driver = "535.104.05";
  inspection.gpu_trouble = "Unable to determine the device handle";
  inspection.infiniband_count = 8;
  inspection.command_path = "/usr/bin/python3";
  inspection.command_error = 13;
  inspection.command_interpreter = "/usr/bin/python3\r";
  inspection.command_version = "Python 3.11.2";
  inspection.name_addresses = {"127.0.1.1", "10.0.0.7"};
  inspection.missing_files = {{"conf/a.yaml", 2}, {"/data/b", 13}};
  inspection.modules = {{"torch", "2.1.0", ""}, {"horovod.torch", "", "ImportError: none"}};
  inspection.unanswered = {"free disk of /data", "nvidia-smi"};
  return inspection;
}

inline DirectoryList SampleDirectoryList() {
  DirectoryList list;
  list.directory = 1;
  list.target = "caf\xe9/job";
  list.entries = {{DirectoryEntryKind::kDirectory, 0755, 0, 0, 0, "a", ""},
                  {DirectoryEntryKind::kFile, 0640, UINT64_C(1) << 40, 1'714'564'800, 123'456'789,
                   "a/b\xff", ""},
                  {DirectoryEntryKind::kLink, 0777, 0, 0, 0, "a/c", "../d e"},
                  {DirectoryEntryKind::kFile, 0, 0, -1, 999'999'999, "d e", ""},
                  {DirectoryEntryKind::kDirectoryMode, 0555, 0, 0, 0, "a", ""}};
  return list;
}

/// Those of version 1, in the order of Body's alternatives; the name is that of the golden file.
inline std::vector<std::pair<std::string, Message>> SampleMessages() {
  return {
      {"hello_launcher", {0, Hello{1, 3, "hvdray 0.1.0 (abc1234)", {}}}},
      {"hello_agent", {0, Hello{1, 1, "hvdray 0.1.0 (abc1234)", SampleFacts()}}},
      {"welcome",
       {0, Welcome{1, "job-20240501-1", "node7", 500, 5000, 2500, 60000, 12345678901, false}}},
      {"probe", {1, Probe{2500, {{"10.0.0.7", "10.0.0.8", 40124}, {"127.0.0.1", "127.0.0.2", 1}}}}},
      {"probe_result",
       {1,
        ProbeResult{
            {{ProbeStage::kOk, 0}, {ProbeStage::kRefused, 111}, {ProbeStage::kOther, 4095}}}}},
      {"hello_agent_measures",
       {0, Hello{1, 2, "hvdray 0.2.0 (abc1234)", {.probe_port = 40123, .measures = true}}}},
      {"probe_serve", {1, Probe{2500, {}, "0123456789abcdef0123456789abcdef", kMaxMeasureMs}}},
      {"probe_measure",
       {1, Probe{2500, {{"10.0.0.7", "10.0.0.8", 1}}, "0123456789abcdef0123456789abcdef", 250}}},
      {"probe_result_measured",
       {1,
        ProbeResult{{{ProbeStage::kOk, 0, MeasureStep::kDone, 61250, 1'250'000'000, 1'100'000'000},
                     {ProbeStage::kTimeout, 0, MeasureStep::kSending, 70125, 0, 0}}}}},
      {"start_generation", {3, SampleStart()}},
      {"worker_started", {3, WorkerStarted{2, 4712}}},
      {"worker_exited_code", {3, WorkerExited{2, {7, 0, false, false, ExecStage::kNone, 0}, true}}},
      {"worker_exited_signal",
       {3, WorkerExited{3, {0, 9, true, true, ExecStage::kNone, 0}, false}}},
      {"worker_exited_exec",
       {3, WorkerExited{3, {127, 0, false, false, ExecStage::kExec, 2}, false}}},
      {"output_stdout", {3, Output{2, StreamId::kStdout, false, std::string("a\0b\xff\n", 5)}}},
      {"output_stderr_end", {3, Output{65535, StreamId::kStderr, true, ""}}},
      {"credit", {3, Credit{2, StreamId::kStdout, 65536}}},
      {"stdin", {3, Stdin{2, true, "last line"}}},
      {"signal", {3, Signal{-1, 15}}},
      {"kv_request",
       {3, KvRequest{UINT64_MAX, KvOp::kPut, 2, "global", "k\xff", std::string("v\0w", 3)}}},
      {"kv_reply", {0xffffffff, KvReply{7, 404, "12", "value"}}},
      {"kv_reset", {4, KvReset{}}},
      {"stop_generation", {4, StopGeneration{5000}}},
      {"generation_stopped",
       {4, GenerationStopped{2, 29513, {.requests = 40, .refused_peers = 1}}}},
      {"heartbeat", {0, Heartbeat{true}}},
      {"bye", {0, Bye{206, "build \"a\" and build \"b\" share no version"}}},
      {"inspect", {0, Inspect{2500, "/home/caf\xe9/job", "python3", "/opt/bin:/usr/bin"}}},
      {"inspect_modules",
       {0, Inspect{9000, "", "", "/bin", {"train.py", "caf\xe9"}, {"torch"}, {"A=\xff", "B="}}}},
      {"inspection", {0, SampleInspection()}},
      {"inspection_versions",
       {0, Inspection{.gpus = {{"NVIDIA H100 80GB HBM3", uint64_t{1} << 36, 2, 0x48, 18}},
                      .packages = {{"torch", "2.1.0"}},
                      .variables = {{"NCCL_DEBUG", "INFO", "nccl.conf"}}}}},
      {"folder_list", {1, SampleDirectoryList()}},
      {"folder_wanted", {1, DirectoryWanted{{{0, 2}, {3, 1}, {2000, 48}}, 3, "/home/caf\xe9/job"}}},
      {"file", {1, File{7, false, false, 0, 0, 0, std::string("a\0b\xff\n", 5)}}},
      {"file_end", {1, File{2047, true, false, 0755, -1, 999'999'999, "last"}}},
      {"file_restart", {1, File{7, false, true, 0, 0, 0, ""}}},
      {"file_taken", {1, FileTaken{3, 65536}}},
      {"folder_problem", {1, DirectoryProblem{28, "write", "/home/caf\xe9/job/a b"}}},
      {"break_connections", {3, BreakConnections{}}},
      {"notify", {3, Notify{70001, 1700000000, 3}}},
      {"host_leaving", {0, HostLeaving{30000}}},
      {"connections_broken",
       {3, ConnectionsBroken{12, 1, 2, 1834, "pidfd_getfd: EPERM", "allow ptrace"}}},
      {"worker_arrived", {4, WorkerArrived{70002}}},
      {"stop_workers", {3, StopWorkers{{0, 70001}, 5000}}},
  };
}

/// What version 2 added, in the same form.
inline std::vector<std::pair<std::string, Message>> SampleChannelMessages() {
  StartGeneration start = SampleStart();
  start.has_channel = true;
  StartGeneration warm = SampleStart();
  warm.preload = {"torch", "horovod.torch"};
  warm.preload_limit_ms = 60000;
  StartGeneration order = warm;
  order.workers.clear();
  return {
      {"hello_launcher", {0, Hello{1, 2, "hvdray 0.2.0 (abc1234)", {}}}},
      {"start_generation", {3, std::move(start)}},
      {"output_channel",
       {3, Output{2, StreamId::kChannel, false, "{\"type\":\"data\",\"blob\":2}\n\xff\n"}}},
      {"output_channel_end", {3, Output{16777215, StreamId::kChannel, true, ""}}},
      {"stdin_channel", {3, Stdin{2, false, "{\"type\":\"data\"}\n", StreamId::kChannel}}},
      {"credit_channel", {3, Credit{2, StreamId::kChannel, 65536}}},
      {"object_piece", {0, ObjectPiece{7, 6, 2, {'\x00', '\xff', 'a'}}}},
      {"object_empty", {0, ObjectPiece{int64_t{1} << 62, 0, 0, ""}}},
      {"welcome_with_memory",
       {0, Welcome{.job_id = "j",
                   .host = "h",
                   .memory_pid = 77,
                   .memory_descriptor = 5,
                   .memory_token = "t"}}},
      {"shares_memory", {0, SharesMemory{}}},
      {"map_object", {0, MapObject{7, 12}}},
      {"give_object", {3, GiveObject{1, 7}}},
      {"drop_object", {0, DropObject{7}}},
      {"object_problem", {0, ObjectProblem{7, 28}}},
      {"start_generation_preload", {3, std::move(warm)}},
      {"warm", {0, Warm{std::move(order)}}},
      {"warmed", {3, Warmed{true, "", 812, {"torch", "horovod.torch"}}}},
      {"warmed_cold", {3, Warmed{false, "import torch opens a GPU (/dev/nvidia0)", 0, {}}}},
  };
}

/// Of all versions.
inline std::vector<std::pair<std::string, Message>> AllSampleMessages() {
  auto all = SampleMessages();
  for (auto& [name, message] : SampleChannelMessages()) {
    all.emplace_back(name + " of version 2", std::move(message));
  }
  return all;
}

}  // namespace hvdray::wire

#endif  // HVDRAY_TESTS_UNIT_WIRE_SAMPLE_MESSAGES_H_
