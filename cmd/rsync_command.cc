// SPDX-License-Identifier: Apache-2.0
#include <chrono>

#include "cluster/access/actions.h"
#include "cmd/on_cluster.h"

namespace hvdray {

int RsyncUpCommand(const CommandLine& line) {
  const auto run = [](const std::vector<std::string>& words, const DirectoryRules& rules) {
    CommandLine job{words, std::chrono::steady_clock::now()};
    job.sync_rules = &rules;
    return RunCommand(job);
  };
  return OnCluster("rsync-up", line, [&run](ClusterAccess& access, const CommandRequest& request) {
    return RsyncUp(access, request, run);
  });
}

int RsyncDownCommand(const CommandLine& line) { return OnCluster("rsync-down", line, &RsyncDown); }

}  // namespace hvdray
