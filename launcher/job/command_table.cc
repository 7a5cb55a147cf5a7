// SPDX-License-Identifier: Apache-2.0
// The rows of the commands. A new command needs a row here, and a function in cmd/main.cc.
#include <algorithm>

#include "base/status.h"
#include "launcher/job/option_table.h"

namespace hvdray {
namespace {

using Id = OptionId;

// clang-format off
constexpr HelpExample kRunExamples[] = {
    {"four workers on this machine", "hvdray run -np 4 python train.py"},
    {"two hosts with four slots each", "hvdray run -np 8 -H node1:4,node2:4 python train.py"},
    {"a job from a file, with one flag overridden", "hvdray run -f job.yaml --grace 30"},
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
    {Id::kSshTransport}, {Id::kSshConfig}, {Id::kStrictHostKeyChecking}, {Id::kSshConnections},
    {Id::kLaunchAgent}, {Id::kRemoteDir}, {Id::kAgentPath}, {Id::kForceRemote},
    {Id::kNetworkInterfaces}, {Id::kVerbose}, {Id::kHelp}, {Id::kVersion},
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
constexpr CommandOption kAnswerTimeout = {Id::kTimeout, "How long to wait for each answer.", "30"};
constexpr CommandOption kRayJson = {Id::kJson, "Print one JSON object (docs/ray.md) instead of text."};

constexpr HelpExample kFollowExamples[] = {
    {"show its output, return its exit code", "hvdray follow \"$id\" --ray-address http://10.0.0.10:8265"},
    {"write its files, too", "hvdray follow \"$id\" --report r.json --output-filename out"},
    {"stop it gracefully", "hvdray follow \"$id\" --stop"},
};
constexpr CommandOption kFollowOptions[] = {
    {Id::kRayAddress}, kCluster, {Id::kRayVerify}, {Id::kRayHeaders}, kAnswerTimeout, {Id::kStop},
    {Id::kQuiet}, {Id::kReport, "Write the job's report to FILE when it ends."},
    {Id::kEvents, "Write its events to FILE, if it was submitted with --events."},
    {Id::kJunit, "The same for --junit."}, {Id::kTrace, "The same for --trace."},
    {Id::kRecord, "The same for --record."},
    {Id::kOutputFilename, "Also write each worker's output to DIR/rank.N/stdout and stderr."},
    {Id::kHelp},
};

constexpr std::string_view kLookExitCodes =
    "0 success; 2 wrong usage, no cluster at this address, or access denied; 125 the cluster returned an "
    "error.";
constexpr CommandOption kLookOptions[] = {
    kRay, {Id::kRayAddress}, kCluster, {Id::kRayVerify}, {Id::kRayHeaders}, kAnswerTimeout, kRayJson,
    {Id::kHelp},
};
constexpr HelpExample kStatusExamples[] = {
    {"the Ray of RAY_API_SERVER_ADDRESS, RAY_ADDRESS, or this machine", "hvdray status --ray"},
    {"the Ray on the head of a cluster file", "hvdray status --cluster ray_cluster.yaml"},
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
    kRay, {Id::kRayAddress}, kCluster, {Id::kRayVerify}, {Id::kRayHeaders}, kAnswerTimeout, kRayJson,
    {Id::kCpusPerSlot, "CPUs per slot."},
    {Id::kGpusPerSlot, "GPUs per slot, a whole number; needs --use-gpu."},
    {Id::kUseGpu, "Count slots with a GPU."},
    {Id::kResourcesPerSlot,
     "Other resources per slot, by their names in the cluster, or memory=1GiB. Repeatable."},
    {Id::kLabelSelector}, {Id::kHelp},
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

constexpr HelpExample kRendezvousExamples[] = {
    {"for workers on this machine, on a free port", "hvdray rendezvous"},
    {"for workers on other hosts", "hvdray rendezvous --host 10.1.0.4 --allow 10.1.0.0/16"},
    {"on a given port", "hvdray rendezvous --port 7000 --kv-hold 5s"},
};
constexpr CommandOption kRendezvousOptions[] = {
    {Id::kBind}, {Id::kPort},
    {Id::kHosts, "Hosts of the workers. Sets the number of members of each scope, so that values last "
                 "until every member has read them (needed by Horovod before 0.23).", "off"},
    {Id::kKvHold, "How long to hold a request for a key that does not exist yet; 0: not at all."},
    {Id::kAllow}, {Id::kPeerCheck, "On loopback, let every user of this machine connect."}, {Id::kHelp},
};

constexpr HelpExample kExplainExamples[] = {
    {"what an error number means", "hvdray explain HVD-E0201"},
};
constexpr CommandOption kExplainOptions[] = {{Id::kHelp}};

constexpr CommandRow kCommands[] = {
    {.name = "run", .summary = "run a command on many slots and report the result",
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
                   "SIGTERM; 141 the reader of its output went away. Full list: docs/cli.md."},
    {.name = "check", .summary = "check whether a job would start, and describe its hosts",
     .arguments = "[OPTION...] [[--] COMMAND [ARGUMENT...]]", .is_launch = true,
     .description = "Checks whether a job would start on these hosts, and describes each host: connection, "
                    "versions, clock, disk, limits, CPUs, memory, GPUs, network, working directory, "
                    "command. Starts agents as run does, but no workers, and leaves nothing running. "
                    "Each finding says how to fix it.",
     .see = "See [check](check.md).", .examples = kCheckExamples,
     .notes = "Also accepts every other option of run, so you can check a job with its own command line; those "
              "options have no effect here. --dry-run, --print-plan, --print-config and --ray are "
              "refused.",
     .exit_codes = "0 a job would start, possibly with warnings; otherwise what run would return: 2 wrong "
                   "usage or too few slots, 125 hosts or network, 126 command not executable, 127 not "
                   "found. 129, 130, 131, 143: stopped by a signal.",
     .options = kCheckOptions},
    {.name = "replay", .summary = "replay an elastic job's recording and check its rules",
     .arguments = "[OPTION...] FILE", .missing = "no recording given", .max_arguments = 1,
     .description = "Runs the elastic driver over a job's recording (hvdray run --record) in virtual "
                    "time, prints what changed and when, and stops at the first broken rule. Starts "
                    "nothing.",
     .see = "See [replay](replay.md).", .examples = kReplayExamples,
     .exit_codes = "0 all rules hold; 1 a rule is broken, or the job ends differently from the recording; "
                   "2 wrong usage, or FILE is not a recording.",
     .options = kReplayOptions},
    {.name = "follow", .summary = "follow or stop a job submitted to Ray",
     .arguments = "[OPTION...] ID", .missing = "no job ID given", .max_arguments = 1,
     .description = "Follows a job on Ray from the first line of its output, and exits with its exit code. "
                    "ID is what hvdray run --detach printed. Ctrl-C leaves the job running; with --stop, "
                    "it ends the job at once.",
     .see = "On Ray: [ray](ray.md).", .examples = kFollowExamples,
     .exit_codes = "that of the job, as for hvdray run; 2 wrong usage, or no such job; 125 the job can no "
                   "longer be followed; 129, 130, 143 stopped by SIGHUP, SIGINT, SIGTERM, while the job "
                   "runs on.",
     .options = kFollowOptions},
    {.name = "status", .summary = "show what a Ray cluster has and how much is in use",
     .arguments = "[OPTION...]",
     .description = "Shows what a Ray cluster has, how much of it is in use, and what is pending. Changes "
                    "nothing.",
     .see = "On Ray: [ray](ray.md).", .examples = kStatusExamples, .exit_codes = kLookExitCodes,
     .options = kLookOptions},
    {.name = "jobs", .summary = "list hvdray's jobs on a Ray cluster and their status",
     .arguments = "[OPTION...]",
     .description = "Lists the jobs that hvdray has submitted to a Ray cluster, newest first, for as long "
                    "as Ray remembers them. Omits other jobs.",
     .see = "On Ray: [ray](ray.md).", .examples = kJobsExamples, .exit_codes = kLookExitCodes,
     .options = kLookOptions},
    {.name = "slots", .summary = "show how many slots a job could get from a Ray cluster now",
     .arguments = "[OPTION...]",
     .description = "Shows how many slots a job could get from a Ray cluster now, node by node. Counts only "
                    "what is free. Reserves nothing.",
     .see = "On Ray: [ray](ray.md).", .examples = kSlotsExamples, .exit_codes = kLookExitCodes,
     .options = kSlotsOptions},
    {.name = "cluster", .summary = "print a cluster file as hvdray or Ray reads it, or rewrite an old one",
     .arguments = "[OPTION...] config|migrate FILE", .missing = "no cluster file given", .max_arguments = 2,
     .description = "config checks a cluster file and prints it with every default filled in. migrate prints "
                    "it in the modern form: keys of older Ray versions become those that replaced them, and "
                    "nothing is filled in. Comments are lost. Changes nothing.",
     .see = "Cluster files: [cluster](cluster.md).", .examples = kClusterExamples,
     .exit_codes = "0 success, possibly with warnings; 2 wrong usage, or the file is wrong.",
     .options = kClusterOptions},
    {.name = "rendezvous", .summary = "serve Horovod's rendezvous for workers that hvdray does not start",
     .arguments = "[OPTION...]",
     .description = "Serves Horovod's rendezvous for workers that something else starts. Prints ADDRESS "
                    "and PORT on the first line of stdout, then the variables that a worker needs in addition "
                    "to HOROVOD_RANK, _SIZE, _LOCAL_RANK, _LOCAL_SIZE, _CROSS_RANK and _CROSS_SIZE. "
                    "Runs until SIGINT, SIGTERM or SIGHUP.",
     .see = "The protocol: [rendezvous](rendezvous.md).", .examples = kRendezvousExamples,
     .exit_codes = "129, 130, 143 stopped by SIGHUP, SIGINT, SIGTERM; 2 wrong usage; 125 cannot listen; "
                   "141 the reader of its stdout went away.",
     .options = kRendezvousOptions},
    {.name = "explain", .summary = "say what an error means and what to do about it",
     .arguments = "[ERROR...]", .max_arguments = SIZE_MAX,
     .description = "Says what an error means and what to do about it. ERROR is the number at the end of a "
                    "message (HVD-E0201, or 201), or its name in reports (host_unreachable). Without "
                    "ERROR, lists all errors, one per line.",
     .see = "All errors: [errors](errors.md).", .examples = kExplainExamples,
     .exit_codes = "0 success; 2 no such error.", .options = kExplainOptions},
    {.name = "agent", .summary = "per-host side of run; hvdray starts it itself"},
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
    OptionRow& row = rows.emplace_back(RowOf(option.id));
    if (!option.help.empty()) row.help = option.help;
    if (!option.default_text.empty()) row.default_text = option.default_text;
  }
  return rows;
}

}  // namespace hvdray
