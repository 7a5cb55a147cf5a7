// What a host is like, as a job that starts now would find it: system, memory, disks, limits, GPUs,
// the command with its files and modules. Looks only; changes nothing.
#ifndef HVDRAY_AGENT_HOST_INSPECTION_H_
#define HVDRAY_AGENT_HOST_INSPECTION_H_

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "agent/asked_program.h"
#include "wire/message.h"

namespace hvdray {

/// Gathers step by step and calls `report` with all that is known, before each step and at the end;
/// `unanswered` names the steps to come, so the last report tells where it hangs. Blocks, for ever
/// where a file system or driver does: see Inspector. Leaves the two clocks at 0.
void GatherInspection(const wire::Inspect& inspect,
                      const std::function<void(const wire::Inspection&)>& report);

/// File and errno of the command that `inspect` names; nothing is executed.
struct FoundCommand {
  std::string path;
  int error = 0;            ///< ELIBACC: a script whose interpreter is missing.
  std::string interpreter;  ///< Then: as the script's first line names it.
};
FoundCommand FindCommand(const wire::Inspect& inspect);

// Pure readers of what the system says.

/// "glibc 2.36" out of the bytes of a libc.so.6; empty: none is named.
std::string LibcOfBanner(std::string_view bytes);
/// PRETTY_NAME of /etc/os-release, without quotes.
std::string DistributionOf(std::string_view os_release);
/// Bytes of a row of /proc/meminfo ("MemTotal"); 0: no such row.
uint64_t MemoryRow(std::string_view meminfo, std::string_view name);
/// "535.104.05" out of /proc/driver/nvidia/version.
std::string NvidiaDriverOf(std::string_view version);
/// Addresses of the rows of `getent ahosts`, each once, in their order.
std::vector<std::string> AddressesOf(std::string_view rows);
/// What the program that imports a module has said: its version, or why it could not.
wire::ModuleFacts ModuleFactsOf(std::string name, const ProgramAnswer& answer);
/// Rows "NAME, DRIVER, MEMORY MiB" of nvidia-smi; `driver` gets that of the last row.
std::vector<wire::GpuFacts> GpusOfSmi(std::string_view rows, std::string* driver);

}  // namespace hvdray

#endif  // HVDRAY_AGENT_HOST_INSPECTION_H_
