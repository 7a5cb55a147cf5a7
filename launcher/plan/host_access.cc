// SPDX-License-Identifier: Apache-2.0
#include "launcher/plan/host_access.h"

#include <fmt/format.h>
#include <sys/stat.h>
#include <sys/utsname.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <random>
#include <system_error>
#include <utility>

#include "base/environ.h"
#include "base/exec.h"
#include "base/terminal.h"
#include "cluster/ssh/ssh_shell.h"
#include "cluster/transport/remote_transport.h"
#include "launcher/engine/reach_probe.h"
#include "launcher/job/hostfile.h"
#include "launcher/report/progress.h"

namespace hvdray {
namespace {

constexpr std::string_view kHostPlace = "{host}";

Status ExplainLaunchAgent(const Status& how, const std::vector<std::string>& lines) {
  const std::string last = lines.empty() ? "" : ": " + lines.back();
  return {
      ErrorCode::kAgentStartFailed,
      (how.ok() ? std::string("it ended before the agent answered") : how.message()) + last,
      "try it by hand: the --launch-agent command with the host, and 'true' as its last argument"};
}

/// Empty when nobody is at the terminal.
AskUser AskAtOurTerminal(const Environment& environment) {
  if (IsContinuousIntegration(environment) || !IsUserAtTerminal()) return {};
  const bool erases_line = environment.GetOr("TERM", "dumb") != "dumb";
  return [erases_line](TerminalQuestion question) {
    question.erases_line = erases_line;
    return AskAtTerminal(question);
  };
}

Libssh2ShellOptions LibraryOptions(const JobSpec& spec, const HostsByName& hosts,
                                   RemoteStderr& errors) {
  const Environment environment = Environment::FromProcess();
  Libssh2ShellOptions options;
  options.target_of = [&spec, &hosts](const std::string& host) {
    return Result<SshTarget>(ToSshTarget(spec, hosts.at(host)));
  };
  options.user = CurrentSshUser(environment);
  options.overrides = ToSshOverrides(spec);
  options.connect_timeout = SshConnectTimeout(spec);
  options.ask = AskAtOurTerminal(environment);
  options.on_stderr = [&errors](const std::string& host, std::string_view line) {
    errors.OnLine(host, line);
  };
  return options;
}

Status CheckLogin(const JobSpec& spec, const HostSlots& host) {
  if (spec.launch_agent->empty() || !host.address.has_login()) return {};
  return {ErrorCode::kSpecInvalid,
          fmt::format("--launch-agent: it receives only the host, not the user or port of {}",
                      HostText(host)),
          "omit user and port, or reach the hosts over SSH"};
}

// A list names a build for each machine type; one of them is for this machine.
Result<std::string> AgentForThisMachine(const std::string& agent_path) {
  if (AgentBuilds::IsOneFile(agent_path)) return agent_path;
  HVDRAY_ASSIGN_OR_RETURN(const AgentBuilds builds, AgentBuilds::Load(agent_path));
  utsname names{};
  ::uname(&names);
  HVDRAY_ASSIGN_OR_RETURN(const auto build, builds.For(names.sysname, names.machine));
  return build->path;
}

Status CheckIdentity(const Setting<std::string>& identity) {
  const std::string& path = *identity;
  struct stat info {};
  if (::stat(path.c_str(), &info) != 0 || ::access(path.c_str(), R_OK) != 0) {
    return {ErrorCode::kFileUnreadable,
            fmt::format("private key {} ({}): {}", path, identity.origin(), ::strerror(errno))};
  }
  if (!S_ISREG(info.st_mode)) {
    return {ErrorCode::kFileUnreadable,
            fmt::format("private key {} ({}): not a file", path, identity.origin())};
  }
  if (path.ends_with(".pub")) {
    return {ErrorCode::kFileUnreadable,
            fmt::format("private key {} ({}): that is the public one", path, identity.origin()),
            "-i " + path.substr(0, path.size() - 4)};
  }
  if (info.st_uid == ::geteuid() && (info.st_mode & 077) != 0) {
    return {
        ErrorCode::kFileUnreadable,
        fmt::format("private key {} ({}): others may read it (mode {:04o}), so ssh will not use it",
                    path, identity.origin(), info.st_mode & 07777),
        "chmod 600 " + path};
  }
  return {};
}

}  // namespace

Status CheckHostAccess(const JobSpec& spec) {
  if (!spec.launch_agent->empty() && spec.launch_agent->find(kHostPlace) == std::string::npos) {
    return {ErrorCode::kSpecInvalid,
            fmt::format("--launch-agent: no {} in '{}'", kHostPlace, *spec.launch_agent),
            "for example --launch-agent 'rsh {host}'"};
  }
  for (const HostSlots& host : *spec.hosts) HVDRAY_RETURN_IF_ERROR(CheckLogin(spec, host));
  if (!spec.ssh_config_file->empty()) {
    struct stat info {};
    const std::string& path = *spec.ssh_config_file;
    const bool is_there = ::stat(path.c_str(), &info) == 0 && ::access(path.c_str(), R_OK) == 0;
    // ssh takes a directory for an empty file.
    const int error = is_there && S_ISDIR(info.st_mode) ? EISDIR : errno;
    if (!is_there || error == EISDIR) {
      return {ErrorCode::kFileUnreadable,
              fmt::format("--ssh-config {}: {}", path, ::strerror(error))};
    }
  }
  if (!spec.ssh_identity_file->empty()) return CheckIdentity(spec.ssh_identity_file);
  return {};
}

HostWay WayTo(const HostSlots& host, bool is_this_machine, const JobSpec& spec) {
  // A cloud's network may have our address, too: there it is another machine's.
  const bool is_other = !is_this_machine || !host.address.host_key_alias.empty();
  return {
      .is_remote = is_other || host.address.has_login() || *spec.is_remote_forced,
      // A port of this machine may forward to another machine.
      .is_elsewhere = is_other || host.address.port != 0,
  };
}

NameLookup LookupOf(const JobSpec& spec) {
  return spec.launch_agent->empty() ? NameLookup::kSystem : NameLookup::kNone;
}

Result<std::unique_ptr<HostAccess>> HostAccess::OpenLocal(
    Loop& loop, const JobSpec& spec, const std::string& agent_path, bool is_probe_wanted,
    std::vector<std::string> agent_arguments) {
  if (is_probe_wanted) agent_arguments.emplace_back("--probe-listener");
  HVDRAY_ASSIGN_OR_RETURN(std::string local_path, AgentForThisMachine(agent_path));
  std::unique_ptr<HostAccess> access(
      new HostAccess(loop, spec, agent_path, std::move(agent_arguments)));
  access->local_ =
      MakeLocalTransport(loop, HeldProgram(std::move(local_path)), access->agent_arguments_);
  return access;
}

Result<std::unique_ptr<HostAccess>> HostAccess::Open(Loop& loop, const JobSpec& spec,
                                                     const std::string& agent_path,
                                                     const std::vector<HostSlots>& hosts,
                                                     const std::vector<bool>& is_remote,
                                                     HostSpread spread,
                                                     std::vector<std::string> agent_arguments) {
  HVDRAY_ASSIGN_OR_RETURN(std::unique_ptr<HostAccess> access,
                          OpenLocal(loop, spec, agent_path, IsProbeWanted(spread, hosts.size()),
                                    std::move(agent_arguments)));
  for (size_t i = 0; i < hosts.size(); ++i) {
    access->hosts_.emplace(hosts[i].host, hosts[i]);
    access->ways_[hosts[i].host] = WayTo(hosts[i], !is_remote[i], spec);
  }
  const bool is_any_remote =
      std::any_of(is_remote.begin(), is_remote.end(), [](bool remote) { return remote; });
  if (is_any_remote) HVDRAY_RETURN_IF_ERROR(access->OpenRemote());
  return access;
}

Result<std::unique_ptr<HostAccess>> HostAccess::OpenElastic(Loop& loop, const JobSpec& spec,
                                                            const std::string& agent_path,
                                                            HostSpread spread) {
  return OpenLocal(loop, spec, agent_path, spread == HostSpread::kManyMachines, {});
}

void HostAccess::AddHost(const HostSlots& host) {
  const auto [known, is_new] = hosts_.try_emplace(host.host, host);
  if (!is_new && known->second.address == host.address) return;
  known->second = host;
  ways_.erase(host.host);
  const bool is_this_machine = AreThisMachine({host.dial_name()}, NameLookup::kNone).front();
  if (is_this_machine || LookupOf(spec_) == NameLookup::kNone) {
    return SetWay(host, is_this_machine);
  }
  // A name server that does not answer must not block the loop, and with it all hosts.
  pool_.Run<bool>([name = host.dial_name()] { return IsThisMachine(name); },
                  [this, host](bool is_this) { SetWay(host, is_this); });
}

void HostAccess::SetWay(const HostSlots& host, bool is_this_machine) {
  // The host may have a new address by now, whose own look-up is still running.
  if (hosts_.at(host.host).address != host.address) return;
  ways_[host.host] = WayTo(host, is_this_machine, spec_);
  const auto waiting = waiting_.find(host.host);
  if (waiting == waiting_.end()) return;
  const std::vector<DoneFn> all = std::move(waiting->second);
  waiting_.erase(waiting);
  for (const DoneFn& done : all) Start(host.host, done);
}

HostWay HostAccess::WayOf(const std::string& host) const {
  const auto way = ways_.find(host);
  return way != ways_.end() ? way->second : HostWay{.is_remote = true, .is_elsewhere = true};
}

Status HostAccess::OpenRemote() {
  const std::string path = agent_.Path();
  if (spec_.agent_path->empty() && ::access(path.c_str(), R_OK) != 0) {
    return {ErrorCode::kFileUnreadable,
            fmt::format("the agent for other hosts: {}: {}", path, ::strerror(errno)),
            "put hvdray-agent beside hvdray"};
  }
  HVDRAY_ASSIGN_OR_RETURN(AgentBuilds builds, AgentBuilds::Load(path));
  RemoteTransportOptions options{.builds = std::move(builds)};
  options.directory = *spec_.remote_directory;
  // One path means the same file on all hosts; a list names files on this machine.
  if (AgentBuilds::IsOneFile(*spec_.agent_path)) options.installed_path = *spec_.agent_path;
  options.agent_arguments = agent_arguments_;
  options.max_starting = *spec_.ssh_connections;
  // Before the driver, who does not know why it waits, gives the host up.
  options.answer_limit = SshConnectTimeout(spec_);
  options.retry.seed = std::random_device{}();
  remote_ = MakeRemoteTransport(loop_, pool_, OpenShell(), errors_, std::move(options));
  return {};
}

RemoteShell& HostAccess::OpenShell() {
  if (!spec_.launch_agent->empty()) {
    ShellArgv argv = [this](const std::string& host, const std::string& command) {
      return LaunchAgentArgv(*spec_.launch_agent, hosts_.at(host).dial_name(), command);
    };
    command_shell_ = MakeCommandShell(loop_, "--launch-agent", std::move(argv), errors_,
                                      ChildEnd::kDropped, &ExplainLaunchAgent);
    return *command_shell_;
  }
  command_shell_ = MakeOpensshShell(loop_, pool_, spec_, hosts_, errors_);
  // A proxy command of a cluster file is for ssh.
  const bool is_for_ssh = !spec_.ssh_proxy_command->empty();
  if (is_for_ssh || *spec_.ssh_transport == SshTransport::kOpenssh) return *command_shell_;
  library_shell_ = MakeLibssh2Shell(loop_, pool_, LibraryOptions(spec_, hosts_, errors_));
  if (*spec_.ssh_transport == SshTransport::kLibssh2) return *library_shell_;
  shell_ = MakeFallbackShell(*library_shell_, *command_shell_);
  return *shell_;
}

Result<Transport*> HostAccess::TransportOf(const std::string& host) {
  if (!ways_.at(host).is_remote) return local_.get();
  HVDRAY_RETURN_IF_ERROR(CheckLogin(spec_, hosts_.at(host)));
  if (remote_ == nullptr) HVDRAY_RETURN_IF_ERROR(OpenRemote());
  return remote_.get();
}

void HostAccess::Close() {
  if (remote_ != nullptr) remote_->Close();
}

void HostAccess::FailLater(Status why, DoneFn done) {
  loop_.Post([alive = std::weak_ptr<bool>(alive_), why = std::move(why), done = std::move(done)] {
    if (!alive.expired()) done(why);
  });
}

void HostAccess::Start(const std::string& host, std::function<void(Result<AgentStart>)> done) {
  HVDRAY_CHECK(hosts_.contains(host));
  if (!ways_.contains(host)) {
    waiting_[host].push_back(std::move(done));
    return;
  }
  Result<Transport*> transport = TransportOf(host);
  if (!transport.ok()) {
    return FailLater(std::move(transport).status().WithContext(host), std::move(done));
  }
  (*transport)->Start(host, std::move(done));
}

std::string AgentPath(const JobSpec& spec) {
  if (!spec.agent_path->empty()) return *spec.agent_path;
  namespace fs = std::filesystem;
  const fs::path folder = fs::path(OwnPath()).parent_path();
  const fs::path beside = folder / "hvdray-agent";
  const fs::path apart = folder.parent_path() / "libexec/hvdray/hvdray-agent";
  std::error_code error;
  return (!fs::exists(beside, error) && fs::exists(apart, error) ? apart : beside).string();
}

}  // namespace hvdray
