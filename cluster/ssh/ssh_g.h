// One run of `ssh -G`.
#ifndef HVDRAY_CLUSTER_SSH_SSH_G_H_
#define HVDRAY_CLUSTER_SSH_SSH_G_H_

#include <optional>
#include <string>
#include <vector>

#include "base/result.h"
#include "cluster/ssh/ssh_config.h"
#include "cluster/ssh/ssh_limit.h"
#include "cluster/ssh/ssh_target.h"

namespace hvdray {

struct SshGOutput {
  std::vector<SshConfigLine> lines;
  std::string errors;  ///< What it wrote to stderr.
};

/// `program` is looked up in PATH; nullopt: there is none. `is_verbose`: with -v, for
/// FilesReadBySsh(). Blocks. Threads: any. Errors: kSpecInvalid (ssh's own words), kConnectTimeout,
/// kCancelled.
Result<std::optional<SshGOutput>> RunSshG(const std::string& program, const SshTarget& target,
                                          const SshOverrides& overrides, bool is_verbose,
                                          const SshLimit& limit);

/// Not a script: one called ssh may have rules of its own for each host. Looks into PATH as
/// RunSshG() does. Blocks. Threads: any.
bool IsCompiledProgram(const std::string& program);

}  // namespace hvdray

#endif  // HVDRAY_CLUSTER_SSH_SSH_G_H_
