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
    {"the job from a file, one flag changed", "hvdray run -f job.yaml --grace 30"},
    {"hosts and job from a cluster file", "hvdray run --cluster configs/quickstart.yaml"},
    {"slots of a Ray cluster, from a machine without Ray",
     "hvdray run -np 4 --ray-address http://10.0.0.10:8265 --working-dir . python train.py"},
    {"which rank would run where", "hvdray run -np 4 --dry-run --print-plan python train.py"},
    {"where each setting comes from", "hvdray run -f job.yaml --print-config"},
};

constexpr HelpExample kCheckExamples[] = {
    {"would a job start there?", "hvdray check -H node1:4,node2:4"},
    {"is the command there as well?", "hvdray check -H node1:4,node2:4 -- python train.py"},
    {"does its Python import what it needs?",
     "hvdray check -H node1:4,node2:4 --import torch -- python train.py"},
    {"the same for a job file, for a program to read", "hvdray check -f job.yaml --json"},
};
constexpr CommandOption kCheckOptions[] = {
    {Id::kJson, "Print one JSON object (docs/check.md) instead of text."}, {Id::kImport},
    // Those of run that make a difference to a check.
    {Id::kHosts}, {Id::kHostfile}, {Id::kCluster}, {Id::kNumProc}, {Id::kJobFile}, {Id::kCwd}, {Id::kEnv},
    {Id::kStartTimeout}, {Id::kHeartbeatTimeout}, {Id::kSshPort}, {Id::kSshIdentityFile},
    {Id::kSshTransport}, {Id::kSshConfig}, {Id::kStrictHostKeyChecking}, {Id::kSshConnections},
    {Id::kLaunchAgent}, {Id::kRemoteDir}, {Id::kAgentPath}, {Id::kForceRemote},
    {Id::kNetworkInterfaces}, {Id::kVerbose}, {Id::kHelp}, {Id::kVersion},
};

constexpr HelpExample kReplayExamples[] = {
    {"what happened in that job", "hvdray replay job.record"},
    {"as a test: silent when all is well", "hvdray replay -q job.record"},
    {"for a program to read", "hvdray replay --json job.record"},
};
constexpr CommandOption kReplayOptions[] = {
    {Id::kJson, "Print one JSON object (docs/replay.md) instead of text."},
    {Id::kQuiet, "Print only what went wrong."},
    {Id::kHelp}, {Id::kVersion, "Show the version and exit."},
};

// How a command reaches a Ray cluster.
constexpr CommandOption kRay = {Id::kRay, "Look at a Ray cluster."};
constexpr CommandOption kCluster = {
    Id::kCluster, "A cluster file: the Ray on its head, through SSH where that is needed."};
constexpr CommandOption kAnswerTimeout = {Id::kTimeout, "How long to wait for each answer.", "30"};
constexpr CommandOption kRayJson = {Id::kJson, "Print one JSON object (docs/ray.md) instead of text."};

constexpr HelpExample kFollowExamples[] = {
    {"its output, its exit code", "hvdray follow \"$id\" --ray-address http://10.0.0.10:8265"},
    {"and its files", "hvdray follow \"$id\" --report r.json --output-filename out"},
    {"stop it in good order", "hvdray follow \"$id\" --stop"},
};
constexpr CommandOption kFollowOptions[] = {
    {Id::kRayAddress}, kCluster, {Id::kRayVerify}, {Id::kRayHeaders}, kAnswerTimeout, {Id::kStop},
    {Id::kQuiet}, {Id::kReport, "Write the job's report there when it has ended."},
    {Id::kEvents, "Write its events there, if it was submitted with --events."},
    {Id::kJunit, "The same for --junit."}, {Id::kTrace, "The same for --trace."},
    {Id::kRecord, "The same for --record."},
    {Id::kOutputFilename, "Also write each worker's output to DIR/rank.N/stdout and stderr."},
    {Id::kHelp},
};

constexpr std::string_view kLookExitCodes =
    "0 success; 2 wrong usage, no cluster there, or one that denies access; 125 the cluster answered "
    "with an error.";
constexpr CommandOption kLookOptions[] = {
    kRay, {Id::kRayAddress}, kCluster, {Id::kRayVerify}, {Id::kRayHeaders}, kAnswerTimeout, kRayJson,
    {Id::kHelp},
};
constexpr HelpExample kStatusExamples[] = {
    {"of RAY_API_SERVER_ADDRESS, RAY_ADDRESS, or this machine", "hvdray status --ray"},
    {"of the Ray on the file's head", "hvdray status --cluster ray_cluster.yaml"},
    {"for a program to read", "hvdray status --ray --json"},
};
constexpr HelpExample kJobsExamples[] = {
    {"what runs, waits, and has ended", "hvdray jobs --ray"},
    {"of this cluster", "hvdray jobs --ray-address http://10.0.0.10:8265"},
    {"for a program to read", "hvdray jobs --ray --json"},
};
constexpr HelpExample kSlotsExamples[] = {
    {"slots of one CPU", "hvdray slots --ray"},
    {"slots of four CPUs and a GPU", "hvdray slots --ray --cpus-per-slot 4 --use-gpu"},
    {"for a program to read", "hvdray slots --ray --json"},
};
constexpr CommandOption kSlotsOptions[] = {
    kRay, {Id::kRayAddress}, kCluster, {Id::kRayVerify}, {Id::kRayHeaders}, kAnswerTimeout, kRayJson,
    {Id::kCpusPerSlot, "CPUs of one slot."},
    {Id::kGpusPerSlot, "GPUs of one slot, a whole number; needs --use-gpu."},
    {Id::kUseGpu, "Slots with a GPU."},
    {Id::kResourcesPerSlot,
     "Another resource of one slot, as the cluster names it, or memory=1GiB. Repeatable."},
    {Id::kLabelSelector}, {Id::kHelp},
};

constexpr HelpExample kRendezvousExamples[] = {
    {"for workers on this machine, at a free port", "hvdray rendezvous"},
    {"for those of other hosts", "hvdray rendezvous --host 10.1.0.4 --allow 10.1.0.0/16"},
    {"at a port of one's own", "hvdray rendezvous --port 7000 --kv-hold 5s"},
};
constexpr CommandOption kRendezvousOptions[] = {
    {Id::kBind}, {Id::kPort},
    {Id::kHosts, "Where the workers are: gives the number of members of each scope, so that values live "
                 "until all have read them (needed by Horovod before 0.23).", "off"},
    {Id::kKvHold, "How long a request for a key that is not there yet waits for it; 0: not at all."},
    {Id::kAllow}, {Id::kPeerCheck, "On loopback, let every user of this machine connect."}, {Id::kHelp},
};

constexpr HelpExample kExplainExamples[] = {
    {"what a message's number means", "hvdray explain HVD-E0201"},
};
constexpr CommandOption kExplainOptions[] = {{Id::kHelp}};

constexpr CommandRow kCommands[] = {
    {.name = "run", .summary = "start a command on many slots and report what happened",
     .arguments = "[OPTION...] [--] COMMAND [ARGUMENT...]", .is_launch = true,
     .description = "Starts COMMAND once for each slot, gives every worker its rank by Horovod's and "
                    "torchrun's variables, shows their output, and ends when they end.",
     .examples = kRunExamples,
     .notes = "Options end at the first word that is none, or at --. Each option is also a key of the job "
              "file (num_proc) and an environment variable (HVDRAY_NUM_PROC); flags win, then the "
              "environment, then files. Horovod's own options may be shortened (--slots for "
              "--slots-per-host). Times are seconds or have a unit: 0.5, 200ms, 2m.",
     .exit_codes = "the code of the worker that failed first (128+n for signal n); 2 wrong usage, nothing "
                   "was started; 124 --timeout; 125 hvdray could not do its part; 126 command not "
                   "executable; 127 not found; 129, 130, 131, 143 hvdray got SIGHUP, SIGINT, SIGQUIT, "
                   "SIGTERM; 141 the reader of its output went away. All of them: docs/cli.md."},
    {.name = "check", .summary = "say whether a job would start, and what its hosts are like",
     .arguments = "[OPTION...] [[--] COMMAND [ARGUMENT...]]", .is_launch = true,
     .description = "Says whether a job would start on these hosts, and what each of them is like: "
                    "reachable, versions, clock, disk, limits, CPUs, memory, GPUs, network, working "
                    "directory, command. Starts agents as run does, but no worker, and leaves nothing "
                    "running. Each finding says how to fix it.",
     .see = "See [check](check.md).", .examples = kCheckExamples,
     .notes = "Takes every other option of run as well, so a job can be checked with the words that start "
              "it; they make no difference here. --dry-run, --print-plan, --print-config and --ray are "
              "refused.",
     .exit_codes = "0 a job would start, maybe with warnings; otherwise what run would return: 2 wrong "
                   "usage or too few slots, 125 hosts or network, 126 command not executable, 127 not "
                   "found. 129, 130, 131, 143: stopped by a signal.",
     .options = kCheckOptions},
    {.name = "replay", .summary = "run an elastic job's recording again and check its rules",
     .arguments = "[OPTION...] FILE", .missing = "which recording?", .max_arguments = 1,
     .description = "Runs the elastic driver over the recording of a job (hvdray run --record) in virtual "
                    "time, prints what changed and when, and stops at the first broken rule. Starts "
                    "nothing.",
     .see = "See [replay](replay.md).", .examples = kReplayExamples,
     .exit_codes = "0 every rule held; 1 a rule was broken, or the job ends otherwise than it was "
                   "recorded; 2 wrong usage or a file that is no recording.",
     .options = kReplayOptions},
    {.name = "follow", .summary = "follow a job on Ray that was submitted before, or stop it",
     .arguments = "[OPTION...] ID", .missing = "which job?", .max_arguments = 1,
     .description = "Follows a job on Ray from the first line of its output, and ends with its exit code. "
                    "ID is what hvdray run --detach printed. Ctrl-C leaves the job alone; with --stop, it "
                    "ends the job at once.",
     .see = "On Ray: [ray](ray.md).", .examples = kFollowExamples,
     .exit_codes = "those of the job, as hvdray run has them; 2 wrong usage, or no such job; 125 the job "
                   "can no longer be followed; 129, 130, 143 stopped by SIGHUP, SIGINT, SIGTERM, while the "
                   "job goes on.",
     .options = kFollowOptions},
    {.name = "status", .summary = "what a Ray cluster has, and what of it is in use",
     .arguments = "[OPTION...]",
     .description = "Says what a Ray cluster has, what of it is in use, and what waits for room. Changes "
                    "nothing.",
     .see = "On Ray: [ray](ray.md).", .examples = kStatusExamples, .exit_codes = kLookExitCodes,
     .options = kLookOptions},
    {.name = "jobs", .summary = "the jobs of hvdray on a Ray cluster, and how they are",
     .arguments = "[OPTION...]",
     .description = "Lists the jobs that hvdray has submitted to a Ray cluster, the newest first, as long "
                    "as Ray remembers them. Does not show other jobs.",
     .see = "On Ray: [ray](ray.md).", .examples = kJobsExamples, .exit_codes = kLookExitCodes,
     .options = kLookOptions},
    {.name = "slots", .summary = "how many slots a job could get from a Ray cluster now",
     .arguments = "[OPTION...]",
     .description = "Says how many slots a job could get from a Ray cluster now, node by node. Counts what "
                    "is free, not what is there. Reserves nothing.",
     .see = "On Ray: [ray](ray.md).", .examples = kSlotsExamples, .exit_codes = kLookExitCodes,
     .options = kSlotsOptions},
    {.name = "rendezvous", .summary = "serve Horovod's rendezvous for workers started otherwise",
     .arguments = "[OPTION...]",
     .description = "Serves Horovod's rendezvous for workers that something else starts. Prints ADDRESS "
                    "and PORT on the first line of stdout, then the variables that a worker needs besides "
                    "its HOROVOD_RANK, _SIZE, _LOCAL_RANK, _LOCAL_SIZE, _CROSS_RANK and _CROSS_SIZE. "
                    "Serves until SIGINT, SIGTERM or SIGHUP.",
     .see = "The protocol: [rendezvous](rendezvous.md).", .examples = kRendezvousExamples,
     .exit_codes = "129, 130, 143 stopped by SIGHUP, SIGINT, SIGTERM; 2 wrong usage; 125 it cannot listen; "
                   "141 nobody reads its stdout.",
     .options = kRendezvousOptions},
    {.name = "explain", .summary = "what an error means and what to do about it, by its number",
     .arguments = "[ERROR...]", .max_arguments = SIZE_MAX,
     .description = "Says what an error means and what to do about it. ERROR is the number at the end of a "
                    "message (HVD-E0201, or 201), or its name in reports (host_unreachable). Without one: "
                    "all of them, a line each.",
     .see = "All errors: [errors](errors.md).", .examples = kExplainExamples,
     .exit_codes = "0 success; 2 there is no such error.", .options = kExplainOptions},
    {.name = "agent", .summary = "the per-host side of run; hvdray starts it itself"},
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
