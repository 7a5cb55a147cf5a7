// SPDX-License-Identifier: Apache-2.0
#include "cmd/managed_cluster.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <functional>
#include <optional>
#include <set>
#include <string>
#include <utility>

#include "base/blocking_pool.h"
#include "base/environ.h"
#include "base/fd.h"
#include "base/log.h"
#include "base/loop.h"
#include "base/screen.h"
#include "base/terminal.h"
#include "base/text.h"
#include "base/user_home.h"
#include "launcher/cluster/cluster_events.h"
#include "launcher/cluster/cluster_report.h"
#include "launcher/cluster/node_display.h"
#include "launcher/engine/job_console.h"
#include "launcher/job/exit_code.h"
#include "launcher/job/hostfile.h"
#include "launcher/plan/build_name.h"
#include "launcher/plan/host_access.h"
#include "launcher/plan/job_files.h"
#include "launcher/plan/launch_plan.h"
#include "launcher/report/facts_json.h"
#include "launcher/report/progress.h"

namespace hvdray {
namespace {

// Of one try; --start-timeout limits all of them.
constexpr Duration kConnectLimit = std::chrono::seconds(10);

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

/// What up and down write must not be what they read and copy.
Status CheckFilesOf(const ManagedCluster& cluster) {
  MoreInputs inputs;
  inputs.Add("the cluster file", cluster.path);
  for (const ClusterFileMount& mount : cluster.file.file_mounts) {
    inputs.Add("file_mounts", ExpandedHome(mount.local, cluster.home));
  }
  for (const std::string& path : cluster.file.cluster_synced_files) {
    inputs.Add("cluster_synced_files", ExpandedHome(path, cluster.home));
  }
  const Environment environment = Environment::FromProcess();
  for (const auto& [variable, path] : {std::pair("AWS_SHARED_CREDENTIALS_FILE", "/credentials"),
                                       std::pair("AWS_CONFIG_FILE", "/config")}) {
    inputs.Add("AWS", environment.GetOr(variable, cluster.home + "/.aws" + path));
  }
  return CheckDistinctFiles(cluster.spec, environment, inputs);
}

ClusterCall CallOf(const ManagedCluster& cluster) {
  ClusterCall call;
  call.command = cluster.command;
  call.name = cluster.file.cluster_name;
  call.file = cluster.path;
  call.build = BuildName();
  call.began = cluster.began;
  call.began_wall = cluster.began_wall;
  return call;
}

using Complain = std::function<void(const Status& why)>;

Complain ComplainerOf(const ManagedCluster& cluster) {
  // A hint that many nodes share is given once.
  return [&cluster, told = std::set<std::string>()](const Status& why) mutable {
    const bool is_new = told.insert(why.hint()).second;
    const Status shown = is_new ? why : Status(why.code(), why.message());
    Tell(LogLevel::kError, "hvdray " + cluster.command, shown.ToString());
  };
}

/// Null: not asked for. A file that cannot be written whole is told at once, and is a failure of
/// `end` unless there is one.
Result<std::unique_ptr<ClusterEvents>> OpenEvents(Loop& loop, const ManagedCluster& cluster,
                                                  std::vector<NodeRow> nodes, ClusterEnd& end,
                                                  const Complain& complain) {
  const Setting<std::string>& file = cluster.spec.events_file;
  if (file->empty()) return std::unique_ptr<ClusterEvents>();
  ClusterEventsOptions options;
  options.path = *file;
  options.option = NamedBy(file, "events");
  options.call = CallOf(cluster);
  options.nodes = std::move(nodes);
  options.on_damaged = [&end, complain](Status why) {
    complain(why);
    if (end.failure.ok()) end.failure = std::move(why);
  };
  return ClusterEvents::Open(loop, std::move(options));
}

void WriteOut(std::string_view text, ClusterEnd& end) {
  const bool is_written = std::fwrite(text.data(), 1, text.size(), stdout) == text.size();
  if (std::fflush(stdout) != 0 || !is_written) {
    end.is_stdout_gone = true;
    end.failure = {ErrorCode::kReaderGone, "nobody reads stdout any more"};
  }
}

/// Null: nobody watches at a terminal.
std::unique_ptr<NodeDisplay> OpenDisplay(Loop& loop, const ClusterDriver& driver, ClusterEnd& end) {
  if (!IsScreen() || IsContinuousIntegration(Environment::FromProcess())) return nullptr;
  return std::make_unique<NodeDisplay>(loop, driver,
                                       [&end](std::string_view text) { WriteOut(text, end); });
}

ClusterRunOptions RunOptionsOf(const ManagedCluster& cluster, ClusterEnd& end,
                               BlockingPool& questions, NodeDisplay* display) {
  ClusterRunOptions options;
  options.places = cluster.places;
  options.build = BuildName();
  options.is_plain = ::isatty(STDOUT_FILENO) == 0;
  options.job_id = "cluster-" + cluster.file.cluster_name;
  options.display = display;
  options.print = [&end, display](std::string_view text) {
    display != nullptr ? display->Print(text) : WriteOut(text, end);
  };
  options.ask = [&questions](const std::string& question, std::function<void(bool)> answer) {
    questions.Run<bool>([question] { return AskForYes(question); }, std::move(answer));
  };
  return options;
}

/// The exit code as far as the run decides it.
int CodeOf(const ClusterEnd& end) {
  if (end.is_stdout_gone) return ExitCodeOf(end.failure);
  if (end.signo != 0) return 128 + end.signo;
  return end.exit_code == 0 && !end.failure.ok() ? ExitCodeOf(end.failure) : end.exit_code;
}

/// The last event and the report. What cannot be written makes a success a failure.
void WriteFiles(const ManagedCluster& cluster, std::unique_ptr<ClusterEvents> events,
                ClusterEnd& end) {
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

}  // namespace

Status ClusterEnd::error() const {
  if (!failure.ok()) return failure;
  if (signo != 0) return {ErrorCode::kInterrupted, fmt::format("stopped by {}", SignalName(signo))};
  return FirstFailure(nodes);
}

void AddHost(ManagedCluster& cluster, HostSlots host) {
  const bool is_head = cluster.hosts.empty();
  const HostSlots& made = cluster.hosts.emplace_back(std::move(host));
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

Result<ManagedCluster> OpenManagedCluster(std::string_view command, const CommandLine& line,
                                          const CommandRequest& request, ClusterSpec file) {
  ManagedCluster cluster;
  cluster.command = command;
  cluster.began = line.began;
  cluster.path = request.arguments.front();
  cluster.file = std::move(file);
  HVDRAY_RETURN_IF_ERROR(CheckFile(cluster.file));
  HVDRAY_RETURN_IF_ERROR(CheckReportPaths(request.spec));
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
    spec.ssh_identity_file.Set(ExpandedHome(auth.ssh_private_key, cluster.home), cluster.path);
  }
  HVDRAY_RETURN_IF_ERROR(CheckFilesOf(cluster));
  // The machines of a cloud end without a log-in.
  if (cluster.file.is_local() || command != "down") HVDRAY_RETURN_IF_ERROR(CheckHostAccess(spec));
  const RawOption* login = request.said.Find(OptionId::kLoginShells);
  if (login != nullptr && login->last() == "false") cluster.shell = ShellKind::kPlain;
  if (!cluster.file.is_local()) {
    HVDRAY_ASSIGN_OR_RETURN(cluster.work, CloudWork::Open(cluster.file, &SayLine));
    return cluster;
  }
  HVDRAY_ASSIGN_OR_RETURN(const std::vector<ClusterHost> hosts, ClusterHostsOf(cluster.file, 1));
  for (const ClusterHost& host : hosts) {
    HostSlots made = MakeHostSlots(host.address, 1);
    const std::string& dialled = cluster.file.external_head_ip;
    if (cluster.hosts.empty() && !dialled.empty() && dialled != made.host) {
      made.address.name = dialled;
    }
    AddHost(cluster, std::move(made));
  }
  return cluster;
}

Duration TakeLogInLimit(JobSpec& spec, Duration otherwise) {
  const Duration limit = spec.start_timeout.is_default() ? otherwise : *spec.start_timeout;
  spec.start_timeout.Set(std::min(limit, kConnectLimit), spec.start_timeout.origin());
  return limit;
}

Status CheckConsent(const CommandRequest& request) {
  if (request.Has(OptionId::kYes) || request.Has(OptionId::kDryRun) || IsUserAtTerminal()) {
    return {};
  }
  return {ErrorCode::kUsage, "it asks before it changes anything, but there is no terminal",
          "--yes answers for you; --dry-run only shows the plan"};
}

int64_t SecondsSince1970() {
  return std::chrono::duration_cast<std::chrono::seconds>(
             std::chrono::system_clock::now().time_since_epoch())
      .count();
}

Result<ClusterEnd> RunCluster(ManagedCluster& cluster, ClusterDriver& driver,
                              const NodeFiles& files) {
  ClusterEnd end;
  HVDRAY_ASSIGN_OR_RETURN(const std::unique_ptr<Loop> loop, Loop::Create());
  std::vector<std::string> names;
  for (const HostSlots& host : cluster.hosts) names.push_back(host.dial_name());
  std::vector<bool> is_remote;
  for (const bool is_this : AreThisMachine(names, LookupOf(cluster.spec))) {
    const HostSlots& host = cluster.hosts[is_remote.size()];
    is_remote.push_back(WayTo(host, is_this, cluster.spec).is_remote);
  }
  HVDRAY_ASSIGN_OR_RETURN(
      const std::unique_ptr<HostAccess> access,
      HostAccess::Open(*loop, cluster.spec, AgentPath(cluster.spec), cluster.hosts, is_remote,
                       HostSpread::kOneMachine, {"--keep-processes"}));
  const std::unique_ptr<NodeDisplay> display = OpenDisplay(*loop, driver, end);
  Complain complain = ComplainerOf(cluster);
  std::optional<LogSink> log;
  if (display) {
    complain = [&display, plain = complain](const Status& why) {
      display->Above([&] { plain(why); });
    };
    log.emplace([&display](std::string_view line) {
      display->Above([line] { (void)WriteAll(STDERR_FILENO, std::string(line) + "\n"); });
    });
  }
  HVDRAY_ASSIGN_OR_RETURN(std::unique_ptr<ClusterEvents> events,
                          OpenEvents(*loop, cluster, driver.Rows(), end, complain));
  BlockingPool questions(*loop, std::chrono::milliseconds(500));
  ClusterRunOptions options = RunOptionsOf(cluster, end, questions, display.get());
  options.complain = complain;
  options.files = files.mounts;
  options.bootstrap = files.bootstrap;
  options.events = events.get();
  ClusterRun run(*loop, *access, driver, std::move(options));
  const ClusterRun::Outcome outcome = run.Run();
  if (display) display->End();
  EndTerminalQuestions();
  end.exit_code = outcome.exit_code;
  end.signo = outcome.signo;
  end.nodes = driver.Rows();
  WriteFiles(cluster, std::move(events), end);
  if (end.is_stdout_gone) Fail(cluster.command, end.failure);
  if (end.signo != 0) {
    Tell(LogLevel::kError, "hvdray " + cluster.command,
         driver.is_working()
             ? fmt::format(
                   "interrupted; nodes remember what is done: hvdray {} {} goes on from there",
                   cluster.command, cluster.words)
             : "interrupted; nothing was changed");
  }
  return end;
}

int FinishReport(const ManagedCluster& cluster, ClusterEnd end) {
  Result<std::unique_ptr<Loop>> loop = Loop::Create();
  Result<std::unique_ptr<ClusterEvents>> events =
      loop.ok() ? OpenEvents(**loop, cluster, end.nodes, end, ComplainerOf(cluster))
                : loop.status();
  if (!events.ok()) {
    const bool is_told = end.failure.ToString() == events.status().ToString();
    if (!is_told) Fail(cluster.command, events.status());
    if (end.failure.ok()) end.failure = events.status();
  }
  WriteFiles(cluster, events.ok() ? std::move(events).value() : nullptr, end);
  return end.exit_code;
}

}  // namespace hvdray
