#include "cmd/host_access.h"

#include <fmt/format.h>
#include <sys/stat.h>
#include <sys/utsname.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <map>
#include <random>
#include <utility>

#include "cluster/fallback_shell.h"
#include "cluster/local_transport.h"
#include "cmd/library_shell.h"
#include "cmd/openssh_shell.h"
#include "launcher/engine/neighbour_probe.h"
#include "launcher/hosts/host_word.h"

namespace hvdray {
namespace {

constexpr std::string_view kHostPlace = "{host}";

Status ExplainCommand(const Status& how, const std::vector<std::string>& lines) {
  const std::string last = lines.empty() ? "" : ": " + lines.back();
  return {ErrorCode::kAgentStartFailed,
          (how.ok() ? std::string("it ended before the agent spoke") : how.message()) + last,
          "run it by hand: the --launch-agent command with the host, and 'true' as its last word"};
}

CommandShellOptions LaunchAgentOptionsOf(const JobSpec& spec) {
  std::map<std::string, HostSlots> hosts;  // by their plain names
  for (const HostSlots& host : *spec.hosts) hosts.emplace(host.host, host);
  CommandShellOptions options;
  options.name = "--launch-agent";
  options.argv = [pattern = *spec.launch_agent, hosts = std::move(hosts)](
                     const std::string& host, const std::string& command) {
    return LaunchAgentArgv(pattern, hosts.at(host).dial_name(), command);
  };
  return options;
}

// A list names builds by machine; one of them is for the machine we are on.
Result<std::string> AgentForThisMachine(const std::string& agent_path) {
  if (agent_path.find_first_of("=,") == std::string::npos) return agent_path;
  HVDRAY_ASSIGN_OR_RETURN(const AgentBuilds builds, AgentBuilds::Load(agent_path));
  utsname names{};
  ::uname(&names);
  HVDRAY_ASSIGN_OR_RETURN(const auto build, builds.For(names.sysname, names.machine));
  return build->path;
}

Status CheckIdentity(const std::string& path) {
  struct stat info {};
  if (::stat(path.c_str(), &info) != 0 || ::access(path.c_str(), R_OK) != 0) {
    return {ErrorCode::kFileUnreadable,
            fmt::format("--ssh-identity-file {}: {}", path, ::strerror(errno))};
  }
  if (info.st_uid == ::geteuid() && (info.st_mode & 077) != 0) {
    return {ErrorCode::kFileUnreadable,
            fmt::format("--ssh-identity-file {}: others may read it (mode {:04o}), so ssh will not "
                        "use it",
                        path, info.st_mode & 07777),
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
  const auto login = std::find_if(spec.hosts->begin(), spec.hosts->end(),
                                  [](const auto& host) { return host.address.has_login(); });
  if (!spec.launch_agent->empty() && login != spec.hosts->end()) {
    return {ErrorCode::kSpecInvalid,
            fmt::format("--launch-agent: it is told the host only, not the user or port of {}",
                        HostText(*login)),
            "leave out user and port, or reach the hosts by SSH"};
  }
  if (!spec.ssh_config_file->empty() && ::access(spec.ssh_config_file->c_str(), R_OK) != 0) {
    return {ErrorCode::kFileUnreadable,
            fmt::format("--ssh-config {}: {}", *spec.ssh_config_file, ::strerror(errno))};
  }
  if (!spec.ssh_identity_file->empty()) return CheckIdentity(*spec.ssh_identity_file);
  return {};
}

Result<std::unique_ptr<HostAccess>> HostAccess::Open(Loop& loop, const JobSpec& spec,
                                                     const std::string& agent_path,
                                                     const std::vector<HostSlots>& hosts,
                                                     const std::vector<bool>& is_remote,
                                                     HostSpread spread) {
  std::vector<std::string> agent_arguments;
  if (IsProbeWanted(spread, hosts.size())) agent_arguments.emplace_back("--probe-listener");
  std::unique_ptr<HostAccess> access(new HostAccess(loop, std::move(agent_arguments)));
  HVDRAY_ASSIGN_OR_RETURN(std::string local_path, AgentForThisMachine(agent_path));
  access->local_ = MakeLocalTransport(loop, std::move(local_path), access->agent_arguments_);
  for (size_t i = 0; i < hosts.size(); ++i) {
    if (is_remote[i]) access->remote_hosts_.insert(hosts[i].host);
  }
  if (!access->remote_hosts_.empty()) {
    HVDRAY_RETURN_IF_ERROR(access->OpenRemote(loop, spec, agent_path));
  }
  return access;
}

Status HostAccess::OpenRemote(Loop& loop, const JobSpec& spec, const std::string& agent_path) {
  HVDRAY_ASSIGN_OR_RETURN(AgentBuilds builds, AgentBuilds::Load(agent_path));
  RemoteTransportOptions options{.builds = std::move(builds)};
  options.folder = *spec.remote_folder;
  // One path means the same on all hosts; a list says which file here is for whom.
  const bool is_one_path = spec.agent_path->find_first_of("=,") == std::string::npos;
  if (is_one_path) options.installed_path = *spec.agent_path;
  options.agent_arguments = agent_arguments_;
  options.max_starting = *spec.ssh_connections;
  options.retry.seed = std::random_device{}();
  options.explain = spec.launch_agent->empty() ? &ExplainOpenssh : &ExplainCommand;
  remote_ = MakeRemoteTransport(loop, pool_, OpenShell(loop, spec), errors_, std::move(options));
  return {};
}

RemoteShell& HostAccess::OpenShell(Loop& loop, const JobSpec& spec) {
  if (!spec.launch_agent->empty()) {
    CommandShellOptions options = LaunchAgentOptionsOf(spec);
    options.errors = &errors_;
    command_shell_ = MakeCommandShell(loop, std::move(options));
    return *command_shell_;
  }
  command_shell_ = MakeOpensshShell(loop, pool_, spec, errors_);
  // A proxy command of a cluster file is for ssh.
  const bool is_for_ssh = !spec.ssh_proxy_command->empty();
  if (is_for_ssh || *spec.ssh_transport == SshTransport::kOpenssh) return *command_shell_;
  library_shell_ = MakeLibraryShell(loop, pool_, spec, errors_);
  if (*spec.ssh_transport == SshTransport::kLibssh2) return *library_shell_;
  shell_ = MakeFallbackShell(*library_shell_, *command_shell_);
  return *shell_;
}

void HostAccess::Start(const std::string& host, std::function<void(Result<AgentStart>)> done) {
  (remote_hosts_.contains(host) ? remote_ : local_)->Start(host, std::move(done));
}

}  // namespace hvdray
