// SPDX-License-Identifier: Apache-2.0
#include "cluster/access/actions.h"
#include "cmd/on_cluster.h"

namespace hvdray {

int ExecCommand(const CommandLine& line) { return OnCluster("exec", line, &ExecOnCluster); }

int AttachCommand(const CommandLine& line) { return OnCluster("attach", line, &AttachToCluster); }

}  // namespace hvdray
