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
#include <memory>
#include <optional>
#include <system_error>
#include <utility>

#include "base/blocking_pool.h"
#include "base/digest.h"
#include "base/log.h"
#include "base/loop.h"
#include "base/terminal.h"
#include "base/text.h"
#include "cmd/cluster_file.h"
#include "cmd/commands.h"
#include "cmd/host_access.h"
#include "cmd/launch_plan.h"
#include "launcher/cluster/cluster_run.h"
#include "launcher/cluster/down_driver.h"
#include "launcher/cluster/up_driver.h"
#include "launcher/job/exit_code.h"
#include "launcher/job/hostfile.h"

namespace hvdray {
namespace {

constexpr size_t kTokenBytes = 32;
constexpr Duration kUpLogIn = std::chrono::seconds(60);
constexpr Duration kDownLogIn = std::chrono::seconds(20);
// Of one try; --start-timeout limits all of them.
constexpr Duration kConnectLimit = std::chrono::seconds(10);

/// What both commands read from file and options.
struct Cluster {
  std::string command;  ///< "up"
  std::string path;
  std::string words;  ///< The file and what was said beside it, for other commands.
  ClusterSpec file;
  JobSpec spec;
  std::vector<HostSlots> hosts;
  std::vector<ScriptPlace> places;
  std::string home;
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
  if (!file.is_local()) {
    return {ErrorCode::kNotSupported,
            fmt::format("provider type {} is not supported here", file.provider_type),
            "provider: {type: local, head_ip: …, worker_ips: […]} names hosts that exist"};
  }
  if (!IsPlainClusterName(file.cluster_name)) {
    return {
        ErrorCode::kSpecInvalid,
        fmt::format("cluster_name '{}' is no name for a directory", ShownText(file.cluster_name)),
        "letters, digits and . _ - inside, at most 100"};
  }
  if (ClusterNodeSetupOf(file, ClusterNodeKind::kHead).container ||
      ClusterNodeSetupOf(file, ClusterNodeKind::kWorker).container) {
    return {ErrorCode::kNotSupported, "docker: containers are not supported here yet",
            "remove the section docker, and install what it has by setup_commands"};
  }
  return {};
}

Status ReadCluster(const CommandRequest& request, Cluster& cluster) {
  cluster.path = request.arguments.front();
  HVDRAY_ASSIGN_OR_RETURN(cluster.file,
                          ReadClusterFile(cluster.command, cluster.path, request.said));
  HVDRAY_RETURN_IF_ERROR(CheckFile(cluster.file));
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
  HVDRAY_ASSIGN_OR_RETURN(const std::vector<ClusterHost> hosts, ClusterHostsOf(cluster.file, 1));
  for (const ClusterHost& host : hosts) {
    HostSlots& made = cluster.hosts.emplace_back(MakeHostSlots(host.address, 1));
    const bool is_head = cluster.places.empty();
    if (is_head && !cluster.file.external_head_ip.empty()) {
      made.address.name = cluster.file.external_head_ip;
    }
    ScriptPlace& place = cluster.places.emplace_back();
    place.cluster = cluster.file.cluster_name;
    place.node = made.host;
    if (!is_head) place.head = cluster.file.head_ip;
    const RawOption* login = request.said.Find(OptionId::kLoginShells);
    if (login != nullptr && login->last() == "false") place.shell = CommandShell::kPlain;
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

ClusterRun::Outcome RunCluster(Cluster& cluster, ClusterDriver& driver,
                               std::span<const SyncedDirectory> files, Status* failure) {
  ClusterRun::Outcome outcome;
  Result<std::unique_ptr<Loop>> loop = Loop::Create();
  if (!loop.ok()) {
    *failure = loop.status();
    return outcome;
  }
  std::vector<std::string> names;
  for (const HostSlots& host : cluster.hosts) names.push_back(host.dial_name());
  std::vector<bool> is_remote;
  for (const bool is_this : AreThisMachine(names, LookupOf(cluster.spec))) {
    is_remote.push_back(!is_this || *cluster.spec.is_remote_forced);
  }
  Result<std::unique_ptr<HostAccess>> access =
      HostAccess::Open(**loop, cluster.spec, AgentPath(cluster.spec), cluster.hosts, is_remote,
                       HostSpread::kOneMachine, {"--keep-processes"});
  if (!access.ok()) {
    *failure = access.status();
    return outcome;
  }
  BlockingPool questions(**loop, std::chrono::milliseconds(500));
  ClusterRunOptions options;
  options.places = cluster.places;
  options.files = files;
  options.build = BuildName();
  options.is_plain = ::isatty(STDOUT_FILENO) == 0;
  options.job_id = "cluster-" + cluster.file.cluster_name;
  options.print = [failure](std::string_view text) {
    const bool is_written = std::fwrite(text.data(), 1, text.size(), stdout) == text.size();
    if (std::fflush(stdout) != 0 || !is_written) {
      *failure = {ErrorCode::kReaderGone, "nobody reads stdout any more"};
    }
  };
  options.complain = [&cluster](const Status& why) {
    Tell(LogLevel::kError, "hvdray " + cluster.command, why.ToString());
  };
  options.ask = [&questions](const std::string& question, std::function<void(bool)> answer) {
    questions.Run<bool>(
        [question] {
          TerminalQuestion asked;
          asked.text = question;
          asked.is_shown = true;
          asked.limit = std::chrono::hours(1);
          const Result<Secret> said = AskAtTerminal(asked);
          const std::string word = said.ok() ? Lower(Trimmed(said->view())) : "";
          return word == "y" || word == "yes";
        },
        std::move(answer));
  };
  ClusterRun run(**loop, **access, driver, std::move(options));
  outcome = run.Run();
  EndTerminalQuestions();
  return outcome;
}

std::string TimeText(Duration time) {
  return time == Duration::zero() ? "-" : fmt::format("{:.1f} s", Seconds(time).count());
}

std::string RowsText(const std::vector<UpRow>& rows) {
  std::string text = fmt::format("\n{:<24} {:<7} {:>8} {:>9} {:>8}  {}\n", "node", "role", "log in",
                                 "set up", "join", "state");
  for (size_t i = 0; i < rows.size(); ++i) {
    const UpRow& row = rows[i];
    text +=
        fmt::format("{:<24} {:<7} {:>8} {:>9} {:>8}  {}\n", row.address, i == 0 ? "head" : "worker",
                    TimeText(row.log_in), TimeText(row.set_up), TimeText(row.join),
                    row.state == UpState::kFailed ? "failed: " + row.why.message()
                                                  : std::string(NameOf(row.state)));
  }
  return text;
}

std::string EndText(const Cluster& cluster, size_t workers) {
  const std::string& head = cluster.hosts.front().dial_name();
  return fmt::format(
      "\nCluster {0}: head {1}, {2}. Its Ray wants a token, and its dashboard listens on the "
      "head alone.\n\nUseful commands:\n"
      "  hvdray status {3}\n"
      "  hvdray submit {3} train.py\n"
      "  hvdray exec {3} 'ray status'\n"
      "  hvdray attach {3}\n"
      "  hvdray dashboard {3}\n"
      "  hvdray down {3}\n",
      cluster.file.cluster_name, head, Count(workers, "worker"), cluster.words);
}

/// Steps and files of all nodes. The files are the same for all.
Status PlanNodes(const Cluster& cluster, const std::string& scratch, std::vector<UpNode>& nodes,
                 std::vector<SyncedDirectory>& files) {
  std::string hash;
  for (size_t i = 0; i < cluster.hosts.size(); ++i) {
    const bool is_head = i == 0;
    const ClusterNodeSetup setup = ClusterNodeSetupOf(
        cluster.file, is_head ? ClusterNodeKind::kHead : ClusterNodeKind::kWorker);
    if (is_head) {
      HVDRAY_ASSIGN_OR_RETURN(files, PlanMounts(setup, cluster.home, scratch));
      HVDRAY_ASSIGN_OR_RETURN(hash, HashFiles(files));
    }
    if (!is_head && !setup.cluster_synced_files.empty() && i == 1) {
      Tell(LogLevel::kWarning, "hvdray up",
           "cluster_synced_files are not copied: name them in file_mounts");
    }
    nodes.push_back(
        {cluster.hosts[i].host, StepsOf(setup, hash, is_head ? "" : cluster.file.head_ip)});
  }
  return {};
}

UpPolicy PolicyOf(const CommandRequest& request, Cluster& cluster) {
  UpPolicy policy;
  policy.cluster = cluster.file.cluster_name;
  policy.head = cluster.file.head_ip;
  policy.command = "hvdray up " + cluster.words;
  policy.is_dry_run = request.Has(OptionId::kDryRun);
  policy.is_confirmed = request.Has(OptionId::kYes);
  policy.is_restart_only = request.Has(OptionId::kRestartOnly);
  policy.is_no_restart = request.Has(OptionId::kNoRestart);
  policy.is_setup_forced = request.Has(OptionId::kForceSetup);
  policy.log_in_limit = TakeLogInLimit(cluster.spec, kUpLogIn);
  return policy;
}

Status CheckUpWords(const CommandRequest& request) {
  if (request.Has(OptionId::kRestartOnly) && request.Has(OptionId::kNoRestart)) {
    return {ErrorCode::kUsage, "--restart-only and --no-restart exclude each other"};
  }
  if (request.Has(OptionId::kRestartOnly) && request.Has(OptionId::kForceSetup)) {
    return {ErrorCode::kUsage, "--restart-only and --force-setup exclude each other"};
  }
  return CheckConsent(request);
}

int EndOf(const Cluster& cluster, const ClusterRun::Outcome& outcome, const Status& failure) {
  if (!failure.ok()) return Fail(cluster.command, failure);
  if (outcome.signo == 0) return outcome.exit_code;
  Tell(LogLevel::kError, "hvdray " + cluster.command,
       fmt::format("interrupted; nodes remember what is done: hvdray {} {} goes on from there",
                   cluster.command, cluster.words));
  return 128 + outcome.signo;
}

}  // namespace

int UpCommand(const CommandLine& line) {
  CommandRequest request;
  if (const auto code = TakeWords("up", line, &request)) return *code;
  Cluster cluster;
  cluster.command = "up";
  Status status = CheckUpWords(request);
  if (status.ok()) status = ReadCluster(request, cluster);
  if (!status.ok()) return Fail("up", status);
  SetUpLog(cluster.spec);
  const ScratchDirectory scratch;
  std::vector<UpNode> nodes;
  std::vector<SyncedDirectory> files;
  status = PlanNodes(cluster, scratch.path(), nodes, files);
  if (!status.ok()) return Fail("up", std::move(status).WithContext(cluster.path));
  UpDriver driver(PolicyOf(request, cluster), std::move(nodes), Hex(RandomBytes(kTokenBytes)));
  Status failure;
  const ClusterRun::Outcome outcome = RunCluster(cluster, driver, files, &failure);
  const int code = EndOf(cluster, outcome, failure);
  if (!failure.ok() || outcome.signo != 0 || driver.is_only_planned()) return code;
  const std::vector<UpRow> rows = driver.Rows();
  std::string text = RowsText(rows);
  if (code == 0) text += EndText(cluster, rows.size() - 1);
  return PrintOut("up", text, code);
}

int DownCommand(const CommandLine& line) {
  CommandRequest request;
  if (const auto code = TakeWords("down", line, &request)) return *code;
  Cluster cluster;
  cluster.command = "down";
  Status status = CheckConsent(request);
  if (status.ok()) status = ReadCluster(request, cluster);
  if (!status.ok()) return Fail("down", status);
  SetUpLog(cluster.spec);
  const bool keeps_some = request.Has(OptionId::kKeepMinWorkers);
  const size_t kept_workers =
      keeps_some ? static_cast<size_t>(cluster.file.min_workers) : size_t{0};
  const bool keeps_head = keeps_some || request.Has(OptionId::kWorkersOnly);
  const size_t first = keeps_head ? std::min(cluster.hosts.size(), 1 + kept_workers) : 0;
  cluster.hosts.erase(cluster.hosts.begin(), cluster.hosts.begin() + static_cast<long>(first));
  cluster.places.erase(cluster.places.begin(), cluster.places.begin() + static_cast<long>(first));
  DownPolicy policy;
  policy.cluster = cluster.file.cluster_name;
  policy.head = cluster.file.head_ip;
  policy.is_confirmed = request.Has(OptionId::kYes);
  policy.log_in_limit = TakeLogInLimit(cluster.spec, kDownLogIn);
  std::vector<DownNode> nodes;
  nodes.reserve(cluster.hosts.size());
  for (size_t i = 0; i < cluster.hosts.size(); ++i) {
    nodes.push_back({cluster.hosts[i].host, first + i == 0});
  }
  DownDriver driver(std::move(policy), std::move(nodes));
  Status failure;
  const ClusterRun::Outcome outcome = RunCluster(cluster, driver, {}, &failure);
  return EndOf(cluster, outcome, failure);
}

}  // namespace hvdray
