// SPDX-License-Identifier: Apache-2.0
#include "cluster/transport/agent_builds.h"

#include <elf.h>
#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <utility>

#include "base/digest.h"
#include "base/fd.h"

namespace hvdray {
namespace {

constexpr size_t kMaxAgentBytes = size_t{256} << 20;
constexpr size_t kStageIdDigits = 32;

constexpr struct {
  uint16_t elf;
  std::string_view name;
} kMachines[] = {{EM_X86_64, "x86_64"},
                 {EM_AARCH64, "aarch64"},
                 {EM_PPC64, "ppc64le"},
                 {EM_S390, "s390x"},
                 {EM_RISCV, "riscv64"}};

Result<std::shared_ptr<const AgentBuild>> LoadOne(const std::string& path,
                                                  const std::string& claimed) {
  auto build = std::make_shared<AgentBuild>();
  build->path = path;
  Result<std::string> bytes = ReadFile(path, kMaxAgentBytes);
  if (!bytes.ok()) {
    return std::move(bytes)
        .status()
        .WithContext("HVDRAY_AGENT_PATH")
        .WithCode(ErrorCode::kFileUnreadable);
  }
  build->bytes = std::move(*bytes);
  Result<std::string> machine = MachineOfElf(build->bytes);
  if (!machine.ok()) return std::move(machine).status().WithContext("HVDRAY_AGENT_PATH: " + path);
  if (!claimed.empty() && claimed != *machine) {
    return Status(
        ErrorCode::kSpecInvalid,
        fmt::format("HVDRAY_AGENT_PATH: {} is a program for {}, not {}", path, *machine, claimed));
  }
  build->machine = std::move(*machine);
  build->sha256 = Hex(Sha256(build->bytes));
  return std::shared_ptr<const AgentBuild>(std::move(build));
}

}  // namespace

Result<std::string> MachineOfElf(const std::string& bytes) {
  if (bytes.size() < sizeof(Elf64_Ehdr) || bytes.compare(0, SELFMAG, ELFMAG) != 0 ||
      bytes[EI_CLASS] != ELFCLASS64) {
    return Status(ErrorCode::kSpecInvalid, "not a 64-bit Linux program");
  }
  const bool is_little = bytes[EI_DATA] == ELFDATA2LSB;
  const auto low = static_cast<unsigned char>(bytes[offsetof(Elf64_Ehdr, e_machine)]);
  const auto high = static_cast<unsigned char>(bytes[offsetof(Elf64_Ehdr, e_machine) + 1]);
  const auto number = static_cast<uint16_t>(is_little ? low | high << 8 : low << 8 | high);
  for (const auto& [elf, name] : kMachines) {
    if (elf == number) return std::string(name);
  }
  return Status(ErrorCode::kSpecInvalid, fmt::format("unknown ELF machine {}", number));
}

bool AgentBuilds::IsOneFile(const std::string& paths) {
  return paths.find_first_of("=,") == std::string::npos || ::access(paths.c_str(), F_OK) == 0;
}

Result<AgentBuilds> AgentBuilds::Load(const std::string& paths) {
  AgentBuilds builds;
  std::string digests;
  const bool is_one = IsOneFile(paths);
  for (size_t begin = 0; begin <= paths.size();) {
    const size_t end = is_one ? paths.size() : std::min(paths.find(',', begin), paths.size());
    const std::string item = paths.substr(begin, end - begin);
    const size_t equals = is_one ? std::string::npos : item.find('=');
    const bool is_named = equals != std::string::npos && item.find('/') > equals;
    HVDRAY_ASSIGN_OR_RETURN(auto build, LoadOne(is_named ? item.substr(equals + 1) : item,
                                                is_named ? item.substr(0, equals) : ""));
    for (const auto& other : builds.builds_) {
      if (other->machine == build->machine) {
        return Status(ErrorCode::kSpecInvalid,
                      fmt::format("HVDRAY_AGENT_PATH: {} and {} are both for {}", other->path,
                                  build->path, build->machine));
      }
    }
    digests += build->sha256;
    builds.builds_.push_back(std::move(build));
    begin = end + 1;
  }
  builds.stage_id_ = Hex(Sha256(digests)).substr(0, kStageIdDigits);
  return builds;
}

Result<std::shared_ptr<const AgentBuild>> AgentBuilds::For(const std::string& system,
                                                           const std::string& machine) const {
  std::string have;
  for (const auto& build : builds_) {
    if (system == "Linux" && build->machine == machine) return build;
    have += fmt::format("{}Linux {} ({})", have.empty() ? "" : ", ", build->machine, build->path);
  }
  return Status(ErrorCode::kAgentStartFailed,
                fmt::format("no agent build for {} {}; available: {}", system, machine, have),
                "add a build: HVDRAY_AGENT_PATH=MACHINE=FILE,MACHINE=FILE");
}

}  // namespace hvdray
