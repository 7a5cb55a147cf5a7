// SPDX-License-Identifier: Apache-2.0
#include "launcher/plan/host_sources.h"

#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/environ.h"
#include "base/log.h"
#include "base/text.h"
#include "base/user_home.h"
#include "cluster/file/cluster_spec.h"
#include "launcher/engine/discovery_script.h"
#include "launcher/engine/host_source.h"
#include "launcher/job/hostfile.h"
#include "launcher/job/spec_builder.h"
#include "launcher/plan/cluster_nodes.h"

namespace hvdray {
namespace {

// Of a line that the script wrote.
constexpr size_t kMaxLineBytes = 1000;

bool IsRegularFile(const std::string& path) {
  struct stat info {};
  return ::stat(path.c_str(), &info) == 0 && S_ISREG(info.st_mode);
}

Result<std::unique_ptr<HostSource>> MakeScript(Loop& loop, const JobSpec& spec,
                                               SayDiscoveryFn say) {
  DiscoveryScriptOptions options;
  options.command = *spec.host_discovery_script;
  options.interval = *spec.discovery_interval;
  options.limit = *spec.discovery_timeout;
  options.parse = [default_slots = *spec.slots_per_host](std::string_view text,
                                                         std::string* warning) {
    return ParseDiscoveredHosts(text, default_slots, warning);
  };
  options.on_stderr = [say = std::move(say)](const std::string& line) {
    say(fmt::format("discovery: {}", ShownText(line, kMaxLineBytes)));
  };
  HVDRAY_RETURN_IF_ERROR(CheckDiscoveryCommand(options.command));
  return MakeDiscoveryScript(loop, std::move(options));
}

std::unique_ptr<HostSource> MakeHostfile(Loop& loop, const JobSpec& spec) {
  WatchedHostfileOptions options;
  options.path = *spec.hostfile;
  options.parse = [path = *spec.hostfile, slots = *spec.slots_per_host](std::string_view text,
                                                                        std::string* /*warning*/) {
    return ParseHostfile(text, path, slots);
  };
  return MakeWatchedHostfile(loop, std::move(options));
}

}  // namespace

void TellAllocation(const JobSpec& spec, std::string_view command) {
  const std::string notice = AllocationNotice(spec);
  if (!notice.empty() && !*spec.is_quiet) Tell(LogLevel::kInfo, command, notice);
}

void SayDiscovery(std::string_view line) { Tell(LogLevel::kInfo, "hvdray", line); }

Result<std::unique_ptr<HostSource>> MakeHostSource(Loop& loop, const JobSpec& spec,
                                                   SayDiscoveryFn say) {
  if (!spec.host_discovery_script->empty()) return MakeScript(loop, spec, std::move(say));
  if (IsRegularFile(*spec.hostfile)) return MakeHostfile(loop, spec);
  return MakeFixedHosts(loop, *spec.hosts);
}

Status LearnHosts(JobSpec& spec, SayDiscoveryFn say) {
  if (spec.host_discovery_script->empty()) return {};
  HVDRAY_ASSIGN_OR_RETURN(const std::unique_ptr<Loop> loop, Loop::Create());
  HVDRAY_ASSIGN_OR_RETURN(const std::unique_ptr<HostSource> source,
                          MakeHostSource(*loop, spec, std::move(say)));
  std::optional<Result<std::vector<HostSlots>>> answer;
  HostSource::Handlers handlers;
  handlers.on_hosts = [&](std::vector<HostSlots> hosts, bool /*is_final*/) {
    answer = std::move(hosts);
    loop->Stop();
  };
  handlers.on_failure = [&](Status why) {
    answer = std::move(why);
    loop->Stop();
  };
  HVDRAY_RETURN_IF_ERROR(source->Start(std::move(handlers)));
  loop->Run();
  source->Stop();
  if (!answer->ok()) return std::move(*answer).status();
  spec.hosts.Set(std::move(*answer).value(), spec.host_discovery_script.origin());
  return {};
}

Result<ClusterHosts> LoadClusterHosts(const std::string& path) {
  HVDRAY_ASSIGN_OR_RETURN(const ClusterSpec spec, LoadClusterSpec(path));
  for (const std::string& warning : spec.warnings) {
    Tell(LogLevel::kWarning, "hvdray run", warning);
  }
  ClusterHosts result = LoginOfCluster(spec);
  const auto ask = [path, spec](ClusterHosts* cluster) {
    const Result<ClusterNodes> nodes = FindClusterNodes("run", path, spec);
    if (nodes.ok()) return TakeNodes(*nodes, cluster);
    cluster->hosts_status = nodes.status();
  };
  if (HasProvider(spec)) {
    result.hosts_status = {ErrorCode::kNotSupported,
                           fmt::format("{}: only its provider knows its machines", path)};
    result.ask_provider = ask;
  } else {
    ask(&result);
  }
  return result;
}

ClusterHosts LoginOfCluster(const ClusterSpec& spec) {
  ClusterHosts result;
  result.ssh_user = spec.auth.ssh_user;
  result.ssh_proxy_command = spec.auth.ssh_proxy_command;
  // As Ray does.
  result.ssh_identity_file = ExpandedHome(spec.auth.ssh_private_key);
  result.is_ray_in_container = !spec.docker.container_name.empty();
  result.run = spec.run;
  result.name = spec.cluster_name;
  result.is_dashboard_moved = std::ranges::any_of(
      spec.commands.head_start,
      [](const std::string& command) { return command.find("-dashboard") != std::string::npos; });
  return result;
}

}  // namespace hvdray
