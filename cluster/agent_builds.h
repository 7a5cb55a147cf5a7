// The builds of hvdray-agent that may be copied to other hosts, one per CPU architecture.
#ifndef HVDRAY_CLUSTER_AGENT_BUILDS_H_
#define HVDRAY_CLUSTER_AGENT_BUILDS_H_

#include <memory>
#include <string>
#include <vector>

#include "base/result.h"

namespace hvdray {

/// One file, read whole. Shared with the thread that compresses it.
struct AgentBuild {
  std::string path;
  std::string machine;  ///< As uname -m says it, from the file's ELF header.
  std::string sha256;   ///< Hex.
  std::string bytes;
};

class AgentBuilds {
 public:
  /// `paths`: one file, or several with commas between, each "FILE" or "MACHINE=FILE".
  /// Errors: kFileUnreadable; kSpecInvalid for a file that is no Linux program, whose machine is
  /// not the one that is claimed, or two files of one machine.
  static Result<AgentBuilds> Load(const std::string& paths);

  /// Differs whenever any of the files does.
  const std::string& stage_id() const { return stage_id_; }
  /// Errors: kAgentStartFailed that names both sides.
  Result<std::shared_ptr<const AgentBuild>> For(const std::string& system,
                                                const std::string& machine) const;

 private:
  std::vector<std::shared_ptr<const AgentBuild>> builds_;
  std::string stage_id_;
};

/// "x86_64" for an ELF program of that machine. Pure. Errors: kSpecInvalid.
Result<std::string> MachineOfElf(const std::string& bytes);

}  // namespace hvdray

#endif  // HVDRAY_CLUSTER_AGENT_BUILDS_H_
