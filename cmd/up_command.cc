// SPDX-License-Identifier: Apache-2.0
// `hvdray up` and `hvdray down`: from a cluster file to nodes and their steps, from these to a
// driver that is run over SSH, and to an exit code.
#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <map>
#include <memory>
#include <optional>
#include <system_error>
#include <utility>

#include "base/blocking_pool.h"
#include "base/digest.h"
#include "base/fd.h"
#include "base/log.h"
#include "base/loop.h"
#include "base/terminal.h"
#include "base/text.h"
#include "cmd/cloud_work.h"
#include "cmd/cluster_file.h"
#include "cmd/commands.h"
#include "cmd/host_access.h"
#include "cmd/launch_plan.h"
#include "launcher/cluster/bootstrap_config.h"
#include "launcher/cluster/cluster_events.h"
#include "launcher/cluster/cluster_report.h"
#include "launcher/cluster/cluster_run.h"
#include "launcher/cluster/down_driver.h"
#include "launcher/cluster/lease.h"
#include "launcher/cluster/up_driver.h"
#include "launcher/engine/job_console.h"
#include "launcher/job/exit_code.h"
#include "launcher/job/hostfile.h"
#include "launcher/job/option_layers.h"
#include "launcher/report/facts_json.h"

namespace hvdray {
namespace {

constexpr size_t kTokenBytes = 32;
constexpr Duration kUpLogIn = std::chrono::seconds(60);
constexpr Duration kDownLogIn = std::chrono::seconds(20);
// Of one try; --start-timeout limits all of them.
constexpr Duration kConnectLimit = std::chrono::seconds(10);

// Machines that are just made take their time to boot.
constexpr Duration kCloudLogIn = std::chrono::minutes(5);

/// What both commands read from file and options.
struct Cluster {
  std::string command;  ///< "up"
  std::string path;
  std::string words;  ///< The file and what was said beside it, for other commands.
  ClusterSpec file;
  JobSpec spec;
  std::vector<HostSlots> hosts;  ///< The head first.
  std::vector<ScriptPlace> places;
  std::string home;
  CommandShell shell = CommandShell::kLogin;
  std::string head;  ///< The head's address in the cluster's network.
  TimePoint began{};
  std::chrono::system_clock::time_point began_wall = std::chrono::system_clock::now();

  // In a cloud.
  std::unique_ptr<CloudWork> work;
  std::vector<Machine> machines;  ///< One for each host.
};

/// A directory that is removed at the end; made when something is put there.
class ScratchDirectory {
 public:
  ScratchDirectory() : path_(fmt::format("{}/hvdray-up-{}", Base(), Hex(RandomBytes(8)))) {}
  ~ScratchDirectory() {
    std::error_code ignored;
    std::filesystem::remove_all(path_, ignored);
  }
  ScratchDirectory(const ScratchDirectory&) = delete;
  ScratchDirectory& operator=(const ScratchDirectory&) = delete;
  const std::string& path() const { return path_; }

 private:
  static std::string Base() {
    std::error_code error;
    const std::filesystem::path base = std::filesystem::temp_directory_path(error);
    return error ? "/tmp" : base.string();
  }
  const std::string path_;
};

Status CheckFile(const ClusterSpec& file) {
  if (!IsPlainClusterName(file.cluster_name)) {
    return {
        ErrorCode::kSpecInvalid,
        fmt::format("cluster_name '{}' is no name for a directory", ShownText(file.cluster_name)),
        "letters, digits and . _ - inside, at most 100"};
  }
  if (!file.docker.container_name.empty() && !IsPlainClusterName(file.docker.container_name)) {
    return {ErrorCode::kSpecInvalid,
            fmt::format("docker: container_name '{}' is no name for a container",
                        ShownText(file.docker.container_name)),
            "letters, digits and . _ - inside, at most 100"};
  }
  return {};
}

/// Adds a node by its address in the cluster's network; the first one is the head. `dialled`: how
/// it is reached from here, if otherwise.
void AddHost(Cluster& cluster, const std::string& address, const std::string& dialled) {
  const bool is_head = cluster.hosts.empty();
  HostSlots& made = cluster.hosts.emplace_back(MakeHostSlots(address, 1));
  if (!dialled.empty() && dialled != made.host) made.address.name = dialled;
  if (is_head) cluster.head = made.host;
  ScriptPlace& place = cluster.places.emplace_back();
  place.cluster = cluster.file.cluster_name;
  place.node = made.host;
  place.shell = cluster.shell;
  place.container = cluster.file.docker.container_name;
  if (!place.container.empty()) {
    place.engine = cluster.file.docker.use_podman ? "podman" : "docker";
  }
  if (!is_head) place.head = cluster.head;
}

void SayLine(std::string_view line) {
  // Whether stdout is still read is found out by what follows.
  (void)std::fprintf(stdout, "%.*s\n", static_cast<int>(line.size()), line.data());
  (void)std::fflush(stdout);
}

Status OpenCloud(Cluster& cluster) {
  HVDRAY_ASSIGN_OR_RETURN(cluster.work, CloudWork::Open(cluster.file, &SayLine));
  return {};
}

Status ReadCluster(const CommandRequest& request, Cluster& cluster) {
  cluster.path = request.arguments.front();
  HVDRAY_ASSIGN_OR_RETURN(cluster.file,
                          ReadClusterFile(cluster.command, cluster.path, request.said));
  HVDRAY_RETURN_IF_ERROR(CheckFile(cluster.file));
  HVDRAY_RETURN_IF_ERROR(CheckReportPaths(request.spec));
  HVDRAY_RETURN_IF_ERROR(CheckDistinctFiles(request.spec));
  cluster.words = cluster.path;
  if (request.Has(OptionId::kClusterName)) cluster.words += " -n " + cluster.file.cluster_name;
  cluster.spec = request.spec;
  JobSpec& spec = cluster.spec;
  cluster.home = Environment::FromProcess().GetOr("HOME", "");
  const ClusterAuth& auth = cluster.file.auth;
  if (!auth.ssh_user.empty()) spec.ssh_user.Set(auth.ssh_user, cluster.path);
  if (!auth.ssh_proxy_command.empty()) {
    spec.ssh_proxy_command.Set(auth.ssh_proxy_command, cluster.path);
  }
  if (!auth.ssh_private_key.empty() && spec.ssh_identity_file->empty()) {
    std::string key = auth.ssh_private_key;
    if (key.starts_with("~/")) key.replace(0, 1, cluster.home);
    spec.ssh_identity_file.Set(std::move(key), cluster.path);
  }
  HVDRAY_RETURN_IF_ERROR(CheckHostAccess(spec));
  const RawOption* login = request.said.Find(OptionId::kLoginShells);
  if (login != nullptr && login->last() == "false") cluster.shell = CommandShell::kPlain;
  if (!cluster.file.is_local()) return OpenCloud(cluster);
  HVDRAY_ASSIGN_OR_RETURN(const std::vector<ClusterHost> hosts, ClusterHostsOf(cluster.file, 1));
  for (const ClusterHost& host : hosts) {
    const bool is_head = cluster.hosts.empty();
    AddHost(cluster, host.address, is_head ? cluster.file.external_head_ip : "");
  }
  return {};
}

/// The limit for all tries to log in; sets that of one try.
Duration TakeLogInLimit(JobSpec& spec, Duration otherwise) {
  const Duration limit = spec.start_timeout.is_default() ? otherwise : *spec.start_timeout;
  spec.start_timeout.Set(std::min(limit, kConnectLimit), spec.start_timeout.origin());
  return limit;
}

/// Without a user to ask, only --yes allows a change.
Status CheckConsent(const CommandRequest& request) {
  if (request.Has(OptionId::kYes) || request.Has(OptionId::kDryRun) || IsUserAtTerminal()) {
    return {};
  }
  return {ErrorCode::kUsage, "it asks before it changes anything, but there is no terminal",
          "--yes answers for you"};
}

/// What is copied to nodes.
struct NodeFiles {
  std::vector<SyncedDirectory> mounts;     ///< To all.
  std::vector<SyncedDirectory> bootstrap;  ///< To a head with an autoscaler.
};

/// Blocks until the user has answered.
bool AskForYes(const std::string& question) {
  TerminalQuestion asked;
  asked.text = question;
  asked.is_shown = true;
  asked.limit = std::chrono::hours(1);
  const Result<Secret> said = AskAtTerminal(asked);
  const std::string word = said.ok() ? Lower(Trimmed(said->view())) : "";
  return word == "y" || word == "yes";
}

/// A run to its end.
struct ClusterEnd {
  int exit_code = 0;
  int signo = 0;   ///< Not 0: interrupted by it.
  Status failure;  ///< Beside those of the nodes: what it prints, or a file, is not whole.
  std::vector<NodeRow> nodes;

  /// Of kReaderGone: nothing more can be printed.
  bool has_reader() const { return failure.code() != ErrorCode::kReaderGone; }
  Status error() const {
    if (!failure.ok()) return failure;
    if (signo != 0) {
      return {ErrorCode::kInterrupted, fmt::format("stopped by {}", SignalName(signo))};
    }
    return FirstFailure(nodes);
  }
};

ClusterCall CallOf(const Cluster& cluster) {
  ClusterCall call;
  call.command = cluster.command;
  call.name = cluster.file.cluster_name;
  call.file = cluster.path;
  call.build = BuildName();
  call.began = cluster.began;
  call.began_wall = cluster.began_wall;
  return call;
}

/// Null: not asked for. A file that cannot be written whole is told at once, and is a failure of
/// `end` unless there is one.
Result<std::unique_ptr<ClusterEvents>> OpenEvents(Loop& loop, const Cluster& cluster,
                                                  const ClusterDriver& driver, ClusterEnd& end) {
  const Setting<std::string>& file = cluster.spec.events_file;
  if (file->empty()) return std::unique_ptr<ClusterEvents>();
  ClusterEventsOptions options;
  options.path = *file;
  options.option = NamedBy(file, "events");
  options.call = CallOf(cluster);
  options.nodes = driver.Rows();
  options.on_damaged = [&end, &cluster](Status why) {
    Tell(LogLevel::kError, "hvdray " + cluster.command, why.ToString());
    if (end.failure.ok()) end.failure = std::move(why);
  };
  return ClusterEvents::Open(loop, std::move(options));
}

ClusterRunOptions RunOptionsOf(const Cluster& cluster, ClusterEnd& end, BlockingPool& questions) {
  ClusterRunOptions options;
  options.places = cluster.places;
  options.build = BuildName();
  options.is_plain = ::isatty(STDOUT_FILENO) == 0;
  options.job_id = "cluster-" + cluster.file.cluster_name;
  options.print = [&end](std::string_view text) {
    const bool is_written = std::fwrite(text.data(), 1, text.size(), stdout) == text.size();
    if (std::fflush(stdout) != 0 || !is_written) {
      end.failure = {ErrorCode::kReaderGone, "nobody reads stdout any more"};
    }
  };
  options.complain = [&cluster](const Status& why) {
    Tell(LogLevel::kError, "hvdray " + cluster.command, why.ToString());
  };
  options.ask = [&questions](const std::string& question, std::function<void(bool)> answer) {
    questions.Run<bool>([question] { return AskForYes(question); }, std::move(answer));
  };
  return options;
}

/// The exit code as far as the run decides it.
int CodeOf(const ClusterEnd& end) {
  if (!end.has_reader()) return ExitCodeOf(end.failure);
  if (end.signo != 0) return 128 + end.signo;
  return end.exit_code == 0 && !end.failure.ok() ? ExitCodeOf(end.failure) : end.exit_code;
}

/// The last event and the report. What cannot be written makes a success a failure.
void WriteFiles(const Cluster& cluster, std::unique_ptr<ClusterEvents> events, ClusterEnd& end) {
  ClusterReport report;
  report.call = CallOf(cluster);
  report.ended = std::chrono::steady_clock::now();
  report.nodes = end.nodes;
  end.exit_code = CodeOf(end);
  if (events != nullptr) events->OnEnd(end.exit_code, end.error(), report.ended);
  events.reset();  // A pipe may take its last lines only now.
  report.exit_code = end.exit_code = CodeOf(end);
  report.error = end.error();
  const std::string& path = *cluster.spec.report_file;
  if (path.empty()) return;
  const Status written = WriteClusterReport(path, report);
  if (written.ok()) return;
  Tell(LogLevel::kError, "hvdray " + cluster.command, written.ToString());
  if (end.exit_code == 0) end.exit_code = ExitCodeOf(written);
}

/// Errors: nothing has been started.
Result<ClusterEnd> RunCluster(Cluster& cluster, ClusterDriver& driver, const NodeFiles& files) {
  ClusterEnd end;
  HVDRAY_ASSIGN_OR_RETURN(const std::unique_ptr<Loop> loop, Loop::Create());
  std::vector<std::string> names;
  for (const HostSlots& host : cluster.hosts) names.push_back(host.dial_name());
  std::vector<bool> is_remote;
  for (const bool is_this : AreThisMachine(names, LookupOf(cluster.spec))) {
    is_remote.push_back(!is_this || *cluster.spec.is_remote_forced);
  }
  HVDRAY_ASSIGN_OR_RETURN(
      const std::unique_ptr<HostAccess> access,
      HostAccess::Open(*loop, cluster.spec, AgentPath(cluster.spec), cluster.hosts, is_remote,
                       HostSpread::kOneMachine, {"--keep-processes"}));
  HVDRAY_ASSIGN_OR_RETURN(std::unique_ptr<ClusterEvents> events,
                          OpenEvents(*loop, cluster, driver, end));
  BlockingPool questions(*loop, std::chrono::milliseconds(500));
  ClusterRunOptions options = RunOptionsOf(cluster, end, questions);
  options.files = files.mounts;
  options.bootstrap = files.bootstrap;
  options.events = events.get();
  ClusterRun run(*loop, *access, driver, std::move(options));
  const ClusterRun::Outcome outcome = run.Run();
  EndTerminalQuestions();
  end.exit_code = outcome.exit_code;
  end.signo = outcome.signo;
  end.nodes = driver.Rows();
  WriteFiles(cluster, std::move(events), end);
  if (!end.has_reader()) Fail(cluster.command, end.failure);
  if (end.signo != 0) {
    Tell(LogLevel::kError, "hvdray " + cluster.command,
         fmt::format("interrupted; nodes remember what is done: hvdray {} {} goes on from there",
                     cluster.command, cluster.words));
  }
  return end;
}

// ---- machines of a cloud

/// Gets or, for --dry-run, only looks at the machines, and makes hosts of them. nullopt: go on with
/// these; otherwise the command is over, with this exit code.
std::optional<int> TakeMachines(const CommandRequest& request, Cluster& cluster,
                                bool* is_confirmed) {
  const auto plan = std::make_shared<MachinePlan>();
  const auto fail = [&cluster](const Status& why) {
    if (cluster.work->signo() == 0) return Fail("up", why);
    Tell(LogLevel::kError, "hvdray up",
         fmt::format("interrupted; machines that were made stay: hvdray up {0} goes on with them, "
                     "hvdray down {0} ends them",
                     cluster.words));
    return 128 + cluster.work->signo();
  };
  Status status = cluster.work->Run([plan](CloudWork::Cloud& cloud) -> Status {
    HVDRAY_ASSIGN_OR_RETURN(*plan, cloud.machines->Plan());
    return {};
  });
  if (!status.ok()) return fail(status);
  for (const std::string& warning : plan->warnings) Tell(LogLevel::kWarning, "hvdray up", warning);
  for (const std::string& line : plan->Lines()) SayLine(line);
  const auto machines = std::make_shared<std::vector<Machine>>();
  if (request.Has(OptionId::kDryRun)) {
    for (const MachineGroup& group : plan->groups) {
      for (const CloudNode& node : group.kept) {
        if (node.state == CloudState::kRunning) machines->push_back({.node = node});
      }
    }
    const bool has_head = !machines->empty() && plan->groups.front().missing() == 0;
    if (!has_head || plan->has_changes()) return 0;
  } else {
    const bool is_asked = plan->has_changes() && !request.Has(OptionId::kYes);
    const auto is_yes = std::make_shared<bool>(true);
    if (is_asked) {
      status = cluster.work->Run([is_yes, name = cluster.file.cluster_name](CloudWork::Cloud&) {
        *is_yes = AskForYes(fmt::format("Do this to cluster {}? [y/N] ", name));
        return Status();
      });
      if (!status.ok()) return fail(status);
      if (!*is_yes) {
        SayLine("nothing was changed");
        return 0;
      }
      *is_confirmed = true;
    }
    status = cluster.work->Run([machines](CloudWork::Cloud& cloud) -> Status {
      HVDRAY_ASSIGN_OR_RETURN(*machines, cloud.machines->Make());
      return {};
    });
    if (!status.ok()) return fail(status);
  }
  // Those that could not be had are told at the end; they are no hosts.
  std::stable_partition(machines->begin(), machines->end(),
                        [](const Machine& machine) { return machine.why.ok(); });
  cluster.machines = std::move(*machines);
  for (const Machine& machine : cluster.machines) {
    if (!machine.why.ok()) break;
    AddHost(cluster, machine.node.internal_address, DialAddress(cluster.file, machine.node));
  }
  const std::string& key = cluster.work->cloud().machines->prepared().private_key_path;
  if (!key.empty() && cluster.spec.ssh_identity_file->empty()) {
    cluster.spec.ssh_identity_file.Set(key, cluster.path);
  }
  return std::nullopt;
}

/// Tells Ray's own tools how the set-up of each machine ended.
void TagMachines(Cluster& cluster, const std::vector<NodeRow>& rows) {
  const auto ids = std::make_shared<std::map<std::string, std::vector<std::string>>>();
  for (size_t i = 0; i < rows.size() && i < cluster.hosts.size(); ++i) {
    const CloudNode& node = cluster.machines[i].node;
    const std::string status =
        rows[i].state == NameOf(UpState::kUp) ? "up-to-date" : "update-failed";
    if (node.status != status) (*ids)[status].push_back(node.id);
  }
  const Status status = cluster.work->Run([ids](CloudWork::Cloud& cloud) -> Status {
    for (const auto& [word, group] : *ids) {
      const ProviderTags tags = {{std::string(kTagStatus), word}};
      HVDRAY_RETURN_IF_ERROR(cloud.provider->SetTags(group, tags));
    }
    return {};
  });
  if (!status.ok()) Tell(LogLevel::kWarning, "hvdray up", "tag the machines: " + status.message());
}

// ---- up

std::string EndText(const Cluster& cluster, size_t workers, int64_t lease) {
  const std::string& head = cluster.hosts.front().dial_name();
  std::string text = fmt::format(
      "\nCluster {}: head {}, {}. Its Ray wants a token, and its dashboard listens on the head "
      "alone.",
      cluster.file.cluster_name, head, Count(workers, "worker"));
  if (IsAutoscaled(cluster.file)) {
    text += fmt::format(" Ray's autoscaler on the head starts the workers, at most {}.",
                        cluster.file.max_workers);
  }
  if (lease != 0) {
    text += fmt::format("\nIts lease ends at {}. Then each node ends {}.", LeaseText(lease),
                        cluster.work ? "its Ray and powers off" : "its Ray by itself");
  }
  return text + fmt::format(
                    "\n\nUseful commands:\n"
                    "  hvdray status {0}\n"
                    "  hvdray submit {0} train.py\n"
                    "  hvdray exec {0} 'ray status'\n"
                    "  hvdray attach {0}\n"
                    "  hvdray dashboard {0}\n"
                    "  hvdray down {0}\n",
                    cluster.words);
}

/// Below a directory of this user alone.
Status WriteSecretFile(const std::string& path, const std::string& text) {
  HVDRAY_RETURN_IF_ERROR(WriteFileAtomically(path, text));
  std::error_code error;
  std::filesystem::permissions(
      path, std::filesystem::perms::owner_read | std::filesystem::perms::owner_write, error);
  return error ? ErrnoStatus(path, error.value()).WithCode(ErrorCode::kFileUnwritable) : Status();
}

/// What the head's autoscaler reads, as a directory to copy.
Result<std::vector<SyncedDirectory>> PlanBootstrap(const Cluster& cluster,
                                                   const std::string& scratch) {
  std::vector<SyncedDirectory> files;
  if (cluster.work == nullptr || !IsAutoscaled(cluster.file)) return files;
  const PreparedCluster& prepared = cluster.work->cloud().machines->prepared();
  const std::string directory = scratch + "/bootstrap";
  std::error_code error;
  std::filesystem::create_directories(directory, error);
  if (!error) {
    std::filesystem::permissions(directory, std::filesystem::perms::owner_all, error);
  }
  if (error) return ErrnoStatus(directory, error.value()).WithCode(ErrorCode::kFileUnwritable);
  HVDRAY_ASSIGN_OR_RETURN(const std::string config, BootstrapConfig(cluster.file, prepared));
  HVDRAY_RETURN_IF_ERROR(
      WriteSecretFile(fmt::format("{}/{}", directory, kBootstrapConfigName), config));
  if (!prepared.private_key_path.empty()) {
    HVDRAY_ASSIGN_OR_RETURN(const std::string key, ReadFile(prepared.private_key_path));
    HVDRAY_RETURN_IF_ERROR(
        WriteSecretFile(fmt::format("{}/{}", directory, kBootstrapKeyName), key));
  }
  HVDRAY_ASSIGN_OR_RETURN(SyncedDirectory made, PlanDirectory(directory, ""));
  files.push_back(std::move(made));
  return files;
}

/// Steps and files of all nodes. The file mounts are the same for all.
Status PlanNodes(const Cluster& cluster, const std::string& scratch, std::vector<UpNode>& nodes,
                 NodeFiles& files) {
  StepFacts facts;
  if (!cluster.file.docker.container_name.empty()) {
    facts.host_mounts = HostMountsOf(cluster.file.cluster_name);
  }
  for (size_t i = 0; i < cluster.hosts.size(); ++i) {
    const bool is_head = i == 0;
    const CloudNode* machine = cluster.work ? &cluster.machines[i].node : nullptr;
    const ClusterNodeSetup setup = ClusterNodeSetupOf(
        cluster.file, is_head ? ClusterNodeKind::kHead : ClusterNodeKind::kWorker,
        machine == nullptr ? "" : machine->node_type);
    if (is_head) {
      HVDRAY_ASSIGN_OR_RETURN(files.mounts,
                              PlanMounts(setup, cluster.home, scratch, facts.host_mounts));
      HVDRAY_ASSIGN_OR_RETURN(facts.files_hash, HashFiles(files.mounts));
      HVDRAY_ASSIGN_OR_RETURN(files.bootstrap, PlanBootstrap(cluster, scratch));
    }
    if (!is_head && !setup.cluster_synced_files.empty() && i == 1) {
      Tell(LogLevel::kWarning, "hvdray up",
           "cluster_synced_files are not copied: name them in file_mounts");
    }
    facts.bootstrap_hash.clear();
    if (is_head && !files.bootstrap.empty()) {
      HVDRAY_ASSIGN_OR_RETURN(facts.bootstrap_hash, HashFiles(files.bootstrap));
    }
    facts.head = is_head ? "" : cluster.head;
    if (machine != nullptr) {
      facts.exports =
          RayExports(cluster.file, cluster.work->cloud().machines->prepared(), *machine);
    }
    UpNode& node = nodes.emplace_back();
    node.address = cluster.hosts[i].host;
    node.steps = StepsOf(setup, facts);
    node.exports = facts.exports;
    if (machine != nullptr) node.boot = cluster.machines[i].boot;
  }
  for (size_t i = cluster.hosts.size(); i < cluster.machines.size(); ++i) {
    const Machine& lacking = cluster.machines[i];
    UpNode& node = nodes.emplace_back();
    node.address = lacking.node.id.empty() ? lacking.node.node_type : lacking.node.id;
    node.why = lacking.why;
  }
  return {};
}

/// In seconds since 1970.
int64_t WallTime() {
  return std::chrono::duration_cast<std::chrono::seconds>(
             std::chrono::system_clock::now().time_since_epoch())
      .count();
}

/// Errors: kUsage for an option's value.
Result<UpPolicy> PolicyOf(const CommandRequest& request, Cluster& cluster) {
  UpPolicy policy;
  policy.cluster = cluster.file.cluster_name;
  policy.head = cluster.head;
  policy.is_exclusive = cluster.work != nullptr;
  policy.command = "hvdray up " + cluster.words;
  policy.is_dry_run = request.Has(OptionId::kDryRun);
  policy.is_confirmed = request.Has(OptionId::kYes);
  policy.is_restart_only = request.Has(OptionId::kRestartOnly);
  policy.is_no_restart = request.Has(OptionId::kNoRestart);
  policy.is_setup_forced = request.Has(OptionId::kForceSetup);
  policy.log_in_limit = TakeLogInLimit(cluster.spec, cluster.work ? kCloudLogIn : kUpLogIn);
  policy.is_powered_off = cluster.work != nullptr;
  policy.wall_time = WallTime();
  if (const RawOption* lease = request.said.Find(OptionId::kLease)) {
    HVDRAY_ASSIGN_OR_RETURN(const Duration length, DurationOf(*lease));
    policy.lease = length == Duration::zero() ? 0 : LeaseEnd(policy.wall_time, length);
  }
  return policy;
}

Status CheckUpWords(const CommandRequest& request) {
  if (request.Has(OptionId::kRestartOnly) && request.Has(OptionId::kNoRestart)) {
    return {ErrorCode::kUsage, "--restart-only and --no-restart exclude each other"};
  }
  if (request.Has(OptionId::kRestartOnly) && request.Has(OptionId::kForceSetup)) {
    return {ErrorCode::kUsage, "--restart-only and --force-setup exclude each other"};
  }
  if (const RawOption* lease = request.said.Find(OptionId::kLease)) {
    HVDRAY_RETURN_IF_ERROR(DurationOf(*lease).status());
  }
  return CheckConsent(request);
}

Status CheckDownWords(const CommandRequest& request) {
  if (request.Has(OptionId::kExpired) &&
      (request.Has(OptionId::kWorkersOnly) || request.Has(OptionId::kKeepMinWorkers))) {
    return {ErrorCode::kUsage,
            "--expired ends the whole cluster: it excludes --workers-only and --keep-min-workers"};
  }
  return CheckConsent(request);
}

/// Ends the Ray of hosts: all but the first `kept`.
int EndRay(const CommandRequest& request, Cluster& cluster, size_t kept) {
  cluster.hosts.erase(cluster.hosts.begin(), cluster.hosts.begin() + static_cast<long>(kept));
  cluster.places.erase(cluster.places.begin(), cluster.places.begin() + static_cast<long>(kept));
  DownPolicy policy;
  policy.cluster = cluster.file.cluster_name;
  policy.head = cluster.head;
  policy.is_confirmed = cluster.work != nullptr || request.Has(OptionId::kYes);
  if (request.Has(OptionId::kExpired)) policy.expired_by = WallTime();
  policy.log_in_limit = TakeLogInLimit(cluster.spec, kDownLogIn);
  std::vector<DownNode> nodes;
  nodes.reserve(cluster.hosts.size());
  for (size_t i = 0; i < cluster.hosts.size(); ++i) {
    nodes.push_back({cluster.hosts[i].host, kept + i == 0});
  }
  DownDriver driver(std::move(policy), std::move(nodes));
  const Result<ClusterEnd> end = RunCluster(cluster, driver, {});
  return end.ok() ? end->exit_code : Fail("down", end.status());
}

std::string RemovalText(const CloudNode& node) {
  return fmt::format("{}: end this {} ({}, {}, {})", node.id, KindWord(node.kind), node.node_type,
                     node.machine_type, CloudStateWord(node.state));
}

/// `down` for machines of a cloud: the head's Ray first, which starts workers, then the machines.
int DownInCloud(const CommandRequest& request, Cluster& cluster) {
  RemovePolicy policy;
  policy.keeps_min_workers = request.Has(OptionId::kKeepMinWorkers);
  policy.keeps_head = policy.keeps_min_workers || request.Has(OptionId::kWorkersOnly);
  policy.is_purged = request.Has(OptionId::kPurge);
  const auto nodes = std::make_shared<std::vector<CloudNode>>();
  const auto end = [&cluster](const Status& why) {
    if (cluster.work->signo() == 0) return Fail("down", why);
    Tell(LogLevel::kError, "hvdray down",
         fmt::format("interrupted; hvdray down {} goes on", cluster.words));
    return 128 + cluster.work->signo();
  };
  Status status = cluster.work->Run([nodes, policy](CloudWork::Cloud& cloud) -> Status {
    HVDRAY_ASSIGN_OR_RETURN(*nodes, cloud.machines->ListRemovable(policy));
    return {};
  });
  if (!status.ok()) return end(status);
  for (const CloudNode& node : *nodes) SayLine(RemovalText(node));
  if (policy.is_purged) SayLine("then delete its key pair, security group and instance profile");
  if (!request.Has(OptionId::kYes) && (!nodes->empty() || policy.is_purged)) {
    const auto is_yes = std::make_shared<bool>(false);
    status = cluster.work->Run([is_yes, name = cluster.file.cluster_name](CloudWork::Cloud&) {
      *is_yes = AskForYes(fmt::format("End cluster {}? [y/N] ", name));
      return Status();
    });
    if (!status.ok()) return end(status);
    if (!*is_yes) {
      SayLine("nothing was changed");
      return 0;
    }
  }
  const auto head = std::ranges::find_if(*nodes, [](const CloudNode& node) {
    return node.kind == ClusterNodeKind::kHead && node.state == CloudState::kRunning;
  });
  if (head != nodes->end() && !DialAddress(cluster.file, *head).empty()) {
    AddHost(cluster, head->internal_address, DialAddress(cluster.file, *head));
    const std::string key = fmt::format("{}/.ssh/{}.pem", cluster.home, head->key_name);
    if (cluster.spec.ssh_identity_file->empty() && ::access(key.c_str(), R_OK) == 0) {
      cluster.spec.ssh_identity_file.Set(key, cluster.path);
    }
    const int code = EndRay(request, cluster, 0);
    if (code > 128) return code;
  }
  status = cluster.work->Run([policy](CloudWork::Cloud& cloud) {
    HVDRAY_RETURN_IF_ERROR(cloud.machines->Remove(policy));
    return policy.is_purged ? cloud.machines->Purge() : Status();
  });
  if (!status.ok()) return end(status);
  return PrintOut("down",
                  policy.keeps_head ? "Only what was to stay remains.\n" : "No nodes remaining.\n");
}

}  // namespace

int UpCommand(const CommandLine& line) {
  CommandRequest request;
  if (const auto code = TakeWords("up", line, &request)) return *code;
  Cluster cluster;
  cluster.command = "up";
  cluster.began = line.began;
  Status status = CheckUpWords(request);
  if (status.ok()) status = ReadCluster(request, cluster);
  if (!status.ok()) return Fail("up", status);
  SetUpLog(cluster.spec);
  bool is_confirmed = request.Has(OptionId::kYes);
  if (cluster.work) {
    if (const auto code = TakeMachines(request, cluster, &is_confirmed)) return *code;
  }
  const ScratchDirectory scratch;
  std::vector<UpNode> nodes;
  NodeFiles files;
  status = PlanNodes(cluster, scratch.path(), nodes, files);
  if (!status.ok()) return Fail("up", std::move(status).WithContext(cluster.path));
  Result<UpPolicy> policy = PolicyOf(request, cluster);
  if (!policy.ok()) return Fail("up", policy.status());
  policy->is_confirmed = is_confirmed;
  UpDriver driver(std::move(policy).value(), std::move(nodes), Hex(RandomBytes(kTokenBytes)));
  const Result<ClusterEnd> end = RunCluster(cluster, driver, files);
  if (!end.ok()) return Fail("up", end.status());
  const bool has_table = driver.is_working() || (end->signo == 0 && end->exit_code != 0);
  if (!end->has_reader() || !has_table) return end->exit_code;
  if (cluster.work && end->signo == 0 && !request.Has(OptionId::kDryRun)) {
    TagMachines(cluster, end->nodes);
  }
  std::string text = RowsText(end->nodes);
  if (end->exit_code == 0) text += EndText(cluster, end->nodes.size() - 1, driver.lease());
  return PrintOut("up", text, end->exit_code);
}

int DownCommand(const CommandLine& line) {
  CommandRequest request;
  if (const auto code = TakeWords("down", line, &request)) return *code;
  Cluster cluster;
  cluster.command = "down";
  cluster.began = line.began;
  Status status = CheckDownWords(request);
  if (status.ok()) status = ReadCluster(request, cluster);
  if (!status.ok()) return Fail("down", status);
  SetUpLog(cluster.spec);
  if (cluster.work && request.Has(OptionId::kExpired)) {
    return Fail("down", {ErrorCode::kNotSupported,
                         fmt::format("--expired is not supported with provider type {}",
                                     cluster.file.provider_type),
                         "nodes whose lease has ended power off by themselves"});
  }
  if (cluster.work) return DownInCloud(request, cluster);
  const bool keeps_some = request.Has(OptionId::kKeepMinWorkers);
  const size_t kept_workers =
      keeps_some ? static_cast<size_t>(cluster.file.min_workers) : size_t{0};
  const bool keeps_head = keeps_some || request.Has(OptionId::kWorkersOnly);
  return EndRay(request, cluster,
                keeps_head ? std::min(cluster.hosts.size(), 1 + kept_workers) : 0);
}

}  // namespace hvdray
