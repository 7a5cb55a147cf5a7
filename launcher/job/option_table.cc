// SPDX-License-Identifier: Apache-2.0
// The rows of the options. A new option needs a row here, and a member of JobSpec, which has its
// default, or code that looks for it.
#include "launcher/job/option_table.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <iterator>
#include <utility>

#include "base/status.h"
#include "base/text.h"
#include "launcher/job/option_value.h"
#include "launcher/job/value_text.h"

namespace hvdray {
namespace {

using Id = OptionId;
using Type = OptionType;
using Group = OptionGroup;
using Not = OptionExclusion;

constexpr int64_t kMaxInt = 2147483647;
// A tunable in MiB is multiplied by 2^20; its bytes have to stay inside 63 bits.
constexpr int64_t kMaxMib = int64_t{1} << 42;

// One aligned block a row reads as the table that it is.
// clang-format off
constexpr OptionRow kWritten[] = {
    {.id = Id::kHelp, .spellings = "-h --help", .type = Type::kAction, .group = Group::kGeneral, .is_horovod = true,
     .help = "Show this help and exit."},
    {.id = Id::kVersion, .spellings = "-v --version", .type = Type::kAction, .group = Group::kGeneral,
     .is_horovod = true,
     .help = "Show the version and exit. For verbose output use --verbose, as with horovodrun."},
    {.id = Id::kCheckBuild, .spellings = "-cb --check-build", .type = Type::kAction, .group = Group::kGeneral,
     .is_horovod = true, .help = "Show what this build supports and exit."},

    {.id = Id::kJobFile, .spellings = "-f --file", .member = &JobSpec::job_file, .value_name = "FILE",
     .group = Group::kJob,
     .help = "Read the job from a YAML file. Its keys are 'command' and the long option names with '_' instead "
             "of '-'. Flags override it."},
    {.id = Id::kEnv, .spellings = "-x --env", .member = &JobSpec::env, .is_settled_later = true,
     .value_name = "NAME[=VALUE]", .group = Group::kJob,
     .help = "Set a variable for every worker; without =VALUE, pass on its current value. Repeatable."},
    {.id = Id::kCleanEnv, .spellings = "--clean-env", .member = &JobSpec::is_clean_env, .group = Group::kJob,
     .help = "Pass on only PATH, HOME, LANG, HOROVOD_*, NCCL_* and what -x sets."},
    {.id = Id::kKeepRankVariables, .spellings = "--keep-rank-variables", .member = &JobSpec::keeps_rank_variables,
     .group = Group::kJob,
     .help = "Pass on variables in which another launcher names a rank, which are true of hvdray's own process "
             "only: SLURM_PROCID, OMPI_COMM_WORLD_*, PMIX_RANK, PMI_*, PET_*, ..."},
    {.id = Id::kCwd, .spellings = "--cwd", .member = &JobSpec::working_directory, .value_name = "DIR",
     .default_text = "the current directory", .group = Group::kJob, .help = "Working directory of the workers."},
    {.id = Id::kSync, .spellings = "--sync", .type = Type::kList,
     .member = SpecMember(&JobSpec::sync, ReadSyncWords), .value_name = "DIR[:TARGET]", .group = Group::kJob,
     .help = "Copy this directory to the other hosts before the workers start. Only differences are copied; .git "
             "and files that .gitignore excludes are not. Default TARGET: the same place. Repeatable."},
    {.id = Id::kTorchEnv, .name = "torch-env", .negations = "--no-torch-env", .member = &JobSpec::is_torch_env,
     .group = Group::kJob,
     .help = "Do not set torchrun's variables (RANK, WORLD_SIZE, MASTER_ADDR, ...) in addition to Horovod's. "
             "Elastic jobs whose workers outlive changes (--elastic-mode horovod) have none anyway."},
    {.id = Id::kOmpThreads, .spellings = "--omp-threads", .member = SpecMember(&JobSpec::omp_threads, ReadThreads),
     .value_name = "N|inherit", .default_text = "the host's CPUs divided by its workers, at least 1",
     .group = Group::kJob,
     .help = "Set OMP_NUM_THREADS, MKL_NUM_THREADS and OPENBLAS_NUM_THREADS of each worker. Without this option "
             "they are set only where OMP_NUM_THREADS is not. inherit: leave them as they are."},
    {.id = Id::kChannel, .spellings = "--channel", .member = &JobSpec::has_channel, .group = Group::kJob,
     .help = "Give each worker a channel, a socket whose number is in HVDRAY_CHANNEL_FD: a line "
             "{\"type\":\"report\",\"metrics\":{...}} written there becomes an event."},
    {.id = Id::kPreload, .spellings = "--preload", .type = Type::kList,
     .member = SpecMember(&JobSpec::preload, ReadPreload), .value_name = "MODULE,...|auto", .group = Group::kJob,
     .help = "Import these modules once a host and fork the workers from there, restarts included; the command "
             "must be Python. auto: the installed modules that its script imports. Repeatable."},
    {.id = Id::kHorovod, .spellings = "--horovod", .member = &JobSpec::horovod, .value_name = "installed|builtin",
     .group = Group::kJob,
     .help = "Which Horovod workers import. builtin: hvdray's own horovod.torch, for which hvdray has to be "
             "installed at the same place on all hosts."},

    {.id = Id::kNumProc, .spellings = "-np --num-proc +--np", .member = &JobSpec::np, .is_settled_later = true,
     .value_name = "N", .min = 1, .max = 65536, .default_text = "all slots of the given hosts",
     .group = Group::kHosts, .is_horovod = true,
     .help = "Number of workers to run; in an elastic job, number of slots to wait for before starting."},
    {.id = Id::kHosts, .spellings = "-H --hosts", .member = &JobSpec::hosts, .is_settled_later = true,
     .value_name = "HOST:SLOTS,...",
     .default_text = "from the Slurm, PBS or LSF job, else localhost with -np slots", .group = Group::kHosts,
     .exclusion = Not::kHostSource, .is_horovod = true,
     .help = "Hosts and the number of workers each can run: node1:4, user@node1:4, node[01-32]:4, [fe80::1]:4; "
             "with an SSH port, ssh://node1:2222:4. With --ray: node addresses."},
    {.id = Id::kHostfile, .spellings = "-hostfile --hostfile", .member = &JobSpec::hostfile,
     .is_settled_later = true, .value_name = "FILE", .group = Group::kHosts, .exclusion = Not::kHostSource,
     .is_horovod = true,
     .help = "Read the hosts from a file, one 'HOST slots=N' or 'HOST' per line; 'user=' and 'port=' may follow."},
    {.id = Id::kCluster, .spellings = "--cluster", .member = &JobSpec::cluster_file, .value_name = "FILE",
     .group = Group::kHosts,
     .help = "Read the hosts from a cluster YAML file; its section 'hvdray: {run: ...}' may hold the job."},
    {.id = Id::kSlotsPerHost, .spellings = "--slots-per-host", .member = &JobSpec::slots_per_host,
     .value_name = "N", .min = 1, .max = 65536, .default_text = "1 in a host file", .group = Group::kHosts,
     .is_horovod = true,
     .help = "Slots of a host that the host file or the discovery script gives without a number."},
    {.id = Id::kDisableCache, .spellings = "--disable-cache", .type = Type::kFlag, .group = Group::kHosts,
     .is_horovod = true, .help = "Accepted for old scripts; hvdray does not cache host checks."},

    {.id = Id::kHostDiscoveryScript, .spellings = "--host-discovery-script",
     .member = &JobSpec::host_discovery_script, .is_settled_later = true, .value_name = "COMMAND",
     .group = Group::kElastic, .exclusion = Not::kHostSource, .is_horovod = true,
     .help = "Shell command that prints the current hosts, one 'HOST' or 'HOST:SLOTS' per line. Makes the job "
             "elastic."},
    {.id = Id::kMinNp, .spellings = "--min-np --min-num-proc", .member = &JobSpec::min_np, .is_settled_later = true,
     .value_name = "N", .min = 1, .max = 65536, .default_text = "-np", .group = Group::kElastic, .is_horovod = true,
     .help = "Minimum number of workers; the job pauses below it. Makes the job elastic."},
    {.id = Id::kMaxNp, .spellings = "--max-np --max-num-proc", .member = &JobSpec::max_np, .is_settled_later = true,
     .value_name = "N", .min = 1, .max = 65536, .default_text = "no limit", .group = Group::kElastic,
     .is_horovod = true, .help = "Maximum number of workers; further slots stay unused."},
    {.id = Id::kElasticTimeout, .spellings = "--elastic-timeout", .member = &JobSpec::elastic_timeout,
     .group = Group::kElastic, .is_horovod = true,
     .help = "How long to wait for enough slots after a change. Also set by HOROVOD_ELASTIC_TIMEOUT."},
    {.id = Id::kResetLimit, .spellings = "--reset-limit", .member = &JobSpec::reset_limit, .value_name = "N",
     .min = 0, .max = kMaxInt, .default_text = "no limit", .group = Group::kElastic, .is_horovod = true,
     .help = "Number of membership changes the job survives. In gangs, restarts after failures do not count."},
    {.id = Id::kBlacklistCooldownRange, .spellings = "--blacklist-cooldown-range",
     .member = &JobSpec::blacklist_cooldown_range, .value_name = "MIN MAX", .min = 1, .max = 3600,
     .default_text = "excluded for good", .group = Group::kElastic, .is_horovod = true,
     .help = "Minimum and maximum number of seconds to exclude a host that failed."},
    {.id = Id::kElasticMode, .spellings = "--elastic-mode", .member = &JobSpec::elastic_mode,
     .value_name = "horovod|gang", .group = Group::kElastic,
     .help = "horovod: workers survive a change, as scripts with hvd.elastic expect. gang: every change restarts "
             "all workers, as torchrun does."},
    {.id = Id::kJoin, .spellings = "--join", .member = &JobSpec::join, .value_name = "warm|together",
     .group = Group::kElastic,
     .help = "warm: training goes on until new workers are ready. together: training waits for them, so a loss "
             "and its replacement are one change."},
    {.id = Id::kSuccess, .spellings = "--success", .member = &JobSpec::success, .value_name = "all|any",
     .group = Group::kElastic, .help = "Which workers of the last gang must succeed for the job to succeed."},
    {.id = Id::kDiscoveryInterval, .spellings = "--discovery-interval", .member = &JobSpec::discovery_interval,
     .min = 1, .group = Group::kElastic, .help = "Pause between two runs of the discovery script."},
    {.id = Id::kDiscoveryTimeout, .spellings = "--discovery-timeout", .member = &JobSpec::discovery_timeout,
     .min = 1, .group = Group::kElastic,
     .help = "Kill the discovery script after this time and count the run as failed."},
    {.id = Id::kStragglerTimeout, .spellings = "--straggler-timeout", .member = &JobSpec::straggler_timeout,
     .group = Group::kElastic,
     .help = "How long workers wait for the others after a change. Workers still missing after that are stopped."},
    {.id = Id::kSettle, .spellings = "--settle", .member = &JobSpec::settle, .group = Group::kElastic,
     .help = "With --elastic-mode gang: how long more slots must have been listed before all workers are "
             "restarted for them."},
    {.id = Id::kBreakConnections, .name = "break-connections", .negations = "--no-break-connections",
     .member = &JobSpec::breaks_connections, .group = Group::kElastic,
     .help = "After a loss, leave survivors to Gloo's own timeout (30 s) instead of closing the connections "
             "between them."},

    {.id = Id::kMaxRestarts, .spellings = "--max-restarts", .member = &JobSpec::max_restarts, .value_name = "N",
     .min = 0, .max = 1000000, .group = Group::kFailure,
     .help = "How often to restart all workers after a failure; in elastic jobs only with --elastic-mode gang."},
    {.id = Id::kGrace, .spellings = "--grace", .member = &JobSpec::grace, .group = Group::kFailure,
     .help = "Time between SIGTERM and SIGKILL when stopping workers; after Ctrl-C also between SIGINT and "
             "SIGTERM."},
    {.id = Id::kTimeout, .spellings = "--timeout", .member = &JobSpec::timeout, .group = Group::kFailure,
     .help = "Stop the job after this time and exit with code 124."},
    {.id = Id::kStartTimeout, .spellings = "--start-timeout", .member = &JobSpec::start_timeout,
     .group = Group::kFailure, .is_horovod = true,
     .help = "How long hosts may take to become ready. Also set by HOROVOD_START_TIMEOUT."},
    {.id = Id::kHeartbeatTimeout, .spellings = "--heartbeat-timeout", .member = &JobSpec::heartbeat_timeout,
     .default_text = "; elastic: 5", .group = Group::kFailure,
     .help = "Treat a host that is silent for this long as lost."},

    {.id = Id::kOutputFilename, .spellings = "--output-filename", .member = &JobSpec::output_filename,
     .value_name = "DIR", .group = Group::kOutput, .is_horovod = true,
     .help = "Also write each worker's output to DIR/rank.N/stdout and stderr; a restart moves earlier output to "
             "DIR/attempt.K/rank.N."},
    {.id = Id::kPrefixTimestamp, .spellings = "-prefix-timestamp --prefix-output-with-timestamp",
     .member = &JobSpec::is_timestamped, .group = Group::kOutput, .exclusion = Not::kTimestamp, .is_horovod = true,
     .help = "Prefix each line of output with the local time."},
    {.id = Id::kTagOutput, .spellings = "--tag-output", .member = &JobSpec::tag_output,
     .value_name = "rank|host|none", .group = Group::kOutput,
     .help = "Prefix of each line of output: [rank]<stdout>:, [host:rank]<stdout>:, or none."},
    {.id = Id::kStdin, .spellings = "--stdin", .member = SpecMember(&JobSpec::stdin_rank, ReadStdinRank),
     .value_name = "RANK|none", .default_text = "none", .group = Group::kOutput,
     .help = "Worker that reads the launcher's standard input."},
    {.id = Id::kColor, .spellings = "--color", .member = &JobSpec::color, .value_name = "auto|always|never",
     .group = Group::kOutput, .help = "Colour messages. auto: on a terminal, unless NO_COLOR is set."},
    {.id = Id::kQuiet, .spellings = "-q --quiet", .member = &JobSpec::is_quiet, .group = Group::kOutput,
     .help = "Print only errors from hvdray itself."},
    {.id = Id::kVerbose, .spellings = "--verbose", .member = &JobSpec::is_verbose, .group = Group::kOutput,
     .is_horovod = true, .help = "Print what hvdray does and why."},
    {.id = Id::kLogJson, .spellings = "--log-json", .member = &JobSpec::is_log_json, .group = Group::kOutput,
     .help = "Print all lines of hvdray itself, including the verdict and usage errors, as JSON objects."},

    {.id = Id::kDryRun, .spellings = "--dry-run", .member = &JobSpec::is_dry_run, .group = Group::kPlan,
     .help = "Check options and local files and place the ranks, but contact no host and start nothing, except a "
             "discovery script, once. (hvdray check contacts the hosts.)"},
    {.id = Id::kPrintPlan, .spellings = "--print-plan", .member = &JobSpec::print_plan, .value_name = "text|json",
     .group = Group::kPlan, .help = "Show which rank runs where and exit."},
    {.id = Id::kPrintConfig, .spellings = "--print-config", .member = &JobSpec::print_config,
     .value_name = "text|json", .group = Group::kPlan, .help = "Show each setting and its origin and exit."},
    {.id = Id::kReport, .spellings = "--report", .member = &JobSpec::report_file, .value_name = "FILE",
     .group = Group::kPlan, .help = "Write a report of the job as one JSON object."},
    {.id = Id::kEvents, .spellings = "--events", .member = &JobSpec::events_file, .value_name = "FILE",
     .group = Group::kPlan, .help = "Write events as JSON lines, as they happen."},
    {.id = Id::kJunit, .spellings = "--junit", .member = &JobSpec::junit_file, .value_name = "FILE",
     .group = Group::kPlan, .help = "Write the result as JUnit XML, one test case per rank."},
    {.id = Id::kTrace, .spellings = "--trace", .member = &JobSpec::trace_file, .value_name = "FILE",
     .group = Group::kPlan,
     .help = "Write a Chrome trace of the launch. (For Horovod's own use --timeline-filename.)"},
    {.id = Id::kRecord, .spellings = "--record", .member = &JobSpec::record_file, .value_name = "FILE",
     .group = Group::kPlan, .help = "Record an elastic job for hvdray replay."},

    {.id = Id::kNetworkInterfaces, .spellings = "--network-interfaces --network-interface", .type = Type::kList,
     .member = SpecMember(&JobSpec::network_interfaces, ReadInterfaces), .value_name = "NAME,...",
     .default_text = "found by probing", .group = Group::kNetwork, .is_horovod = true,
     .help = "Network interfaces that workers may use. Repeatable."},
    {.id = Id::kMasterPort, .spellings = "--master-port", .member = &JobSpec::master_port, .value_name = "PORT",
     .min = 1, .max = 65535, .default_text = "any free port", .group = Group::kNetwork,
     .help = "MASTER_PORT for torch.distributed."},
    {.id = Id::kPeerCheck, .name = "peer-check", .negations = "--no-peer-check",
     .member = &JobSpec::is_peer_checked, .group = Group::kNetwork,
     .help = "Let other users' processes on a host use the rendezvous, too, and trust a Ray dashboard of theirs, "
             "on this machine or on the head."},
    {.id = Id::kKvHold, .name = "kv-hold", .member = &JobSpec::kv_hold, .group = Group::kDeveloper,
     .help = "How long the rendezvous holds a request for a key that does not exist yet."},
    {.id = Id::kAgentPath, .name = "agent-path", .member = &JobSpec::agent_path, .value_name = "FILE",
     .default_text = "hvdray-agent beside hvdray", .group = Group::kDeveloper,
     .help = "The hvdray-agent to start. Hosts that have a file at this path use it; the others get a copy of "
             "ours. MACHINE=FILE,... gives one for each machine type (uname -m)."},
    {.id = Id::kSshPort, .spellings = "-p --ssh-port", .member = &JobSpec::ssh_port, .value_name = "PORT", .min = 1,
     .max = 65535, .default_text = "ssh's own", .group = Group::kNetwork, .is_horovod = true,
     .help = "SSH port of hosts that are given without one."},
    {.id = Id::kSshIdentityFile, .spellings = "-i --ssh-identity-file", .member = &JobSpec::ssh_identity_file,
     .value_name = "FILE", .default_text = "ssh's own", .group = Group::kNetwork, .is_horovod = true,
     .help = "Private key for SSH."},
    {.id = Id::kSshTransport, .spellings = "--ssh-transport", .member = &JobSpec::ssh_transport,
     .value_name = "auto|libssh2|openssh", .group = Group::kNetwork,
     .help = "SSH client: a library in this process, or the system's ssh. auto: the library, but ssh for hosts "
             "that need what it lacks (ProxyJump, certificates, RSA keys, ...)."},
    {.id = Id::kSshConfig, .spellings = "--ssh-config", .member = &JobSpec::ssh_config_file, .value_name = "FILE",
     .default_text = "ssh's own", .group = Group::kNetwork, .help = "SSH configuration file, as for ssh -F."},
    {.id = Id::kStrictHostKeyChecking, .spellings = "--strict-host-key-checking",
     .member = &JobSpec::host_key_check, .value_name = "accept-new|yes|no", .group = Group::kNetwork,
     .help = "Which host keys SSH accepts. accept-new: record new keys, refuse changed ones. yes: known keys "
             "only. no: any key."},
    {.id = Id::kSshConnections, .name = "ssh-connections", .member = &JobSpec::ssh_connections,
     .value_name = "N", .min = 1, .max = 1024, .group = Group::kDeveloper,
     .help = "Maximum number of hosts to start agents on at the same time."},
    {.id = Id::kLaunchAgent, .spellings = "--launch-agent", .member = &JobSpec::launch_agent,
     .value_name = "'CMD {host}'", .group = Group::kNetwork,
     .help = "Reach hosts with this command instead of SSH. {host} is replaced, and one shell command line is "
             "appended as the last argument. Example: kubectl exec -i {host} -- sh -c"},
    {.id = Id::kRemoteDir, .spellings = "--remote-dir", .member = &JobSpec::remote_directory, .value_name = "DIR",
     .default_text = "~/.cache/hvdray", .group = Group::kNetwork,
     .help = "Directory for the agent on other hosts."},
    {.id = Id::kForceRemote, .name = "force-remote", .member = &JobSpec::is_remote_forced,
     .group = Group::kDeveloper, .help = "Reach this machine the same way as other hosts."},

    {.id = Id::kRay, .spellings = "--ray", .member = &RaySpec::is_wanted, .is_settled_later = true,
     .group = Group::kRay,
     .help = "Take the slots from a Ray cluster. This machine needs only the dashboard's address, not Ray; "
             "docs/ray.md says what runs where."},
    {.id = Id::kRayAddress, .spellings = "--ray-address", .member = &RaySpec::address, .value_name = "URL",
     .default_text = "RAY_API_SERVER_ADDRESS, RAY_ADDRESS if it is http(s), else http://127.0.0.1:8265",
     .group = Group::kRay,
     .help = "URL of the cluster's dashboard, for example http://10.0.0.10:8265. Implies --ray."},
    {.id = Id::kRayVerify, .spellings = "--ray-verify", .member = &RaySpec::verify, .value_name = "true|false|PATH",
     .default_text = "true", .group = Group::kRay,
     .help = "Whether to verify the certificate of an https:// dashboard, or the file or directory of the "
             "certificate authorities to trust."},
    {.id = Id::kRayHeaders, .spellings = "--ray-headers", .member = &RaySpec::headers, .is_settled_later = true,
     .value_name = "JSON", .default_text = "RAY_JOB_HEADERS", .group = Group::kRay,
     .help = "Headers for every request to the dashboard, a JSON object of strings: {\"Cookie\": \"...\"}."},
    {.id = Id::kRayPython, .spellings = "--ray-python", .member = &RaySpec::python, .value_name = "COMMAND",
     .default_text = "Ray's own", .group = Group::kRay,
     .help = "Python command on the head node that can import ray, with its arguments, parsed by /bin/sh there: "
             "'conda run -n ray python'."},
    {.id = Id::kKeepRayEnv, .spellings = "--keep-ray-env", .member = &RaySpec::keeps_ray_env, .group = Group::kRay,
     .help = "Keep RAY_* and OMP_NUM_THREADS in workers as Ray sets them."},
    {.id = Id::kDetach, .spellings = "--detach", .member = &RaySpec::is_detached, .group = Group::kRay,
     .help = "Submit the job, print how to follow it, and exit."},
    {.id = Id::kStopWithClient, .spellings = "--stop-with-client", .member = &RaySpec::stops_with_client,
     .group = Group::kRay,
     .help = "Stop the job once this command has been gone for a minute, for example with a killed CI runner. By "
             "default the job keeps running."},
    {.id = Id::kRayLogLimit, .spellings = "--ray-log-limit",
     .member = SpecMember(&RaySpec::log_limit, ReadLogLimit), .value_name = "SIZE", .default_text = "1GiB",
     .group = Group::kRay,
     .help = "Maximum size of the output on the head's disk, for example 500MiB. Beyond it the oldest output is "
             "dropped, which an attached client has shown by then. At least 64MiB."},
    {.id = Id::kWorkingDir, .spellings = "--working-dir", .member = &RaySpec::working_dir, .value_name = "DIR|URI",
     .group = Group::kRay,
     .help = "Directory to send with the job; workers start in it. Excludes .git, .venv, venv, __pycache__ and "
             "what .gitignore and .rayignore exclude. At most 100 MiB compressed. Also takes the URI of an "
             "archive that every node fetches, as in Ray: s3://, gs://, https://."},
    {.id = Id::kExclude, .spellings = "--exclude", .member = &RaySpec::excludes, .value_name = "PATTERN",
     .group = Group::kRay, .help = "Also exclude this from --working-dir, a line as in .gitignore. Repeatable."},
    {.id = Id::kRuntimeEnv, .spellings = "--runtime-env --runtime-env-json", .member = &RaySpec::runtime_env,
     .is_settled_later = true, .value_name = "FILE|JSON", .group = Group::kRay,
     .help = "Ray runtime environment for the workers, a YAML file or JSON: pip, uv, conda, py_modules, "
             "env_vars, image_uri, working_dir, config, as for ray job submit."},
    {.id = Id::kNumHosts, .spellings = "--num-hosts", .member = &RaySpec::num_hosts, .value_name = "N", .min = 1,
     .max = 65536, .group = Group::kRay,
     .help = "Take the same number of slots on each of N nodes. With -np and without --num-slots: an equal share."},
    {.id = Id::kNumSlots, .spellings = "--num-slots", .member = &RaySpec::num_slots, .value_name = "N", .min = 1,
     .max = 65536, .default_text = "1", .group = Group::kRay, .help = "Slots on each of the --num-hosts nodes."},
    {.id = Id::kCpusPerSlot, .spellings = "--cpus-per-slot", .type = Type::kNumber,
     .member = SpecMember(&RaySpec::cpus_per_slot, ReadAmount), .value_name = "N", .group = Group::kRay,
     .help = "CPUs to reserve per slot."},
    {.id = Id::kGpusPerSlot, .spellings = "--gpus-per-slot", .type = Type::kNumber,
     .member = SpecMember(&RaySpec::gpus_per_slot, ReadOptionalAmount), .value_name = "N",
     .default_text = "1 with --use-gpu", .group = Group::kRay,
     .help = "GPUs to reserve per slot; needs --use-gpu."},
    {.id = Id::kUseGpu, .spellings = "--use-gpu", .member = &RaySpec::uses_gpu, .group = Group::kRay,
     .help = "Reserve GPUs."},
    {.id = Id::kResourcesPerSlot, .spellings = "--resources-per-slot", .type = Type::kList,
     .member = SpecMember(&RaySpec::slot_resources, ReadResources), .value_name = "NAME=AMOUNT",
     .group = Group::kRay,
     .help = "Other resources to reserve per slot, for example my_disk=0.5 or memory=1GiB. Repeatable."},
    {.id = Id::kLabelSelector, .spellings = "--label-selector", .type = Type::kList,
     .member = SpecMember(&RaySpec::label_selectors, ReadLabels), .value_name = "NAME=VALUE", .group = Group::kRay,
     .help = "Use only nodes with this label; VALUE may be !spot, in(a,b) or !in(a,b). Repeatable."},
    {.id = Id::kStrategy, .spellings = "--strategy", .member = &RaySpec::strategy,
     .value_name = "auto|PACK|SPREAD|STRICT_PACK|STRICT_SPREAD", .group = Group::kRay,
     .help = "Ray's placement strategy. auto: PACK for -np, STRICT_SPREAD for --num-hosts and -H."},
    {.id = Id::kPlacementGroupTimeout, .spellings = "--placement-group-timeout", .member = &RaySpec::group_timeout,
     .min = 1, .group = Group::kRay, .help = "How long to wait for Ray to reserve the slots."},
    {.id = Id::kGpuVisibility, .spellings = "--gpu-visibility", .member = &RaySpec::gpu_choice,
     .value_name = "host|rank", .group = Group::kRay,
     .help = "CUDA_VISIBLE_DEVICES of a worker. host: all GPUs of the job on its node, as Horovod scripts "
             "expect. rank: only its own."},
    {.id = Id::kBackend, .spellings = "--backend", .member = &RaySpec::backend, .value_name = "auto|ray|ssh",
     .group = Group::kRay,
     .help = "How to start the workers on the hosts of --cluster: through its Ray, or over SSH."},

    {.id = Id::kConfigFile, .spellings = "--config-file", .member = &JobSpec::config_file, .value_name = "FILE",
     .group = Group::kTunables, .is_horovod = true, .help = "Horovod's YAML file of tunables. Flags override it."},
    {.id = Id::kFusionThresholdMb, .spellings = "--fusion-threshold-mb", .type = Type::kInt, .value_name = "MB",
     .min = 0, .max = kMaxMib, .default_text = "Horovod's: 128", .group = Group::kTunables, .is_horovod = true,
     .worker_variable = "HOROVOD_FUSION_THRESHOLD", .config_key = "params.fusion_threshold_mb",
     .help = "Size up to which tensors are fused into one message."},
    {.id = Id::kCycleTimeMs, .spellings = "--cycle-time-ms", .type = Type::kNumber, .value_name = "MS",
     .default_text = "Horovod's: 1", .group = Group::kTunables, .is_horovod = true,
     .worker_variable = "HOROVOD_CYCLE_TIME", .config_key = "params.cycle_time_ms",
     .help = "Time between two cycles of Horovod's background loop."},
    {.id = Id::kCacheCapacity, .spellings = "--cache-capacity", .type = Type::kInt, .value_name = "N", .min = 0,
     .max = kMaxInt, .default_text = "Horovod's: 1024", .group = Group::kTunables, .is_horovod = true,
     .worker_variable = "HOROVOD_CACHE_CAPACITY", .config_key = "params.cache_capacity",
     .help = "Responses that workers cache instead of negotiating them again."},
    {.id = Id::kHierarchicalAllreduce, .spellings = "--hierarchical-allreduce",
     .negations = "--no-hierarchical-allreduce", .type = Type::kFlag, .default_text = "Horovod's: auto",
     .group = Group::kTunables, .is_horovod = true, .worker_variable = "HOROVOD_HIERARCHICAL_ALLREDUCE",
     .config_key = "params.hierarchical_allreduce", .help = "Reduce within a host first, then between hosts."},
    {.id = Id::kHierarchicalAllgather, .spellings = "--hierarchical-allgather",
     .negations = "--no-hierarchical-allgather", .type = Type::kFlag, .default_text = "Horovod's: auto",
     .group = Group::kTunables, .is_horovod = true, .worker_variable = "HOROVOD_HIERARCHICAL_ALLGATHER",
     .config_key = "params.hierarchical_allgather", .help = "Gather within a host first, then between hosts."},
    {.id = Id::kTorusAllreduce, .spellings = "--torus-allreduce", .negations = "--no-torus-allreduce",
     .type = Type::kFlag, .default_text = "Horovod's: off", .group = Group::kTunables, .is_horovod = true,
     .worker_variable = "HOROVOD_TORUS_ALLREDUCE", .config_key = "params.torus_allreduce",
     .help = "Reduce over a two-dimensional torus of hosts and devices."},
    {.id = Id::kTcp, .spellings = "--tcp", .type = Type::kFlag, .group = Group::kTunables, .is_horovod = true,
     .worker_variable = "NCCL_IB_DISABLE", .help = "Restrict NCCL to TCP."},

    {.id = Id::kAutotune, .spellings = "--autotune", .negations = "~--no-autotune", .type = Type::kFlag,
     .default_text = "Horovod's: off", .group = Group::kAutotune, .is_horovod = true,
     .worker_variable = "HOROVOD_AUTOTUNE", .config_key = "autotune.enabled",
     .help = "Let Horovod tune its parameters during training; the options below need it."},
    {.id = Id::kAutotuneLogFile, .spellings = "--autotune-log-file", .value_name = "FILE",
     .group = Group::kAutotune, .is_horovod = true, .worker_variable = "HOROVOD_AUTOTUNE_LOG",
     .config_key = "autotune.log_file", .help = "CSV file for the values that were tried."},
    {.id = Id::kAutotuneWarmupSamples, .spellings = "--autotune-warmup-samples", .type = Type::kInt,
     .value_name = "N", .min = 0, .max = kMaxInt, .default_text = "Horovod's: 3", .group = Group::kAutotune,
     .is_horovod = true, .worker_variable = "HOROVOD_AUTOTUNE_WARMUP_SAMPLES",
     .config_key = "autotune.warmup_samples", .help = "Samples to discard at the start."},
    {.id = Id::kAutotuneStepsPerSample, .spellings = "--autotune-steps-per-sample", .type = Type::kInt,
     .value_name = "N", .min = 0, .max = kMaxInt, .default_text = "Horovod's: 10", .group = Group::kAutotune,
     .is_horovod = true, .worker_variable = "HOROVOD_AUTOTUNE_STEPS_PER_SAMPLE",
     .config_key = "autotune.steps_per_sample", .help = "Training steps per sample."},
    {.id = Id::kAutotuneBayesOptMaxSamples, .spellings = "--autotune-bayes-opt-max-samples", .type = Type::kInt,
     .value_name = "N", .min = 0, .max = kMaxInt, .default_text = "Horovod's: 20", .group = Group::kAutotune,
     .is_horovod = true, .worker_variable = "HOROVOD_AUTOTUNE_BAYES_OPT_MAX_SAMPLES",
     .config_key = "autotune.bayes_opt_max_samples", .help = "Maximum number of samples."},
    {.id = Id::kAutotuneGaussianProcessNoise, .spellings = "--autotune-gaussian-process-noise",
     .type = Type::kNumber, .value_name = "0..1", .default_text = "Horovod's: 0.8", .group = Group::kAutotune,
     .is_horovod = true, .worker_variable = "HOROVOD_AUTOTUNE_GAUSSIAN_PROCESS_NOISE",
     .config_key = "autotune.gaussian_process_noise", .help = "Assumed noise of a sample."},

    {.id = Id::kTimelineFilename, .spellings = "--timeline-filename", .value_name = "FILE|DYNAMIC",
     .group = Group::kTimeline, .is_horovod = true, .worker_variable = "HOROVOD_TIMELINE",
     .config_key = "timeline.filename", .help = "Write Horovod's own trace of its operations."},
    {.id = Id::kTimelineMarkCycles, .spellings = "--timeline-mark-cycles",
     .negations = "~--no-timeline-mark-cycles", .type = Type::kFlag, .default_text = "Horovod's: off",
     .group = Group::kTimeline, .is_horovod = true, .worker_variable = "HOROVOD_TIMELINE_MARK_CYCLES",
     .config_key = "timeline.mark_cycles", .help = "Mark each cycle in the timeline."},

    {.id = Id::kStallCheck, .spellings = "~--stall-check", .negations = "--no-stall-check", .type = Type::kFlag,
     .default_text = "Horovod's: on", .group = Group::kStallCheck, .is_horovod = true,
     .worker_variable = "HOROVOD_STALL_CHECK_DISABLE", .config_key = "stall_check.enabled",
     .help = "Do not check for stalled ranks."},
    {.id = Id::kStallCheckWarningTime, .spellings = "--stall-check-warning-time-seconds", .type = Type::kInt,
     .value_name = "SECONDS", .min = 0, .max = kMaxInt, .default_text = "Horovod's: 60",
     .group = Group::kStallCheck, .is_horovod = true, .worker_variable = "HOROVOD_STALL_CHECK_TIME_SECONDS",
     .config_key = "stall_check.warning_time_seconds", .help = "Warn about a rank that stalls for this long."},
    {.id = Id::kStallCheckShutdownTime, .spellings = "--stall-check-shutdown-time-seconds", .type = Type::kInt,
     .value_name = "SECONDS", .min = 0, .max = kMaxInt, .default_text = "Horovod's: 0 (never)",
     .group = Group::kStallCheck, .is_horovod = true, .worker_variable = "HOROVOD_STALL_SHUTDOWN_TIME_SECONDS",
     .config_key = "stall_check.shutdown_time_seconds", .help = "End the job when a rank stalls for this long."},

    {.id = Id::kMpiThreadsDisable, .spellings = "--mpi-threads-disable", .negations = "~--no-mpi-threads-disable",
     .type = Type::kFlag, .default_text = "Horovod's: off", .group = Group::kLibrary, .is_horovod = true,
     .worker_variable = "HOROVOD_MPI_THREADS_DISABLE", .config_key = "library_options.mpi_threads_disable",
     .help = "Passed on to workers; has no effect without MPI."},
    {.id = Id::kNumNcclStreams, .spellings = "--num-nccl-streams", .type = Type::kInt, .value_name = "N", .min = 0,
     .max = kMaxInt, .default_text = "Horovod's: 1", .group = Group::kLibrary, .is_horovod = true,
     .worker_variable = "HOROVOD_NUM_NCCL_STREAMS", .config_key = "library_options.num_nccl_streams",
     .help = "NCCL streams per worker."},
    {.id = Id::kThreadAffinity, .spellings = "--thread-affinity", .type = Type::kInt, .value_name = "CORE",
     .min = 0, .max = kMaxInt, .group = Group::kLibrary, .is_horovod = true,
     .worker_variable = "HOROVOD_THREAD_AFFINITY", .config_key = "library_options.thread_affinity",
     .help = "CPU core of Horovod's background thread; useful with one worker per host."},
    {.id = Id::kGlooTimeout, .spellings = "--gloo-timeout-seconds", .type = Type::kInt, .value_name = "SECONDS",
     .min = 0, .max = kMaxInt, .default_text = "Horovod's: 30, plus 1 per worker above 32, at most 600",
     .group = Group::kLibrary, .is_horovod = true, .worker_variable = "HOROVOD_GLOO_TIMEOUT_SECONDS",
     .config_key = "library_options.gloo_timeout_seconds", .help = "How long Gloo waits for its peers."},

    {.id = Id::kLogLevel, .spellings = "--log-level", .type = Type::kChoice,
     .value_name = "TRACE|DEBUG|INFO|WARNING|ERROR|FATAL", .default_text = "Horovod's: WARNING",
     .group = Group::kLogging, .is_horovod = true, .worker_variable = "HOROVOD_LOG_LEVEL",
     .config_key = "logging.level", .help = "Log level of Horovod and the launcher."},
    {.id = Id::kLogWithTimestamp, .spellings = "~--log-with-timestamp ~--no-log-hide-timestamp",
     .negations = "--log-without-timestamp ~--log-hide-timestamp", .type = Type::kFlag,
     .default_text = "Horovod's: with", .group = Group::kLogging, .exclusion = Not::kTimestamp, .is_horovod = true,
     .worker_variable = "HOROVOD_LOG_HIDE_TIME", .config_key = "logging.with_timestamp",
     .help = "Omit the time from Horovod's own messages."},

    {.id = Id::kGloo, .spellings = "--gloo", .type = Type::kFlag, .group = Group::kController,
     .exclusion = Not::kController, .is_horovod = true, .help = "Accepted; Horovod always uses Gloo under hvdray."},
    {.id = Id::kMpi, .spellings = "--mpi", .type = Type::kFlag, .group = Group::kController,
     .exclusion = Not::kController, .is_horovod = true,
     .help = "Not supported: hvdray starts the workers itself, without mpirun."},
    {.id = Id::kJsrun, .spellings = "--jsrun", .type = Type::kFlag, .group = Group::kController,
     .exclusion = Not::kController, .is_horovod = true,
     .help = "Not supported: hvdray starts the workers itself, without jsrun."},
    {.id = Id::kMpiArgs, .spellings = "--mpi-args", .value_name = "ARGS", .group = Group::kController,
     .is_horovod = true, .help = "Not supported: there is no mpirun to pass them to."},
    {.id = Id::kBindingArgs, .spellings = "--binding-args", .value_name = "ARGS", .group = Group::kController,
     .is_horovod = true, .help = "Not supported: there is no mpirun or jsrun to pass them to."},

    // Those of other commands.
    {.id = Id::kJson, .spellings = "--json", .type = Type::kFlag, .group = Group::kPlan,
     .help = "Print one JSON object instead of text."},
    {.id = Id::kImport, .spellings = "--import", .type = Type::kList, .value_name = "MODULE,...",
     .group = Group::kPlan,
     .help = "Import these modules with the command's Python on every host, as workers would. Repeatable."},
    {.id = Id::kControlFd, .spellings = "--control-fd", .type = Type::kInt, .value_name = "N", .min = 0,
     .max = 1 << 20, .group = Group::kPlan,
     .help = "The client is at the other end of this descriptor, a connected Unix stream socket."},
    {.id = Id::kControl, .spellings = "--control", .value_name = "PATH", .group = Group::kPlan,
     .help = "Make a Unix socket there, which only this user can use, and wait for a client."},
    {.id = Id::kRayBrokerFd, .spellings = "--ray-broker-fd", .type = Type::kInt, .value_name = "N", .min = 0,
     .max = 1 << 20, .group = Group::kPlan,
     .help = "Slots come from Ray, through a broker at the other end of this descriptor, as the Python package "
             "has one."},
    {.id = Id::kLinger, .spellings = "--linger", .type = Type::kDuration, .default_text = "0",
     .group = Group::kPlan,
     .help = "With --control: how long the hosts are held for another client after a client leaves."},
    {.id = Id::kHostSource, .spellings = "--host-source", .type = Type::kChoice, .member = &JobSpec::are_hosts_told,
     .is_settled_later = true, .value_name = "control", .group = Group::kElastic, .exclusion = Not::kHostSource,
     .help = "control: the client lists the hosts of an elastic job, and each change. Needs --min-np."},
    {.id = Id::kStop, .spellings = "--stop", .type = Type::kFlag, .group = Group::kFailure,
     .help = "Run hvdray down --yes afterwards, however the command ended; its exit code is kept."},
    {.id = Id::kBind, .spellings = "--host --bind", .value_name = "ADDRESS", .default_text = "127.0.0.1",
     .group = Group::kNetwork, .help = "IPv4 address to listen on."},
    {.id = Id::kPort, .spellings = "--port", .type = Type::kInt, .value_name = "N", .min = 0, .max = 65535,
     .default_text = "0", .group = Group::kNetwork, .help = "Port to listen on; 0: any free port."},
    {.id = Id::kAllow, .spellings = "--allow", .value_name = "CIDR,...", .group = Group::kNetwork,
     .help = "Addresses that may connect. Required unless listening on loopback."},
    {.id = Id::kClusterName, .spellings = "-n --cluster-name", .value_name = "NAME", .default_text = "the file's",
     .group = Group::kHosts, .help = "Use this name instead of the file's cluster_name."},
    {.id = Id::kMinWorkers, .spellings = "--min-workers", .type = Type::kInt, .value_name = "N", .min = 0,
     .max = kMaxInt, .default_text = "the file's", .group = Group::kHosts,
     .help = "Use this number instead of the file's min_workers; if the file has node types, one of workers."},
    {.id = Id::kMaxWorkers, .spellings = "--max-workers", .type = Type::kInt, .value_name = "N", .min = 0,
     .max = kMaxInt, .default_text = "the file's", .group = Group::kHosts,
     .help = "Use this number instead of the file's max_workers."},
    {.id = Id::kResolved, .spellings = "--resolved", .type = Type::kFlag, .group = Group::kPlan,
     .help = "Print what real ray takes: the same without the section 'hvdray'."},

    // Those of commands that take a cluster file, spelled as Ray's.
    {.id = Id::kClusterVerbose, .name = "cluster-verbose", .spellings = "-v --verbose", .type = Type::kFlag,
     .group = Group::kOutput, .help = "Print what hvdray does and why."},
    {.id = Id::kNoConfigCache, .spellings = "--no-config-cache --disable-usage-stats --redirect-command-output",
     .type = Type::kFlag, .group = Group::kGeneral,
     .help = "Accepted for Ray's scripts; hvdray caches no configuration and collects no statistics."},
    {.id = Id::kPortForward, .spellings = "-p --port-forward", .type = Type::kList, .value_name = "PORT",
     .group = Group::kNetwork,
     .help = "Meanwhile, forward this port of our loopback to the same port there; LOCAL:REMOTE for another. "
             "Repeatable."},
    {.id = Id::kRunEnv, .spellings = "--run-env", .type = Type::kChoice, .value_name = "auto|host|docker",
     .default_text = "auto", .group = Group::kJob,
     .help = "Run it on the host or in the file's container. auto: in the container if the file has one."},
    {.id = Id::kTmux, .spellings = "--tmux", .type = Type::kFlag, .group = Group::kJob,
     .help = "Run it in a new tmux session and return at once."},
    {.id = Id::kScreen, .spellings = "--screen", .type = Type::kFlag, .group = Group::kJob,
     .help = "Run it in a new screen and return at once."},
    {.id = Id::kNewWindow, .spellings = "-N --new", .type = Type::kFlag, .group = Group::kJob,
     .help = "With --tmux or --screen, open a new one even if there is one already."},
    {.id = Id::kNodeIp, .spellings = "--node-ip", .value_name = "ADDRESS", .default_text = "the head",
     .group = Group::kHosts, .help = "Log in to this machine of the cluster instead of the head."},
    {.id = Id::kStart, .spellings = "--start", .type = Type::kFlag, .group = Group::kHosts,
     .help = "Run hvdray up --yes first; stop if it fails."},
    {.id = Id::kGang, .spellings = "--gang", .type = Type::kFlag, .group = Group::kJob,
     .help = "Run the script as hvdray run would, on -np slots of the cluster's Ray; takes every option of run."},
    {.id = Id::kAllNodes, .spellings = "-A --all-nodes", .type = Type::kFlag, .group = Group::kHosts,
     .help = "Copy to the workers, too."},
    {.id = Id::kDashboardPort, .name = "dashboard-port", .spellings = "-p --port", .type = Type::kInt,
     .value_name = "PORT", .min = 1, .max = 65535, .default_text = "8265", .group = Group::kNetwork,
     .help = "Port to listen on, on our loopback."},
    {.id = Id::kRemotePort, .spellings = "--remote-port", .type = Type::kInt, .value_name = "PORT", .min = 1,
     .max = 65535, .default_text = "8265", .group = Group::kNetwork, .help = "Port of the dashboard on the head."},
    {.id = Id::kInterval, .spellings = "--interval", .type = Type::kDuration, .min = 1, .default_text = "2",
     .group = Group::kOutput, .help = "Time between two looks at the cluster."},
    {.id = Id::kLines, .spellings = "--lines", .type = Type::kInt, .value_name = "N", .min = 0, .max = kMaxInt,
     .default_text = "all", .group = Group::kOutput, .help = "Print only the last N lines."},
    {.id = Id::kFollow, .spellings = "-f --follow", .type = Type::kFlag, .group = Group::kOutput,
     .help = "Print what is added to the file, until Ctrl-C."},
    {.id = Id::kYes, .spellings = "-y --yes", .type = Type::kFlag, .group = Group::kPlan,
     .help = "Do it without asking."},
    {.id = Id::kRestartOnly, .spellings = "--restart-only", .type = Type::kFlag, .group = Group::kPlan,
     .help = "Restart Ray on all nodes, but run no set-up."},
    {.id = Id::kNoRestart, .spellings = "--no-restart", .type = Type::kFlag, .group = Group::kPlan,
     .help = "Do not restart a running Ray, whatever changed in the set-up."},
    {.id = Id::kForceSetup, .spellings = "--force-setup", .type = Type::kFlag, .group = Group::kPlan,
     .help = "Run every step of the set-up, even those already done."},
    {.id = Id::kWorkersOnly, .spellings = "--workers-only", .type = Type::kFlag, .group = Group::kPlan,
     .help = "Leave the head as it is."},
    {.id = Id::kKeepMinWorkers, .spellings = "--keep-min-workers", .type = Type::kFlag, .group = Group::kPlan,
     .help = "Leave the head and the first min_workers workers as they are."},
    {.id = Id::kLoginShells, .spellings = "--use-login-shells", .negations = "--use-normal-shells",
     .type = Type::kFlag, .group = Group::kPlan,
     .help = "Run the file's commands in an interactive login bash, as Ray does, so that ~/.bashrc counts."},
    {.id = Id::kPurge, .spellings = "--purge", .type = Type::kFlag, .group = Group::kPlan,
     .help = "In a cloud, also terminate stopped machines and delete the key pair, security group and instance "
             "profile that hvdray made."},
    {.id = Id::kLease, .spellings = "--lease", .type = Type::kDuration, .value_name = "TIME",
     .default_text = "as it is", .group = Group::kPlan,
     .help = "Every node ends its Ray by itself after TIME (8h, 2d) unless a further up --lease renews it. 0: "
             "never."},
    {.id = Id::kExpired, .spellings = "--expired", .type = Type::kFlag, .group = Group::kPlan,
     .help = "End the cluster only if its lease (up --lease) has ended."},

    {.id = Id::kMinBytes, .name = "min-bytes", .spellings = "-b --minbytes", .value_name = "SIZE",
     .default_text = "8", .group = Group::kJob,
     .help = "Smallest size: bytes, or with K, M or G (powers of 1024)."},
    {.id = Id::kMaxBytes, .name = "max-bytes", .spellings = "-e --maxbytes", .value_name = "SIZE",
     .default_text = "32M", .group = Group::kJob, .help = "Largest size. Each rank takes two buffers of it."},
    {.id = Id::kStepFactor, .name = "step-factor", .spellings = "-f --stepfactor", .value_name = "N",
     .default_text = "2", .group = Group::kJob, .help = "Each size is N times the one before."},
    {.id = Id::kStepBytes, .name = "step-bytes", .spellings = "-i --stepbytes", .value_name = "SIZE",
     .group = Group::kJob, .help = "Each size is SIZE more than the one before, in place of -f."},
    {.id = Id::kCollectives, .name = "collectives", .spellings = "--collective", .value_name = "LIST|all",
     .default_text = "all_reduce", .group = Group::kJob,
     .help = "Collectives to measure: all_reduce, all_gather, broadcast, reduce, reduce_scatter, all_to_all, "
             "gather, scatter, send_recv."},
    {.id = Id::kDataTypes, .name = "data-types", .spellings = "-d --datatype", .value_name = "LIST|all",
     .default_text = "float32", .group = Group::kJob,
     .help = "Types of the elements: float32, bfloat16, int8, ..."},
    {.id = Id::kReduceOps, .name = "reduce-ops", .spellings = "-o --op", .value_name = "LIST|all",
     .default_text = "sum", .group = Group::kJob,
     .help = "Reductions: sum, average, min, max, product, ... Skips those that a type does not have."},
    {.id = Id::kRoots, .name = "roots", .spellings = "-r --root", .value_name = "RANKS|all", .default_text = "0",
     .group = Group::kJob, .help = "Roots of the collectives that have one."},
    {.id = Id::kCollectiveBackends, .name = "collective-backends", .spellings = "--backend", .value_name = "LIST",
     .default_text = "that of HVDRAY_COLLECTIVE, else auto", .group = Group::kJob,
     .help = "Backends of the collective library, by the names that HVDRAY_COLLECTIVE takes "
             "(docs/collective.md), one after the other."},
    {.id = Id::kIterations, .name = "iterations", .spellings = "-n --iters", .type = Type::kInt, .value_name = "N",
     .min = 1, .max = 1000000, .default_text = "as many as fit 0.2 s, from 10 to 1000", .group = Group::kJob,
     .help = "Calls to measure for each row, in place and not."},
    {.id = Id::kWarmupIterations, .name = "warmup-iterations", .spellings = "-w --warmup-iters ~--warmup_iters",
     .type = Type::kInt, .value_name = "N", .min = 0, .max = 1000000, .default_text = "5", .group = Group::kJob,
     .help = "Warm-up calls before the measurement."},
    {.id = Id::kCheckResults, .name = "check-results", .spellings = "-c --check", .type = Type::kInt,
     .value_name = "0|1", .min = 0, .max = 1, .default_text = "1", .group = Group::kJob,
     .help = "Whether to compare each result, element by element, with the right one."},
    {.id = Id::kJsonFile, .name = "json-file", .spellings = "--json", .value_name = "FILE|-",
     .group = Group::kOutput, .help = "Write the results as JSON. -: to stdout, in place of the table."},
    {.id = Id::kCsvFile, .name = "csv-file", .spellings = "--csv", .value_name = "FILE|-", .group = Group::kOutput,
     .help = "Write the results as comma-separated values. -: to stdout, in place of the table."},
    {.id = Id::kTune, .spellings = "--tune", .value_name = "FILE|-", .group = Group::kOutput,
     .help = "Instead of a sweep: find the size thresholds between all-reduce algorithms, and write the table "
             "for HVDRAY_COLLECTIVE_TABLE."},
    {.id = Id::kPlot, .spellings = "--plot", .type = Type::kOptionalChoice, .value_name = "FILE.svg",
     .group = Group::kOutput,
     .help = "Plot busbw over size below the table, or into a file; --plot FILE.svg means the same."},
    {.id = Id::kResume, .spellings = "--resume", .type = Type::kFlag, .group = Group::kJob,
     .help = "Go on with the study, or join those who work on it. Trials that were cut short run again."},
    {.id = Id::kStudyName, .spellings = "--study", .value_name = "NAME", .default_text = "the only one",
     .group = Group::kJob, .help = "With show: which study of the storage."},
    {.id = Id::kPlotDirectory, .name = "plot-directory", .spellings = "--plot", .value_name = "DIRECTORY",
     .group = Group::kOutput,
     .help = "With show: write Optuna's plots there: the history, and how important each parameter is. Needs "
             "matplotlib or plotly."},
};
// clang-format on

template <typename T>
constexpr OptionType TypeFor(const SpecMember<T>& /*member*/) {
  if constexpr (std::is_same_v<T, bool>) return Type::kFlag;
  if constexpr (std::is_same_v<T, Duration>) return Type::kDuration;
  if constexpr (std::is_same_v<T, std::optional<PlanFormat>>) return Type::kOptionalChoice;
  if constexpr (std::is_enum_v<T>) return Type::kChoice;
  if constexpr (std::is_same_v<T, std::vector<std::string>>) return Type::kList;
  if constexpr (std::is_same_v<T, std::optional<std::pair<int, int>>>) return Type::kIntPair;
  const bool is_number = std::is_convertible_v<int, T> && !std::is_same_v<T, double>;
  return is_number ? Type::kInt : Type::kText;
}

/// The row as written, with what need not be.
constexpr OptionRow WholeRow(OptionRow row) {
  if (row.name.empty()) {
    const size_t begin = row.spellings.find("--") + 2;
    row.name = row.spellings.substr(begin, row.spellings.find(' ', begin) - begin);
  }
  VisitMember(row, [&row](const auto& member) {
    if (row.type == Type::kText && !member.has_read()) row.type = TypeFor(member);
  });
  if (row.type == Type::kDuration && row.value_name.empty()) row.value_name = "SECONDS";
  return row;
}

constexpr auto kOptions = [] {
  std::array<OptionRow, std::size(kWritten)> whole{};
  std::ranges::transform(kWritten, whole.begin(), &WholeRow);
  return whole;
}();

constexpr bool IsInOrder() {
  for (size_t i = 0; i < kOptions.size(); ++i) {
    if (static_cast<size_t>(kOptions[i].id) != i) return false;
  }
  return kOptions.size() == static_cast<size_t>(Id::kCount);
}
static_assert(IsInOrder(), "rows stand in the order of OptionId, one each");

template <typename T>
std::string ShownDefault(const OptionRow& row, const T& value) {
  if constexpr (std::is_same_v<T, Duration>) {
    return value == Duration::zero() ? "none" : FormatSeconds(value);
  } else if constexpr (std::is_enum_v<T>) {
    return std::string(ChoicesOf(row)[static_cast<size_t>(value)]);
  } else if constexpr (std::is_same_v<T, int> || std::is_same_v<T, double>) {
    return fmt::format("{:g}", static_cast<double>(value));
  } else {
    return {};  // A flag's is off; of others a row says it in words.
  }
}

// Spellings, keys and titles, derived from the rows.

void AddSpellings(const OptionRow& row, std::string_view words, bool is_negation,
                  std::vector<Spelling>* spellings) {
  for (std::string_view word : BlankSeparated(words)) {
    const bool is_hidden = word.front() != '-';
    const bool is_added = word.front() == '+';
    if (is_hidden) word.remove_prefix(1);
    spellings->push_back({word, &row, is_negation, is_hidden, row.is_horovod && !is_added});
  }
}

std::vector<OptionKey> BuildKeys(bool has_developers) {
  std::vector<OptionKey> keys;
  for (const OptionRow& row : OptionTable()) {
    if (row.type == OptionType::kAction) continue;
    if (row.group == OptionGroup::kDeveloper && !has_developers) continue;
    const size_t first = keys.size();
    keys.push_back({OptionKeyOf(row.name), &row, false});
    for (const Spelling& spelling : Spellings(row)) {
      if (!spelling.is_long()) continue;
      std::string key = OptionKeyOf(spelling.text.substr(2));
      bool is_known = false;
      for (size_t i = first; i < keys.size(); ++i) is_known = is_known || keys[i].text == key;
      if (!is_known) keys.push_back({std::move(key), &row, spelling.is_negation});
    }
  }
  return keys;
}

}  // namespace

std::span<const OptionRow> OptionTable() {
  return std::span(kOptions).first(static_cast<size_t>(Id::kJson));
}

std::span<const OptionRow> AllOptions() { return kOptions; }

const OptionRow& RowOf(OptionId id) {
  HVDRAY_CHECK(id < OptionId::kCount);
  return kOptions[static_cast<size_t>(id)];
}

std::vector<Spelling> Spellings(const OptionRow& row) {
  std::vector<Spelling> spellings;
  AddSpellings(row, row.spellings, false, &spellings);
  AddSpellings(row, row.negations, true, &spellings);
  return spellings;
}

const std::vector<Spelling>& AllSpellings() {
  static const std::vector<Spelling> rows = [] {
    std::vector<Spelling> all;
    for (const OptionRow& row : OptionTable()) {
      for (const Spelling& spelling : Spellings(row)) all.push_back(spelling);
    }
    return all;
  }();
  return rows;
}

std::vector<Spelling> Spellings(const CommandRow& command) {
  // A command's own hide those of run: `-p` of submit, `-n` of bench.
  std::vector<Spelling> all;
  for (const CommandOption& option : command.options) {
    const OptionRow& row = RowOf(option.id);
    if (command.is_launch && row.id < OptionId::kJson) continue;
    for (Spelling spelling : Spellings(row)) {
      spelling.is_abbreviable = false;
      all.push_back(spelling);
    }
  }
  if (command.is_launch) {
    const size_t own = all.size();
    for (const Spelling& spelling : AllSpellings()) {
      const auto end = all.begin() + static_cast<ptrdiff_t>(own);
      const bool is_hidden_by_own = std::any_of(
          all.begin(), end, [&](const Spelling& other) { return other.text == spelling.text; });
      if (!is_hidden_by_own) all.push_back(spelling);
    }
  }
  return all;
}

const std::vector<OptionKey>& AllKeys() {
  static const std::vector<OptionKey> keys = BuildKeys(/*has_developers=*/false);
  return keys;
}

const std::vector<OptionKey>& AllVariables() {
  static const std::vector<OptionKey> keys = BuildKeys(/*has_developers=*/true);
  return keys;
}

std::string OptionKeyOf(std::string_view name) {
  std::string key(name);
  std::ranges::replace(key, '-', '_');
  return key;
}

std::string VariableOfKey(std::string_view key) {
  std::string variable = "HVDRAY_";
  for (const char c : key) {
    variable += c >= 'a' && c <= 'z' ? static_cast<char>(c - 'a' + 'A') : c;
  }
  return variable;
}

std::string HintForVariable(const OptionRow& row) {
  return "there is the variable " + VariableOfKey(OptionKeyOf(row.name));
}

std::vector<std::string_view> ChoicesOf(const OptionRow& row) {
  return BlankSeparated(row.value_name, "|");
}

std::string DefaultText(const OptionRow& row) {
  const bool is_added = row.default_text.starts_with(';');
  if (!row.default_text.empty() && !is_added) return std::string(row.default_text);
  static const JobSpec usual;
  std::string text;
  VisitMember(row, [&](const auto& member) { text = ShownDefault(row, *member.In(usual)); });
  return text.append(row.default_text);
}

std::string_view TitleOf(OptionGroup group) {
  switch (group) {
    case OptionGroup::kJob:
      return "Job";
    case OptionGroup::kHosts:
      return "Hosts and workers";
    case OptionGroup::kElastic:
      return "Elastic jobs";
    case OptionGroup::kRay:
      return "Ray";
    case OptionGroup::kFailure:
      return "Time limits and failures";
    case OptionGroup::kOutput:
      return "Input and output";
    case OptionGroup::kPlan:
      return "Plans, reports and traces";
    case OptionGroup::kNetwork:
      return "Network and SSH";
    case OptionGroup::kTunables:
      return "Horovod: parameters";
    case OptionGroup::kAutotune:
      return "Horovod: autotune";
    case OptionGroup::kTimeline:
      return "Horovod: timeline";
    case OptionGroup::kStallCheck:
      return "Horovod: stall check";
    case OptionGroup::kLibrary:
      return "Horovod: libraries";
    case OptionGroup::kLogging:
      return "Horovod: logging";
    case OptionGroup::kController:
      return "Controllers";
    case OptionGroup::kGeneral:
      return "General";
    case OptionGroup::kDeveloper:
      return "Variables for developers";
  }
  return "";
}

}  // namespace hvdray
