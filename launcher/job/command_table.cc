// SPDX-License-Identifier: Apache-2.0
// The rows of the commands. A new command needs a row here, and a function in cmd/main.cc.
#include <algorithm>

#include "base/status.h"
#include "launcher/job/option_table.h"

namespace hvdray {
namespace {

using Id = OptionId;
using In = CommandGroup;

// clang-format off
constexpr HelpExample kRunExamples[] = {
    {"four workers on this machine", "hvdray run -np 4 python train.py"},
    {"two hosts with four slots each", "hvdray run -np 8 -H node1:4,node2:4 python train.py"},
    {"a job from a file, with one flag overridden", "hvdray run -f job.yaml --grace 60"},
    {"hosts and job from a cluster file", "hvdray run --cluster configs/quickstart.yaml"},
    {"on a Ray cluster, from a machine without Ray",
     "hvdray run -np 4 --ray-address http://10.0.0.10:8265 --working-dir . python train.py"},
    {"show which rank would run where", "hvdray run -np 4 --dry-run --print-plan python train.py"},
    {"show where each setting comes from", "hvdray run -f job.yaml --print-config"},
};

constexpr HelpExample kCheckExamples[] = {
    {"would a job start on these hosts?", "hvdray check -H node1:4,node2:4"},
    {"is the command there, too?", "hvdray check -H node1:4,node2:4 -- python train.py"},
    {"can its Python import torch?",
     "hvdray check -H node1:4,node2:4 --import torch -- python train.py"},
    {"a job file, machine-readable", "hvdray check -f job.yaml --json"},
};
constexpr CommandOption kCheckOptions[] = {
    {Id::kJson, "Print one JSON object (docs/check.md) instead of text."}, {Id::kImport},
    // The options of run that affect a check.
    {Id::kHosts}, {Id::kHostfile}, {Id::kCluster}, {Id::kNumProc}, {Id::kJobFile}, {Id::kCwd}, {Id::kEnv},
    {Id::kStartTimeout}, {Id::kHeartbeatTimeout}, {Id::kSshPort}, {Id::kSshIdentityFile},
    {Id::kSshTransport}, {Id::kSshConfig}, {Id::kStrictHostKeyChecking},
    {Id::kLaunchAgent}, {Id::kRemoteDir},
    {Id::kNetworkInterfaces}, {Id::kColor, "Shade the matrices of the network. auto: on a terminal, unless NO_COLOR is set."},
    {Id::kVerbose}, {Id::kHelp}, {Id::kVersion},
};

constexpr HelpExample kServeExamples[] = {
    {"a client in a shell", "hvdray serve -H node1:4,node2:4 --control /run/user/1000/gangs.sock -- sh worker.sh"},
    {"a program that holds the other end of descriptor 3", "hvdray serve -np 4 --control-fd 3 -- ./worker"},
};

constexpr CommandOption kServeOptions[] = {
    {Id::kControlFd}, {Id::kControl}, {Id::kLinger}, {Id::kHostSource}, {Id::kRayBrokerFd}, {Id::kRayAddress},
    // The options of run that matter most.
    {Id::kHosts}, {Id::kHostfile}, {Id::kCluster}, {Id::kNumProc}, {Id::kJobFile}, {Id::kCwd}, {Id::kSync},
    {Id::kEnv}, {Id::kMinNp}, {Id::kMaxNp}, {Id::kHostDiscoveryScript}, {Id::kElasticMode},
    {Id::kGrace}, {Id::kTimeout}, {Id::kStartTimeout}, {Id::kMaxRestarts}, {Id::kOutputFilename},
    {Id::kTagOutput}, {Id::kEvents}, {Id::kQuiet}, {Id::kVerbose}, {Id::kHelp}, {Id::kVersion},
};

constexpr HelpExample kReplayExamples[] = {
    {"what happened in the job", "hvdray replay job.record"},
    {"as a test: prints nothing if all rules hold", "hvdray replay -q job.record"},
    {"machine-readable", "hvdray replay --json job.record"},
};
constexpr CommandOption kReplayOptions[] = {
    {Id::kJson, "Print one JSON object (docs/replay.md) instead of text."},
    {Id::kQuiet, "Print only problems."},
    {Id::kHelp}, {Id::kVersion, "Show the version and exit."},
};

// How a command reaches a Ray cluster.
constexpr CommandOption kRay = {Id::kRay, "Query a Ray cluster."};
constexpr CommandOption kCluster = {
    Id::kCluster, "Query the Ray on the head of this cluster file, through SSH if needed."};
constexpr CommandOption kPeer = {
    Id::kPeerCheck, "Trust a dashboard that another user runs, on this machine or on the head, too."};
constexpr CommandOption kAnswerTimeout = {Id::kTimeout, "How long to wait for each answer.", "30"};
constexpr CommandOption kRayJson = {Id::kJson, "Print one JSON object (docs/ray.md) instead of text."};

constexpr HelpExample kFollowExamples[] = {
    {"show its output, return its exit code", "hvdray follow \"$id\" --ray-address http://10.0.0.10:8265"},
    {"write its files, too", "hvdray follow \"$id\" --report r.json --output-filename out"},
};
constexpr CommandOption kConnectTimeout = {Id::kStartTimeout, "How long connecting may take."};
constexpr CommandOption kFollowOptions[] = {
    {Id::kRayAddress}, kCluster, {Id::kRayVerify}, {Id::kRayHeaders}, kPeer, kAnswerTimeout,
    {Id::kQuiet}, {Id::kReport, "Write the job's report to FILE when it ends."},
    {Id::kEvents, "Write its events to FILE, if it was submitted with --events."},
    {Id::kJunit, "The same for --junit."}, {Id::kTrace, "The same for --trace."},
    {Id::kRecord, "The same for --record."},
    {Id::kOutputFilename, "Also write each worker's output to DIR/rank.N/stdout and stderr."},
    {Id::kSshPort}, {Id::kSshIdentityFile}, {Id::kSshConfig}, {Id::kStrictHostKeyChecking},
    kConnectTimeout, {Id::kHelp},
};

// How a command reaches the machines of a cluster file.
constexpr CommandOption kFileName = {Id::kClusterName};
constexpr CommandOption kFileVerbose = {Id::kClusterVerbose};
constexpr CommandOption kRaysOwn = {Id::kNoConfigCache};

constexpr std::string_view kSshExitCodes =
    "2 wrong usage, or no such file; 125 the machine cannot be reached; 129, 130, 143 stopped by SIGHUP, "
    "SIGINT, SIGTERM.";

constexpr HelpExample kExecExamples[] = {
    {"a command on the head", "hvdray exec ray_cluster.yaml 'ray status'"},
    {"in a tmux session that stays", "hvdray exec ray_cluster.yaml --tmux 'python train.py'"},
    {"with TensorBoard's port", "hvdray exec ray_cluster.yaml -p 6006 'tensorboard --logdir runs'"},
};
constexpr CommandOption kExecOptions[] = {
    {Id::kTmux}, {Id::kScreen}, {Id::kPortForward}, {Id::kRunEnv}, {Id::kNodeIp}, {Id::kStart}, {Id::kStop}, kFileName,
    {Id::kSshIdentityFile}, {Id::kSshConfig}, {Id::kStrictHostKeyChecking}, kConnectTimeout, kFileVerbose,
    kRaysOwn, {Id::kHelp},
};
constexpr HelpExample kAttachExamples[] = {
    {"a shell on the head", "hvdray attach ray_cluster.yaml"},
    {"the tmux session that exec or submit began", "hvdray attach ray_cluster.yaml --tmux"},
    {"a shell on a worker", "hvdray attach ray_cluster.yaml --node-ip 10.0.0.11"},
};
constexpr CommandOption kAttachOptions[] = {
    {Id::kTmux, "Show the tmux session there, or begin one."},
    {Id::kScreen, "Show the screen there, or begin one."}, {Id::kNewWindow}, {Id::kPortForward}, {Id::kRunEnv},
    {Id::kNodeIp}, {Id::kStart}, kFileName, {Id::kSshIdentityFile}, {Id::kSshConfig},
    {Id::kStrictHostKeyChecking}, kConnectTimeout, kFileVerbose, kRaysOwn, {Id::kHelp},
};
constexpr HelpExample kSubmitExamples[] = {
    {"copy a script to the head and run it", "hvdray submit ray_cluster.yaml train.py --epochs 3"},
    {"leave it running in tmux", "hvdray submit ray_cluster.yaml --tmux train.py"},
    {"on eight slots of the cluster", "hvdray submit ray_cluster.yaml --gang -np 8 train.py"},
    {"on two to eight", "hvdray submit ray_cluster.yaml --gang --min-np 2 --max-np 8 train.py"},
};
constexpr CommandOption kSubmitOptions[] = {
    {Id::kGang}, {Id::kTmux}, {Id::kScreen}, {Id::kPortForward}, {Id::kRunEnv}, {Id::kStart}, {Id::kStop}, kFileName,
    {Id::kSshIdentityFile}, {Id::kSshConfig}, {Id::kStrictHostKeyChecking}, kConnectTimeout, kFileVerbose,
    kRaysOwn, {Id::kHelp},
};
constexpr HelpExample kRsyncUpExamples[] = {
    {"a directory to the head", "hvdray rsync-up ray_cluster.yaml ./data '~/data'"},
    {"to all machines", "hvdray rsync-up -A ray_cluster.yaml ./data '~/data'"},
    {"the file_mounts of the file again", "hvdray rsync-up ray_cluster.yaml"},
};
constexpr CommandOption kRsyncUpOptions[] = {
    {Id::kAllNodes}, kFileName, {Id::kSshIdentityFile}, {Id::kSshConfig}, {Id::kStrictHostKeyChecking},
    kConnectTimeout, kFileVerbose, kRaysOwn, {Id::kHelp},
};
constexpr HelpExample kRsyncDownExamples[] = {
    {"results from the head", "hvdray rsync-down ray_cluster.yaml '~/results' ./results"},
};
constexpr CommandOption kRsyncDownOptions[] = {
    kFileName, {Id::kSshIdentityFile}, {Id::kSshConfig}, {Id::kStrictHostKeyChecking}, kConnectTimeout,
    kFileVerbose, kRaysOwn, {Id::kHelp},
};
constexpr HelpExample kHeadIpExamples[] = {
    {"log in by hand", "ssh \"$(hvdray get-head-ip ray_cluster.yaml)\""},
};
constexpr HelpExample kWorkerIpsExamples[] = {
    {"one address per line", "hvdray get-worker-ips ray_cluster.yaml"},
};
constexpr CommandOption kIpOptions[] = {kFileName, kRaysOwn, {Id::kHelp}};
constexpr HelpExample kDashboardExamples[] = {
    {"on http://127.0.0.1:8265", "hvdray dashboard ray_cluster.yaml"},
    {"on another port", "hvdray dashboard -p 9000 ray_cluster.yaml"},
};
constexpr CommandOption kDashboardOptions[] = {
    {Id::kDashboardPort}, {Id::kRemotePort},
    {Id::kPeerCheck, "Let every user of this machine connect."}, kFileName, {Id::kSshIdentityFile}, {Id::kSshConfig},
    {Id::kStrictHostKeyChecking}, kConnectTimeout, kFileVerbose, kRaysOwn, {Id::kHelp},
};
constexpr HelpExample kMonitorExamples[] = {
    {"a live table, until Ctrl-C", "hvdray monitor ray_cluster.yaml"},
    {"changes, one per line", "hvdray monitor ray_cluster.yaml | tee monitor.log"},
    {"machine-readable, one object per look", "hvdray monitor ray_cluster.yaml --json --interval 10"},
};
constexpr CommandOption kMonitorOptions[] = {
    {Id::kInterval}, {Id::kJson, "Print one JSON object (docs/cluster.md) per look, each on a line."}, kFileName,
    {Id::kSshIdentityFile}, {Id::kSshConfig}, {Id::kStrictHostKeyChecking}, kConnectTimeout, kAnswerTimeout,
    kPeer, kFileVerbose, kRaysOwn, {Id::kHelp},
};
constexpr HelpExample kLogsExamples[] = {
    {"which logs the head has", "hvdray logs ray_cluster.yaml head"},
    {"the end of one", "hvdray logs ray_cluster.yaml 10.0.0.11 raylet.out --lines 50"},
    {"follow it", "hvdray logs ray_cluster.yaml 10.0.0.11 raylet.out -f"},
    {"what a job has written", "hvdray logs \"$id\" --ray-address http://10.0.0.10:8265"},
    {"of a job on a cluster's head, until it ends", "hvdray logs \"$id\" --cluster ray_cluster.yaml -f"},
};
constexpr CommandOption kLogsOptions[] = {
    {Id::kLines},
    {Id::kFollow, "Print what is added to the log, until the job ends, or Ctrl-C."},
    kRay, {Id::kRayAddress}, kCluster, {Id::kRayVerify}, {Id::kRayHeaders}, kPeer, kFileName,
    {Id::kSshPort}, {Id::kSshIdentityFile}, {Id::kSshConfig}, {Id::kStrictHostKeyChecking}, kConnectTimeout, kAnswerTimeout, kFileVerbose,
    kRaysOwn, {Id::kHelp},
};

constexpr std::string_view kLookExitCodes =
    "0 success; 2 wrong usage, no cluster at this address, or access denied; 125 the cluster returned an "
    "error.";
constexpr CommandOption kLookOptions[] = {
    kRay, {Id::kRayAddress}, kCluster, {Id::kRayVerify}, {Id::kRayHeaders}, kPeer, kAnswerTimeout, kRayJson,
    {Id::kSshPort}, {Id::kSshIdentityFile}, {Id::kSshConfig}, {Id::kStrictHostKeyChecking},
    kConnectTimeout, {Id::kHelp},
};
constexpr CommandOption kStatusOptions[] = {
    kRay, {Id::kRayAddress}, kCluster, {Id::kRayVerify}, {Id::kRayHeaders}, kPeer, kAnswerTimeout, kRayJson,
    kFileName, {Id::kSshPort}, {Id::kSshIdentityFile}, {Id::kSshConfig}, {Id::kStrictHostKeyChecking}, kConnectTimeout,
    {Id::kHelp},
};
constexpr HelpExample kStatusExamples[] = {
    {"a cluster: machines, what they do, and why not", "hvdray status ray_cluster.yaml"},
    {"the Ray of RAY_API_SERVER_ADDRESS, RAY_ADDRESS, or this machine", "hvdray status --ray"},
    {"a job on it", "hvdray status \"$id\""},
    {"machine-readable", "hvdray status --ray --json"},
};
constexpr HelpExample kJobsExamples[] = {
    {"running, pending and ended jobs", "hvdray jobs --ray"},
    {"on another cluster", "hvdray jobs --ray-address http://10.0.0.10:8265"},
    {"machine-readable", "hvdray jobs --ray --json"},
};
constexpr HelpExample kSlotsExamples[] = {
    {"slots with one CPU", "hvdray slots --ray"},
    {"slots with four CPUs and a GPU", "hvdray slots --ray --cpus-per-slot 4 --use-gpu"},
    {"machine-readable", "hvdray slots --ray --json"},
};
constexpr CommandOption kSlotsOptions[] = {
    kRay, {Id::kRayAddress}, kCluster, {Id::kRayVerify}, {Id::kRayHeaders}, kPeer, kAnswerTimeout, kRayJson,
    {Id::kCpusPerSlot, "CPUs per slot."},
    {Id::kGpusPerSlot, "GPUs per slot, a whole number; needs --use-gpu."},
    {Id::kUseGpu, "Count slots with a GPU."},
    {Id::kResourcesPerSlot,
     "Other resources per slot, by their names in the cluster, or memory=1GiB. Repeatable."},
    {Id::kLabelSelector}, {Id::kSshPort}, {Id::kSshIdentityFile}, {Id::kSshConfig}, {Id::kStrictHostKeyChecking},
    kConnectTimeout, {Id::kHelp},
};

constexpr HelpExample kClusterExamples[] = {
    {"the file with all defaults", "hvdray cluster config ray_cluster.yaml"},
    {"for a real ray", "hvdray cluster config --resolved ray_cluster.yaml > for_ray.yaml"},
    {"an old file in the modern form", "hvdray cluster migrate old.yaml > ray_cluster.yaml"},
};
constexpr CommandOption kClusterOptions[] = {
    {Id::kResolved}, {Id::kJson, "Print JSON instead of YAML."}, {Id::kClusterName}, {Id::kMinWorkers},
    {Id::kMaxWorkers}, {Id::kHelp},
};

constexpr HelpExample kStopExamples[] = {
    {"a job that hvdray run --detach left", "hvdray stop \"$id\" --ray-address http://10.0.0.10:8265"},
    {"all jobs on a cluster", "hvdray stop ray_cluster.yaml"},
    {"one of them", "hvdray stop ray_cluster.yaml \"$id\""},
};
constexpr CommandOption kStopOptions[] = {
    {Id::kTimeout, "How long to wait until the jobs are over.", "60"},
    {Id::kRay, "Stop jobs of a Ray cluster: those named, or all."}, {Id::kRayAddress},
    {Id::kCluster, "Stop jobs of the Ray on the head of this cluster file, as FILE does."}, {Id::kRayVerify},
    {Id::kRayHeaders}, kPeer, kFileName, {Id::kSshPort}, {Id::kSshIdentityFile}, {Id::kSshConfig}, {Id::kStrictHostKeyChecking},
    kConnectTimeout, kFileVerbose, {Id::kHelp},
};
constexpr CommandOption kNodesReport = {
    Id::kReport, "Write what became of each node, and what it cost, as one JSON object."};
constexpr CommandOption kNodesEvents = {Id::kEvents};

constexpr HelpExample kUpExamples[] = {
    {"start it, or bring it up to date", "hvdray up ray_cluster.yaml"},
    {"only show what would be done", "hvdray up --dry-run ray_cluster.yaml"},
    {"in a script", "hvdray up --yes ray_cluster.yaml"},
    {"restart Ray everywhere", "hvdray up --restart-only ray_cluster.yaml"},
    {"let it end by itself tonight", "hvdray up --lease 8h ray_cluster.yaml"},
};
constexpr CommandOption kUpOptions[] = {
    {Id::kDryRun, "Only show what would be created, changed and kept."}, {Id::kYes}, {Id::kRestartOnly},
    {Id::kNoRestart}, {Id::kForceSetup}, {Id::kLease}, {Id::kClusterName}, {Id::kMinWorkers},
    {Id::kMaxWorkers}, {Id::kLoginShells}, {Id::kStartTimeout, "How long to try to log in to a host.", "60"},
    {Id::kSshPort}, {Id::kSshIdentityFile}, {Id::kSshTransport}, {Id::kSshConfig},
    {Id::kStrictHostKeyChecking}, {Id::kRemoteDir}, {Id::kSshConnections}, {Id::kAgentPath}, {Id::kForceRemote},
    kNodesReport, kNodesEvents, {Id::kVerbose}, {Id::kNoConfigCache}, {Id::kHelp},
};
constexpr HelpExample kDownExamples[] = {
    {"end the cluster", "hvdray down ray_cluster.yaml"},
    {"in a script", "hvdray down --yes ray_cluster.yaml"},
    {"keep the head", "hvdray down --workers-only ray_cluster.yaml"},
    {"at AWS, leave nothing behind", "hvdray down --purge ray_cluster.yaml"},
    {"from cron, if its lease has ended", "hvdray down --yes --expired ray_cluster.yaml"},
};
constexpr CommandOption kDownOptions[] = {
    {Id::kYes}, {Id::kWorkersOnly}, {Id::kKeepMinWorkers}, {Id::kPurge}, {Id::kExpired}, {Id::kClusterName},
    {Id::kStartTimeout, "How long to try to log in to a host.", "20"},
    {Id::kSshPort}, {Id::kSshIdentityFile}, {Id::kSshTransport}, {Id::kSshConfig},
    {Id::kStrictHostKeyChecking}, {Id::kRemoteDir}, {Id::kSshConnections}, {Id::kAgentPath}, {Id::kForceRemote},
    kNodesReport, kNodesEvents, {Id::kVerbose}, {Id::kNoConfigCache}, {Id::kHelp},
};

constexpr HelpExample kRendezvousExamples[] = {
    {"for workers on this machine, on a free port", "hvdray rendezvous"},
    {"for workers on other hosts", "hvdray rendezvous --host 10.1.0.4 --allow 10.1.0.0/16"},
    {"on a given port", "hvdray rendezvous --port 7000"},
};
constexpr CommandOption kRendezvousOptions[] = {
    {Id::kBind}, {Id::kPort},
    {Id::kHosts, "Hosts of the workers. Sets the number of members of each scope, so that values last "
                 "until every member has read them (needed by Horovod before 0.23).", "off"},
    {Id::kAllow}, {Id::kPeerCheck, "On loopback, let every user of this machine connect."},
    {Id::kQuiet, "Print only the address, and end with the process that started it: for programs."}, {Id::kKvHold}, {Id::kHelp},
};

constexpr HelpExample kExplainExamples[] = {
    {"what an error number means", "hvdray explain HVD-E0201"},
};
constexpr CommandOption kExplainOptions[] = {{Id::kHelp}};

constexpr HelpExample kBenchExamples[] = {
    {"all-reduce of four ranks on this machine", "hvdray bench -np 4"},
    {"two hosts, from 1 KiB to 1 GiB, every collective", "hvdray bench -H node1:4,node2:4 -b 1K -e 1G --collective all"},
    {"shared memory beside the network, with a plot", "hvdray bench -np 4 --backend shm,gloo --plot=busbw.svg"},
    {"results for a program", "hvdray bench -np 2 -d float32,bfloat16 --json -"},
    {"as ranks of a job", "hvdray run -np 4 -x HVDRAY_CHECK_COLLECTIVES=0 -- hvdray bench -e 1M"},
};
constexpr CommandOption kBenchOptions[] = {
    {Id::kMinBytes}, {Id::kMaxBytes}, {Id::kStepFactor}, {Id::kStepBytes}, {Id::kCollectives}, {Id::kDataTypes},
    {Id::kReduceOps}, {Id::kRoots}, {Id::kCollectiveBackends}, {Id::kIterations}, {Id::kWarmupIterations},
    {Id::kCheckResults}, {Id::kJsonFile}, {Id::kCsvFile}, {Id::kTune}, {Id::kPlot},
    // The options of run that matter most.
    {Id::kNumProc}, {Id::kHosts}, {Id::kHostfile}, {Id::kCluster}, {Id::kEnv}, {Id::kNetworkInterfaces},
    {Id::kTimeout}, {Id::kVerbose}, {Id::kHelp}, {Id::kVersion},
};

constexpr HelpExample kTuneExamples[] = {
    {"the search that a file describes", "hvdray tune search.yaml"},
    {"go on after a kill or Ctrl-C", "hvdray tune search.yaml --resume"},
    {"its trials, and the line that runs the best again", "hvdray tune show search.tune/study.db"},
    {"plots of it", "hvdray tune show search.tune/study.db --plot plots"},
};
constexpr CommandOption kTuneOptions[] = {
    {Id::kResume}, {Id::kStudyName}, {Id::kPlotDirectory},
    {Id::kJson, "Print one JSON object (docs/tune.md) instead of text."}, {Id::kHelp},
};

constexpr CommandRow kCommands[] = {
    {.name = "run", .summary = "run a command on many slots and report the result", .group = In::kJobs,
     .arguments = "[OPTION...] [--] COMMAND [ARGUMENT...]", .is_launch = true,
     .description = "Starts COMMAND once per slot, tells every worker its rank in Horovod's and torchrun's "
                    "variables, shows the workers' output, and exits when they exit.",
     .examples = kRunExamples,
     .notes = "Options end at the first word that is not an option, or at --. Each option is also a key of the "
              "job file (num_proc) and an environment variable (HVDRAY_NUM_PROC). Flags override the "
              "environment, which overrides files. Horovod's own options may be abbreviated (--slots for "
              "--slots-per-host). Times are in seconds or have a unit: 0.5, 200ms, 2m.",
     .exit_codes = "that of the worker that failed first (128+n for signal n); 2 wrong usage, nothing "
                   "was started; 124 --timeout; 125 hvdray could not do its part; 126 command not "
                   "executable; 127 not found; 129, 130, 131, 143 hvdray received SIGHUP, SIGINT, SIGQUIT, "
                   "SIGTERM; 141 the reader of its output went away. Full list: docs/errors.md."},
    {.name = "check", .summary = "check whether a job would start, and describe its hosts", .group = In::kJobs,
     .arguments = "[OPTION...] [[--] COMMAND [ARGUMENT...]]", .is_launch = true,
     .description = "Checks whether a job would start on these hosts, and describes each host: connection, "
                    "versions, clock, disk, limits, CPUs, memory, GPUs, network, working directory, "
                    "command. Starts agents as run does, but no workers, and leaves nothing running. "
                    "Each finding says how to fix it.",
     .examples = kCheckExamples,
     .notes = "Also accepts every other option of run, so you can check a job with its own command line; those "
              "options have no effect here. --dry-run, --print-plan, --print-config and --ray are "
              "refused.",
     .exit_codes = "0 a job would start, possibly with warnings; otherwise what run would return: 2 wrong "
                   "usage or too few slots, 125 hosts or network, 126 command not executable, 127 not "
                   "found. 129, 130, 131, 143: stopped by a signal.",
     .options = kCheckOptions},
    {.name = "serve", .summary = "hold hosts and run gangs of workers for a program", .group = In::kJobs,
     .arguments = "[OPTION...] (--control-fd N | --control PATH) [--] WORKER [ARGUMENT...]",
     .is_launch = true,
     .description = "Starts agents on the hosts as run does, and then gangs of WORKER when its client says so, one "
                    "after the other on the same connections. The client talks to the workers through it and gets "
                    "each gang's verdict: the machine interface of hvdray. Ends when its client does.",
     .examples = kServeExamples,
     .notes = "Also accepts the other options of run, except --report, --junit, --stdin and plans; those for Ray "
              "with --ray-broker-fd, or with --ray-address: then one gang runs as a job on that cluster. -np is the number of slots; a gang may be smaller. With --min-np or "
              "--host-discovery-script each gang is an elastic job.",
     .exit_codes = "0 the client ended it; 2 wrong usage; 125 hvdray could not do its part; 129, 130, 131, 143 "
                   "stopped by a signal; 141 the reader of its output went away. Each gang's result goes to the client.",
     .options = kServeOptions},
    {.name = "replay", .summary = "replay an elastic job's recording and check its rules", .group = In::kTools,
     .arguments = "[OPTION...] FILE", .missing = "no recording given", .max_arguments = 1,
     .description = "Runs the elastic driver over a job's recording (hvdray run --record) in virtual "
                    "time, prints what changed and when, and stops at the first broken rule. Starts "
                    "nothing.",
     .examples = kReplayExamples,
     .exit_codes = "0 all rules hold; 1 a rule is broken, or the job ends differently from the recording; "
                   "2 wrong usage, or FILE is not a recording.",
     .options = kReplayOptions},
    {.name = "follow", .summary = "follow a job submitted to Ray", .group = In::kRay,
     .arguments = "[OPTION...] ID", .missing = "no job ID given", .max_arguments = 1,
     .description = "Follows a job on Ray from the first line of its output, and exits with its exit code. "
                    "ID is what hvdray run --detach printed. Ctrl-C leaves the job running; "
                    "hvdray stop ends it.",
     .examples = kFollowExamples,
     .exit_codes = "that of the job, as for hvdray run; 2 wrong usage, or no such job; 125 the job can no "
                   "longer be followed; 129, 130, 143 stopped by SIGHUP, SIGINT, SIGTERM, while the job "
                   "runs on.",
     .options = kFollowOptions},
    {.name = "up", .summary = "start a cluster from its file, or bring it up to date",
     .arguments = "[OPTION...] FILE", .missing = "no cluster file given", .max_arguments = 1,
     .description = "Makes the machines of a cluster file if a cloud provides them, sets up all hosts, and starts Ray "
                    "on the head and on the workers, at once. Shows first what it would do, and asks. Runs again "
                    "only what changed, and goes on where a failed or interrupted run stopped.",
     .examples = kUpExamples,
     .exit_codes = "0 all nodes are up; 2 wrong usage, an invalid file, or you declined: nothing was changed; 125 a node failed: the message says where "
                   "and why; 129, 130, 131, 143 hvdray received SIGHUP, SIGINT, SIGQUIT, SIGTERM.",
     .options = kUpOptions},
    {.name = "down", .summary = "end a cluster, and check that nothing of it is left",
     .arguments = "[OPTION...] FILE", .missing = "no cluster file given", .max_arguments = 1,
     .description = "Ends the Ray of a cluster file on all its hosts, workers first, and no other Ray of these "
                    "machines; then checks that no process of it is left. In a cloud it stops or terminates the "
                    "machines, and lists them until none is left.",
     .examples = kDownExamples,
     .exit_codes = "0 nothing of it is left; 2 wrong usage, an invalid file, or you declined: nothing was changed; 125 a host could not be reached or "
                   "cleared: the message says which, and the others are done; 129, 130, 131, 143 hvdray received "
                   "SIGHUP, SIGINT, SIGQUIT, SIGTERM.",
     .options = kDownOptions},
    {.name = "stop", .summary = "stop jobs on Ray, by name or all of a cluster", .group = In::kRay,
     .arguments = "[OPTION...] [FILE] [JOB...]", .max_arguments = SIZE_MAX,
     .description = "Stops jobs and waits until they are over. FILE (.yaml or .yml) is a cluster file, JOB what "
                    "hvdray run --detach printed or ray job submit. Without JOB, stops all jobs that were "
                    "submitted to the cluster. Its Ray runs on: hvdray down ends a cluster. The first Ctrl-C says "
                    "what is waited for, the second leaves.",
     .examples = kStopExamples,
     .exit_codes = "0 the jobs are over, or had been; 2 wrong usage, no such file, cluster or job: nothing was "
                   "stopped; 125 a job still runs, or the cluster returned an error; 129, 130, 143 stopped by "
                   "SIGHUP, SIGINT, SIGTERM.",
     .options = kStopOptions},
    {.name = "status", .summary = "show a cluster: its machines, usage, pending requests; or a job",
     .arguments = "[OPTION...] [FILE | JOB]", .max_arguments = 1,
     .description = "Shows what a cluster has, how much of it is in use, and what is pending. FILE (.yaml or "
                    ".yml) is a cluster file; its machines are shown whether they run or not, with the reason. "
                    "JOB, what hvdray run --detach or ray job submit printed: its state, its entrypoint and what "
                    "Ray says of it. Changes nothing.",
     .examples = kStatusExamples,
     .exit_codes = kLookExitCodes, .options = kStatusOptions},
    {.name = "monitor", .summary = "watch a cluster until Ctrl-C",
     .arguments = "[OPTION...] FILE", .missing = "no cluster file given", .max_arguments = 1,
     .description = "Shows what hvdray status FILE shows, again and again: on a terminal a table that is redrawn "
                    "in place, otherwise a line for each change. Survives a head that is away for a while.",
     .examples = kMonitorExamples,
     .exit_codes = "2 wrong usage, or no such file; 125 no cluster answered the first look; 129, 130, 143 stopped "
                   "by SIGHUP, SIGINT, SIGTERM; 141 the reader of its output went away.",
     .options = kMonitorOptions},
    {.name = "exec", .summary = "run a command on a cluster's head",
     .arguments = "[OPTION...] FILE COMMAND", .missing = "no cluster file given", .max_arguments = SIZE_MAX,
     .description = "Runs a shell command on the head of a cluster, in the login environment of the file's user, "
                    "and exits with its exit code. If stdin and stdout are a terminal, the command gets one, too; "
                    "otherwise its output arrives byte by byte, and it ends when hvdray does.",
     .examples = kExecExamples,
     .notes = "A COMMAND of several words is passed on word by word; put its own options after --.",
     .exit_codes = "that of the command (128+n for signal n); 2 wrong usage, or no such file; 125 the machine "
                   "cannot be reached; 129, 130, 143 stopped by SIGHUP, SIGINT, SIGTERM.",
     .options = kExecOptions},
    {.name = "attach", .summary = "open a shell on a cluster's head",
     .arguments = "[OPTION...] FILE", .missing = "no cluster file given", .max_arguments = 1,
     .description = "Opens a terminal on the head of a cluster, or on another of its machines. Exits with the "
                    "exit code of the shell.",
     .examples = kAttachExamples, .exit_codes = kSshExitCodes,
     .options = kAttachOptions},
    {.name = "submit", .summary = "run a script on a cluster",
     .arguments = "[OPTION...] FILE [OPTION...] SCRIPT [ARGUMENT...]", .missing = "no cluster file given",
     .is_launch = true,
     .description = "Copies SCRIPT to a directory of its own on the head, runs it from the home directory with "
                    "python, each argument as it is, and exits with its exit code. With --gang: sends the directory of SCRIPT and runs "
                    "it on many slots of the cluster, as hvdray run does; then every option of run applies.",
     .examples = kSubmitExamples,
     .exit_codes = "that of the script (128+n for signal n), with --gang that of hvdray run; 2 wrong usage, or no "
                   "such file; 125 the head cannot be reached; 129, 130, 143 stopped by SIGHUP, SIGINT, SIGTERM.",
     .options = kSubmitOptions},
    {.name = "rsync-up", .summary = "copy files to a cluster",
     .arguments = "[OPTION...] FILE [SOURCE TARGET]", .missing = "no cluster file given", .max_arguments = 3,
     .description = "Copies SOURCE of this machine to TARGET on the head, differences only: with rsync where "
                    "both sides have it, else a directory as hvdray run --sync does. Without SOURCE and TARGET, "
                    "copies the file_mounts of the file again.",
     .examples = kRsyncUpExamples,
     .exit_codes = "0 success; 2 wrong usage, or no such file; 125 a machine cannot be reached, or not all was "
                   "copied.",
     .options = kRsyncUpOptions},
    {.name = "rsync-down", .summary = "copy files from a cluster",
     .arguments = "[OPTION...] FILE SOURCE TARGET", .missing = "no cluster file given", .max_arguments = 3,
     .description = "Copies SOURCE of the head to TARGET on this machine, differences only. Needs rsync on both.",
     .examples = kRsyncDownExamples,
     .exit_codes = "0 success; 2 wrong usage, or no such file; 125 the head cannot be reached, or not all was "
                   "copied.",
     .options = kRsyncDownOptions},
    {.name = "get-head-ip", .summary = "print the address of a cluster's head",
     .arguments = "[OPTION...] FILE", .missing = "no cluster file given", .max_arguments = 1,
     .description = "Prints the address at which this machine reaches the head of a cluster.",
     .examples = kHeadIpExamples,
     .exit_codes = "0 success; 2 wrong usage, or no such file; 125 the cluster has no head.",
     .options = kIpOptions},
    {.name = "get-worker-ips", .summary = "print the addresses of a cluster's workers",
     .arguments = "[OPTION...] FILE", .missing = "no cluster file given", .max_arguments = 1,
     .description = "Prints the addresses of a cluster's machines without the head, one per line.",
     .examples = kWorkerIpsExamples,
     .exit_codes = "0 success, also without workers; 2 wrong usage, or no such file; 125 the cluster has no head.",
     .options = kIpOptions},
    {.name = "dashboard", .summary = "forward a cluster's dashboard to this machine",
     .arguments = "[OPTION...] FILE", .missing = "no cluster file given", .max_arguments = 1,
     .description = "Forwards a port of this machine's loopback to the dashboard on the head, until Ctrl-C. Prints "
                    "the URL once it can be opened.",
     .examples = kDashboardExamples, .exit_codes = kSshExitCodes,
     .options = kDashboardOptions},
    {.name = "logs", .summary = "show the logs of a cluster's machine, or of a job on Ray",
     .arguments = "[OPTION...] (FILE NODE [LOG] | JOB)", .missing = "no cluster file or job given",
     .max_arguments = 3,
     .description = "Lists the logs that Ray keeps on a machine of the cluster, or prints one. FILE (.yaml or "
                    ".yml) is a cluster file. NODE: its address, the beginning of its Ray id, or head. JOB, what "
                    "hvdray run --detach or ray job submit printed: prints what it has written so far. hvdray "
                    "follow also exits as a job of hvdray does.",
     .examples = kLogsExamples,
     .exit_codes = "0 success, however the job ended; 2 wrong usage, no such file, node or job; 125 the cluster returned an error; 129, 130, "
                   "143 stopped by SIGHUP, SIGINT, SIGTERM.",
     .options = kLogsOptions},
    {.name = "jobs", .summary = "list hvdray's jobs on a Ray cluster and their status", .group = In::kRay,
     .arguments = "[OPTION...]",
     .description = "Lists the jobs that hvdray has submitted to a Ray cluster, newest first, for as long "
                    "as Ray remembers them. Omits other jobs.",
     .examples = kJobsExamples, .exit_codes = kLookExitCodes,
     .options = kLookOptions},
    {.name = "slots", .summary = "show how many slots a job could get from a Ray cluster now", .group = In::kRay,
     .arguments = "[OPTION...]",
     .description = "Shows how many slots a job could get from a Ray cluster now, node by node. Counts only "
                    "what is free. Reserves nothing.",
     .examples = kSlotsExamples, .exit_codes = kLookExitCodes,
     .options = kSlotsOptions},
    {.name = "cluster", .summary = "print a cluster file as hvdray or Ray reads it, or rewrite an old one",
     .arguments = "[OPTION...] config|migrate FILE", .missing = "no cluster file given", .max_arguments = 2,
     .description = "config checks a cluster file and prints it with every default filled in. migrate prints "
                    "it in the modern form: keys of older Ray versions become those that replaced them, and "
                    "nothing is filled in. Comments are lost. Changes nothing.",
     .examples = kClusterExamples,
     .exit_codes = "0 success, possibly with warnings; 2 wrong usage, or the file is wrong.",
     .options = kClusterOptions},
    {.name = "bench", .summary = "measure collectives: time and bandwidth over size", .group = In::kTools,
     .arguments = "[OPTION...]", .is_launch = true,
     .description = "Measures the collectives of hvdray's library over a sweep of sizes, checks their results, and "
                    "prints a table with the columns of nccl-tests. With -np or -H it starts its ranks as hvdray run "
                    "does; under hvdray run it is one of the ranks.",
     .examples = kBenchExamples,
     .notes = "Also accepts the other options of run, where spellings do not clash. Separate list items by commas. "
              "hvdray-bench, which does the work, must be beside hvdray, on other hosts too.",
     .exit_codes = "0 all results are right; 1 a result is wrong, or a rank failed; 2 wrong usage, nothing was "
                   "measured; otherwise as run.",
     .options = kBenchOptions},
    {.name = "tune", .summary = "search for hyperparameters, each trial on its slots", .group = In::kJobs,
     .arguments = "[OPTION...] FILE | show STORAGE", .missing = "no file of a search given", .max_arguments = 2,
     .description = "Runs the search that FILE describes: Optuna chooses parameters, and trials run side by side on as "
                    "many slots as there are. show prints the trials of a study: STORAGE is its file of SQLite or the URL "
                    "of a database. Needs the Python package: pip install '.[tune]' in hvdray's sources.",
     .examples = kTuneExamples,
     .notes = "Takes the python3 of the virtual environment that hvdray is in, else the first on PATH.",
     .exit_codes = "0 a trial has a result; 1 none has; 2 wrong usage, or the file is wrong; 125 the search can't go on; "
                   "129, 130, 143 ended by SIGHUP, SIGINT, SIGTERM.",
     .options = kTuneOptions},
    {.name = "rendezvous", .summary = "serve Horovod's rendezvous for workers that hvdray does not start", .group = In::kTools,
     .arguments = "[OPTION...]",
     .description = "Serves Horovod's rendezvous for workers that something else starts. Prints ADDRESS "
                    "and PORT on the first line of stdout, then the variables that a worker needs in addition "
                    "to HOROVOD_RANK, _SIZE, _LOCAL_RANK, _LOCAL_SIZE, _CROSS_RANK and _CROSS_SIZE. "
                    "Runs until SIGINT, SIGTERM or SIGHUP.",
     .examples = kRendezvousExamples,
     .exit_codes = "129, 130, 143 stopped by SIGHUP, SIGINT, SIGTERM; 2 wrong usage; 125 cannot listen; "
                   "141 the reader of its stdout went away.",
     .options = kRendezvousOptions},
    {.name = "explain", .summary = "say what an error means and what to do about it", .group = In::kTools,
     .arguments = "[ERROR...]", .max_arguments = SIZE_MAX,
     .description = "Says what an error means and what to do about it. ERROR is the number at the end of a "
                    "message (HVD-E0201, or 201), or its name in reports (host_unreachable). Without "
                    "ERROR, lists all errors, one per line.",
     .examples = kExplainExamples,
     .exit_codes = "0 success; 2 no such error.", .options = kExplainOptions},
    {.name = "agent", .summary = "per-host side of run; hvdray starts it itself", .group = In::kTools},
};
// clang-format on

}  // namespace

std::span<const CommandRow> CommandTable() { return kCommands; }

const CommandRow& CommandNamed(std::string_view name) {
  const CommandRow* row = std::ranges::find(kCommands, name, &CommandRow::name);
  HVDRAY_CHECK(row != std::end(kCommands));
  return *row;
}

std::vector<OptionRow> OptionsOf(const CommandRow& command) {
  if (command.options.empty()) return {OptionTable().begin(), OptionTable().end()};
  std::vector<OptionRow> rows;
  for (const CommandOption& option : command.options) {
    if (RowOf(option.id).group == OptionGroup::kDeveloper) continue;
    OptionRow& row = rows.emplace_back(RowOf(option.id));
    if (!option.help.empty()) row.help = option.help;
    if (!option.default_text.empty()) row.default_text = option.default_text;
  }
  return rows;
}

}  // namespace hvdray
