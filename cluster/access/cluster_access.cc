// SPDX-License-Identifier: Apache-2.0
#include "cluster/access/cluster_access.h"

#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <utility>

#include "base/fd.h"
#include "base/log.h"
#include "base/tcp_address.h"
#include "base/terminal.h"
#include "base/text.h"
#include "cluster/transport/scripts.h"
#include "cluster/transport/this_machine.h"
#include "cluster/up/head_survey.h"
#include "launcher/job/exit_code.h"
#include "launcher/job/option_layers.h"
#include "launcher/job/spec_builder.h"
#include "launcher/plan/cluster_file.h"
#include "launcher/plan/host_access.h"
#include "launcher/plan/host_sources.h"
#include "launcher/plan/job_ssh.h"

namespace hvdray {
namespace {

enum class RunEnv : uint8_t { kAuto, kHost, kDocker };  // in the order of the option's choices

// Enough for what people submit; rsync-up copies more.
constexpr size_t kMaxPutBytes = size_t{64} << 20;
constexpr Duration kGroupGrace = std::chrono::seconds(5);  // as over ssh
constexpr Duration kPutLimit = std::chrono::minutes(10);

/// Of what LocalForward() returns.
bool IsSamePort(std::string_view forward) {
  const size_t half = forward.size() / 2;  // a colon
  return forward.substr(0, half) == forward.substr(half + 1);
}

Result<int> RunHere(const RemoteCommand& command) {
  HVDRAY_ASSIGN_OR_RETURN(const ProcessEnd end,
                          command.has_terminal
                              ? RunInForeground(LoginArgv(command))
                              : RunInOwnSession(GuardedArgv(command), kGroupGrace));
  return end.exit_code != 0 && end.signo != 0 ? 128 + end.signo : end.exit_code;
}

}  // namespace

bool IsHere(const ClusterAccess& access, const ClusterNode& node) {
  // A cloud's network may have our address, too: there it is another machine's.
  return !*access.spec.is_remote_forced && node.host.address.host_key_alias.empty() &&
         IsThisMachineCalled(node.host, access.spec);
}

bool IsAtTerminal() { return ::isatty(STDIN_FILENO) == 1 && ::isatty(STDOUT_FILENO) == 1; }

bool IsClusterFile(std::string_view word) {
  return word.ends_with(".yaml") || word.ends_with(".yml");
}

Result<ClusterAccess> OpenClusterFile(std::string_view command, const CommandRequest& request) {
  ClusterAccess access;
  access.command = command;
  access.path = request.arguments.front();
  access.spec = request.spec;
  if (request.Has(OptionId::kClusterVerbose)) SetLogLevel(LogLevel::kInfo);
  HVDRAY_ASSIGN_OR_RETURN(access.file, ReadClusterFile(command, access.path, request.said));
  access.words = TypedWord(access.path);
  if (request.Has(OptionId::kClusterName)) access.words += " -n " + access.file.cluster_name;
  access.spec.cluster_file.Set(access.path, "the cluster file");
  TakeLogin(LoginOfCluster(access.file), &access.spec);
  return access;
}

Status FindNodes(ClusterAccess& access) {
  HVDRAY_ASSIGN_OR_RETURN(access.nodes, FindClusterNodes(access.command, access.path, access.file));
  if (!access.nodes.key_file.empty() && access.spec.ssh_identity_file->empty()) {
    access.spec.ssh_identity_file.Set(access.nodes.key_file, access.path);
  }
  return CheckHostAccess(access.spec);
}

Result<ClusterNode> ResolveHead(const ClusterAccess& access) {
  HVDRAY_RETURN_IF_ERROR(access.nodes.head_status);
  return access.nodes.head;
}

const std::vector<RayMember>& FindMembers(ClusterAccess& access) {
  if (access.members) return *access.members;
  std::vector<RayMember>& members = access.members.emplace();
  const ClusterNodes& nodes = access.nodes;
  if (!nodes.head_status.ok()) return members;
  Result<NodeSurvey> survey = SurveyHead(nodes.head.host, access.file.cluster_name, access.spec);
  if (survey.ok()) {
    for (const std::string& line : survey->members) {
      if (auto member = ParseRayMember(line)) members.push_back(std::move(*member));
    }
  } else {
    Log(LogLevel::kInfo, "ray", "{}", survey.status().message());
  }
  if (LookupOf(access.spec) == NameLookup::kNone) return members;
  for (const ClusterNode& worker : nodes.workers) {
    const std::string& name = worker.host.host;
    if (std::ranges::find(members, name, &RayMember::address) != members.end()) continue;
    for (std::string& ip : AddressesOf(name)) members.push_back({name, "", std::move(ip)});
  }
  return members;
}

Result<ClusterNode> ResolveNode(ClusterAccess& access, const std::string& word) {
  HVDRAY_ASSIGN_OR_RETURN(ClusterNode head, ResolveHead(access));
  const auto is_meant = [&word](const ClusterNode& node) {
    const HostSlots& host = node.host;
    const std::string key = HostNameKey(word);
    return key == HostNameKey(node.address) || key == HostNameKey(host.host) ||
           word == host.address.host_key_alias;
  };
  if (word.empty() || word == "head" || is_meant(head)) return head;
  const std::vector<ClusterNode>& workers = access.nodes.workers;
  const auto found = std::ranges::find_if(workers, is_meant);
  if (found != workers.end()) return *found;
  for (const RayMember& member : FindMembers(access)) {
    if (member.ip != word && !IsNodeId(word, member.node_id)) continue;
    if (member.address == head.host.host) return head;
    for (const ClusterNode& worker : workers) {
      if (member.address == worker.host.host) return worker;
    }
  }
  return Status(ErrorCode::kUsage, fmt::format("{}: no machine {}", access.path, ShownText(word)),
                fmt::format("hvdray get-worker-ips {} lists them", access.words));
}

Result<TerminalKeeper> KeeperOf(const CommandRequest& request) {
  const bool is_tmux = request.Has(OptionId::kTmux);
  const bool is_screen = request.Has(OptionId::kScreen);
  if (is_tmux && is_screen) {
    return Status(ErrorCode::kUsage, "--tmux is not allowed with --screen",
                  "leave one of them out");
  }
  if (is_tmux) return TerminalKeeper::kTmux;
  return is_screen ? TerminalKeeper::kScreen : TerminalKeeper::kNone;
}

std::vector<std::string> Ports(const CommandRequest& request) {
  const RawOption* ports = request.said.Find(OptionId::kPortForward);
  return ports == nullptr ? std::vector<std::string>() : ports->values;
}

Status SetContainer(const ClusterAccess& access, const CommandRequest& request,
                    RemoteCommand* command) {
  HVDRAY_ASSIGN_OR_RETURN(const size_t choice,
                          ChoiceOf(OptionId::kRunEnv, request.Get(OptionId::kRunEnv)));
  const auto where = static_cast<RunEnv>(choice);
  const ClusterDocker& docker = access.file.docker;
  if (where == RunEnv::kDocker && docker.container_name.empty()) {
    return {ErrorCode::kUsage,
            fmt::format("--run-env docker: {} has no docker: container_name", access.path)};
  }
  if (where != RunEnv::kHost) command->container = docker.container_name;
  if (docker.use_podman) command->container_program = "podman";
  return {};
}

Result<int> RunOnHost(const ClusterAccess& access, const ClusterNode& node,
                      const RemoteCommand& command, const std::vector<std::string>& ports) {
  const bool is_here = IsHere(access, node);
  std::vector<std::string> forwards;
  for (const std::string& port : ports) {
    Result<std::string> forward = LocalForward(port);
    if (!forward.ok()) return std::move(forward).status().WithContext("--port-forward");
    if (is_here && !IsSamePort(*forward)) {
      return Status(ErrorCode::kUsage,
                    fmt::format("--port-forward {}: {} is this machine: nothing to forward", port,
                                node.address),
                    "use the port that it has there");
    }
    forwards.push_back(std::move(forward).value());
  }
  if (is_here) return RunHere(command);
  OpensshOptions ssh = OpensshOptionsFor(access.spec, node.host);
  ssh.has_terminal = command.has_terminal;
  ssh.may_ask = IsUserAtTerminal();
  ssh.local_forwards = std::move(forwards);
  std::vector<std::string> warnings;
  Result<int> code =
      RunOverSsh(std::move(ssh), node.host.dial_name(), LoginLine(command), &warnings);
  for (const std::string& warning : warnings) {
    Tell(LogLevel::kWarning, fmt::format("hvdray {}", access.command), warning);
  }
  if (code.ok() || code.status().code() == ErrorCode::kOutputLost) return code;
  const std::string& key_name = node.host.address.host_key_alias;
  if (code.status().code() == ErrorCode::kHostKeyRejected && !key_name.empty()) {
    return Status(
        ErrorCode::kHostKeyRejected, fmt::format("{}: {}", node.address, code.status().message()),
        fmt::format("if you renewed the host key of {0}: ssh-keygen -R {0}; otherwise this "
                    "may be an attack",
                    key_name));
  }
  return std::move(code).status().WithContext(node.address);
}

Result<int> RunText(const ClusterAccess& access, const CommandRequest& request,
                    const ClusterNode& node, const std::string& text) {
  HVDRAY_ASSIGN_OR_RETURN(const TerminalKeeper keeper, KeeperOf(request));
  RemoteCommand command = {.text = TextForRay(access.file.cluster_name, text),
                           .has_terminal = IsAtTerminal()};
  HVDRAY_RETURN_IF_ERROR(SetContainer(access, request, &command));
  if (keeper == TerminalKeeper::kNone) return RunOnHost(access, node, command, Ports(request));
  if (!Ports(request).empty()) {
    return Status(ErrorCode::kUsage,
                  "--port-forward ends with this command, and --tmux and --screen return at once",
                  fmt::format("hvdray attach {} -p PORT", access.words));
  }
  command.text = KeptText(keeper, command.text);
  command.has_terminal = false;
  HVDRAY_ASSIGN_OR_RETURN(const int code, RunOnHost(access, node, command));
  if (code == 0) {
    const RawOption* at = request.said.Find(OptionId::kNodeIp);
    Tell(LogLevel::kInfo, fmt::format("hvdray {}", access.command),
         fmt::format("hvdray attach {}{} --{} shows it", access.words,
                     at == nullptr ? "" : " --node-ip " + TypedWord(at->last()),
                     keeper == TerminalKeeper::kTmux ? "tmux" : "screen"));
  }
  return code;
}

Status PutFile(const ClusterAccess& access, const ClusterNode& node, const RemoteCommand& place,
               const std::string& path, const std::string& target, PutFor purpose,
               const std::string& name_within) {
  HVDRAY_ASSIGN_OR_RETURN(const std::string bytes, ReadFile(path, kMaxPutBytes));
  struct stat info {};
  if (::stat(path.c_str(), &info) != 0) return ErrnoStatus("stat", errno).WithContext(path);
  std::vector<std::string> argv;
  if (!place.container.empty()) argv = {place.container_program, "exec", "-i", place.container};
  argv.insert(argv.end(), {"/bin/sh", "-c", std::string(PutFileScript()), "hvdray", target,
                           fmt::format("{:o}", info.st_mode & 0777), std::to_string(bytes.size()),
                           purpose == PutFor::kJob ? "job" : "", name_within});
  Result<CapturedRun> put =
      IsHere(access, node)
          ? RunForOutput(argv, bytes, kPutLimit)
          : RunOverSshForOutput(OpensshOptionsFor(access.spec, node.host), node.host.dial_name(),
                                "exec " + QuotedWords(argv), bytes, kPutLimit);
  if (!put.ok()) return std::move(put).status().WithContext(node.address);
  if (put->exit_code == 0) return {};
  const std::string said =
      put->error_lines.empty() ? "the copy is not whole" : put->error_lines.back();
  return {ErrorCode::kSyncFailed, fmt::format("{}: copy to {}: {}", node.address, target, said)};
}

Result<RayAccess> FindRayOnHead(ClusterAccess& access, HeadLink& link) {
  HVDRAY_RETURN_IF_ERROR(FindNodes(access));
  HVDRAY_RETURN_IF_ERROR(ResolveHead(access).status());
  ClusterHosts cluster = LoginOfCluster(access.file);
  TakeNodes(access.nodes, &cluster);
  const Result<std::string> url = FindRayOfCluster(cluster, access.spec, link);
  if (!url.ok()) {
    if (url.status().code() == ErrorCode::kRayDenied) return url.status();
    const bool runs = url.status().code() == ErrorCode::kNotSupported;
    return Status(ErrorCode::kHostUnreachable, url.status().message(),
                  runs ? url.status().hint()
                       : fmt::format("start the cluster with hvdray up {}", access.words));
  }
  access.spec.ray.is_wanted.Set(true, access.path);
  access.spec.ray.address.Set(*url, access.path);
  HVDRAY_ASSIGN_OR_RETURN(RayAccess ray, ResolveRayAccess(access.command, access.spec, link));
  if (!access.spec.timeout.is_default() && *access.spec.timeout > Duration::zero()) {
    ray.timeout = *access.spec.timeout;
  }
  return ray;
}

}  // namespace hvdray
