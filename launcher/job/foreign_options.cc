// SPDX-License-Identifier: Apache-2.0
#include "launcher/job/foreign_options.h"

#include <algorithm>
#include <array>
#include <string>

namespace hvdray {
namespace {

constexpr std::string_view kNumber = "-np N sets the number of workers";
constexpr std::string_view kPerHost =
    "-H localhost:N or -H a:N,b:N: each host with its number of workers";
constexpr std::string_view kHosts = "-H a:4,b:4: each host with its number of workers";
constexpr std::string_view kOneLaunch =
    "leave it out: one hvdray run starts the workers on all hosts, see -H a:4,b:4";
constexpr std::string_view kRendezvous =
    "leave it out: hvdray provides the rendezvous; --master-port sets a port";
constexpr std::string_view kHostfile = "--hostfile FILE";
constexpr std::string_view kEnv =
    "-x NAME=VALUE, or -x NAME to forward a variable that is set here";
constexpr std::string_view kDirectory = "--cwd DIR";
constexpr std::string_view kBinding =
    "hvdray binds no cores: start the command through taskset or numactl";
constexpr std::string_view kMpi =
    "hvdray does not use MPI: --network-interfaces chooses networks, -x NAME=VALUE sets variables";
constexpr std::string_view kRayMode =
    "leave it out: a placement group reserves all slots of a job on Ray at once";
constexpr std::string_view kModule =
    "put the interpreter first: hvdray run -np 4 -- python -m MODULE";
constexpr std::string_view kTag = "each line already begins with its rank; see --tag-output";
constexpr std::string_view kGpus =
    "a worker takes its GPU by LOCAL_RANK; give each host a slot for each GPU: -H a:8,b:8; on Ray: "
    "--gpus-per-slot";
constexpr std::string_view kLogs = "--output-filename DIR, and --tag-output for the terminal";

struct Foreign {
  std::string_view name;  ///< Without leading dashes, with '-' for '_'.
  std::string_view hint;
};

constexpr auto kForeign = std::to_array<Foreign>({
    {"n", kNumber},
    {"ntasks", kNumber},
    {"nproc-per-node", kPerHost},
    {"npernode", kPerHost},
    {"ntasks-per-node", kPerHost},
    {"num-gpus", kPerHost},
    {"perhost", kPerHost},
    {"ppn", kPerHost},
    {"oversubscribe", kPerHost},
    {"N", kPerHost},
    {"nnodes", kHosts},
    {"nodes", kHosts},
    {"nodelist", kHosts},
    {"host", kHosts},
    {"node-rank", kOneLaunch},
    {"master-addr", kRendezvous},
    {"rdzv-backend", kRendezvous},
    {"rdzv-conf", kRendezvous},
    {"rdzv-endpoint", kRendezvous},
    {"rdzv-id", kRendezvous},
    {"standalone", kRendezvous},
    {"machinefile", kHostfile},
    {"env-list", kEnv},
    {"genv", kEnv},
    {"wd", kDirectory},
    {"wdir", kDirectory},
    {"chdir", kDirectory},
    {"bind-to", kBinding},
    {"map-by", kBinding},
    {"rank-by", kBinding},
    {"cpu-bind", kBinding},
    {"mca", kMpi},
    {"gmca", kMpi},
    {"m", kModule},
    {"module", kModule},
    {"no-python", "leave it out: the command runs as given"},
    {"l", kTag},
    {"label", kTag},
    {"gres", kGpus},
    {"gpus", kGpus},
    {"gpus-per-node", kGpus},
    {"gpus-per-task", kGpus},
    {"export",
     "workers inherit this environment; -x NAME=VALUE adds to it, --clean-env leaves it out"},
    {"time", "--timeout TIME: 90, 30m, 2h"},
    {"time-limit", "--timeout TIME: 90, 30m, 2h"},
    {"allow-run-as-root", "leave it out: root may run jobs"},
    {"display-map", "--print-plan"},
    {"log-dir", kLogs},
    {"ray-mode", kRayMode},
    {"redirects", kLogs},
    {"tee", kLogs},
});

}  // namespace

std::string_view HintForForeignOption(std::string_view option) {
  option.remove_prefix(std::min(option.find_first_not_of('-'), option.size()));
  std::string name(option);
  std::replace(name.begin(), name.end(), '_', '-');
  const auto found = std::find_if(kForeign.begin(), kForeign.end(),
                                  [&name](const Foreign& row) { return row.name == name; });
  return found == kForeign.end() ? std::string_view() : found->hint;
}

}  // namespace hvdray
