// SPDX-License-Identifier: Apache-2.0
// Inspects a host as a job that starts now would find it: system, memory, disks, limits, GPUs, the
// command with its files and modules. Changes nothing.
#ifndef HVDRAY_AGENT_HOST_INSPECTION_H_
#define HVDRAY_AGENT_HOST_INSPECTION_H_

#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "agent/inspector.h"
#include "base/types.h"
#include "wire/message.h"

namespace hvdray {

/// Gathers facts step by step. Calls `report` with all known facts before each step and at the end;
/// `unanswered` lists the remaining steps, so the last report names the step that hangs. Blocks,
/// forever if a file system or driver hangs: run it through Inspector. Leaves received_ns and
/// sent_ns at 0.
void GatherInspection(const wire::Inspect& inspect,
                      const std::function<void(const wire::Inspection&)>& report);

/// The program file of a command.
struct FoundCommand {
  std::string path;
  int error = 0;            ///< errno; ELIBACC: its interpreter is missing.
  std::string interpreter;  ///< With ELIBACC: its path.
};
/// Searches for the command of `inspect` as a worker's start would; executes nothing.
FoundCommand FindCommand(const wire::Inspect& inspect);

// Parsers of the system's texts. All pure.

/// "glibc 2.36" from the bytes of a libc.so.6; empty: no version in it.
std::string LibcOfBanner(std::string_view bytes);
/// PRETTY_NAME of /etc/os-release, without quotes.
std::string Distribution(std::string_view os_release);
/// Row `name` ("MemTotal") of /proc/meminfo, in bytes; 0: no such row.
uint64_t MemoryRow(std::string_view meminfo, std::string_view name);
/// "535.104.05" from /proc/driver/nvidia/version; empty: no version in it.
std::string NvidiaDriver(std::string_view version);
/// The addresses in the rows of `getent ahosts`, each once, in their order.
std::vector<std::string> AddressesOf(std::string_view rows);
/// The module's version, or why its import failed, from the output of the import program.
wire::ModuleFacts ToModuleFacts(std::string name, const ProgramAnswer& answer);
/// The versions in the output of the program that asks the workers' Python.
std::vector<wire::PackageFacts> Packages(std::string_view output);
/// Those of `environment` that libraries of training read, without secrets.
std::vector<wire::VariableFacts> RelevantVariables(
    const std::map<std::string, std::string>& environment);
/// The rows NAME=VALUE of an nccl.conf. Source: NCCL user guide, "Environment Variables".
std::vector<wire::VariableFacts> VariablesOfNcclConf(std::string_view text);
/// "2.18.5" from "libnccl.so.2.18.5"; empty: no version in it.
std::string NcclOfFile(std::string_view file_name);
/// Reads rows "NAME, DRIVER, MEMORY MiB" of nvidia-smi; sets `driver` to the last row's.
std::vector<wire::GpuFacts> GpusOfSmi(std::string_view rows, std::string* driver);

/// Adds what rows "ECC ERRORS, THROTTLE REASONS" of nvidia-smi say, one per GPU, in order.
void AddHealthOfSmi(std::string_view rows, std::vector<wire::GpuFacts>& gpus);
/// Counts the links that are up in the output of `nvidia-smi nvlink --status`.
void AddLinksOfSmi(std::string_view output, std::vector<wire::GpuFacts>& gpus);
/// Fills in what `program`, an nvidia-smi, tells of the GPUs; blocks for `limit` per question.
void AskGpus(const std::string& program, Duration limit, wire::Inspection& facts);

}  // namespace hvdray

#endif  // HVDRAY_AGENT_HOST_INSPECTION_H_
