// SPDX-License-Identifier: Apache-2.0
// The builds of hvdray-agent that can be copied to other hosts, one per CPU architecture.
#ifndef HVDRAY_CLUSTER_TRANSPORT_AGENT_BUILDS_H_
#define HVDRAY_CLUSTER_TRANSPORT_AGENT_BUILDS_H_

#include <memory>
#include <string>
#include <vector>

#include "base/result.h"

namespace hvdray {

/// One agent executable, read whole. Immutable; shared with the thread that compresses it.
struct AgentBuild {
  std::string path;
  std::string machine;  ///< As uname -m prints it; from the file's ELF header.
  std::string sha256;   ///< Hex.
  std::string bytes;
};

/// The agent executables of HVDRAY_AGENT_PATH. Immutable.
class AgentBuilds {
 public:
  /// False for a list; true for a file that exists, whatever its name.
  static bool IsOneFile(const std::string& paths);
  /// `paths`: files separated by commas, each "FILE" or "MACHINE=FILE". Blocks for the reads.
  /// Errors: kFileUnreadable; kSpecInvalid for a file that is not a Linux program or not built for
  /// MACHINE, and for two files of the same machine.
  static Result<AgentBuilds> Load(const std::string& paths);

  /// Digest of all files, hex: names the staged file on the hosts.
  const std::string& stage_id() const { return stage_id_; }
  /// The build for a host's `uname -s` and `uname -m`.
  /// Errors: kAgentStartFailed that names the host's system and the available builds.
  Result<std::shared_ptr<const AgentBuild>> For(const std::string& system,
                                                const std::string& machine) const;

 private:
  std::vector<std::shared_ptr<const AgentBuild>> builds_;
  std::string stage_id_;
};

/// The machine of an ELF program, as uname -m prints it ("x86_64"). Pure. Errors: kSpecInvalid for
/// anything but a 64-bit Linux program of a known machine.
Result<std::string> MachineOfElf(const std::string& bytes);

}  // namespace hvdray

#endif  // HVDRAY_CLUSTER_TRANSPORT_AGENT_BUILDS_H_
