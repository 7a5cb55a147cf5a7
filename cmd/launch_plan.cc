#include "cmd/launch_plan.h"

#include <fmt/format.h>
#include <sys/random.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <iterator>
#include <system_error>

#include "base/log.h"
#include "cluster/local_transport.h"
#include "cmd/exit_code.h"
#include "cmd/host_access.h"
#include "launcher/spec/exec_limits.h"

namespace hvdray {
namespace {

std::string MakeJobId() {
  std::array<unsigned char, 4> random{};
  (void)!::getrandom(random.data(), random.size(), 0);
  const auto now = std::chrono::system_clock::to_time_t(std::chrono::system_clock::now());
  tm utc{};
  ::gmtime_r(&now, &utc);
  return fmt::format("hvd-{:04d}{:02d}{:02d}-{:02d}{:02d}{:02d}-{:02x}{:02x}{:02x}{:02x}",
                     utc.tm_year + 1900, utc.tm_mon + 1, utc.tm_mday, utc.tm_hour, utc.tm_min,
                     utc.tm_sec, random[0], random[1], random[2], random[3]);
}

}  // namespace

LaunchPlan BeginPlan(const CommandLine& line) {
  LaunchPlan plan;
  plan.environment = Environment::FromProcess();
  plan.began = line.began;
  plan.began_wall = std::chrono::system_clock::now();
  std::error_code no_folder;  // it may have been removed under us: workers then start elsewhere
  plan.current_folder = std::filesystem::current_path(no_folder).string();
  plan.job_id = MakeJobId();
  plan.build = BuildName();
  return plan;
}

Status CheckSupported(const JobSpec& spec) {
  if (spec.is_elastic()) {
    return {ErrorCode::kNotSupported,
            "elastic jobs (--min-np, --host-discovery-script) are not "
            "supported by this version",
            "leave those options out; --max-restarts N restarts the whole gang after a failure"};
  }
  return CheckHostAccess(spec);
}

Status Place(LaunchPlan& plan) {
  const JobSpec& spec = plan.spec;
  HVDRAY_ASSIGN_OR_RETURN(const std::vector<RankInfo> all,
                          AssignRanks(*spec.hosts, *spec.np, *spec.np));
  const auto is_used = [&all](const HostSlots& host) {
    return std::any_of(all.begin(), all.end(),
                       [&host](const RankInfo& rank) { return rank.host == host.host; });
  };
  std::copy_if(spec.hosts->begin(), spec.hosts->end(), std::back_inserter(plan.hosts), is_used);
  HVDRAY_ASSIGN_OR_RETURN(plan.ranks, AssignRanks(plan.hosts, *spec.np, *spec.np));
  std::vector<std::string> names;
  for (const HostSlots& host : plan.hosts) names.push_back(host.dial_name());
  const auto lookup = spec.launch_agent->empty() ? NameLookup::kSystem : NameLookup::kNone;
  const std::vector<bool> is_this = AreThisMachine(names, lookup);
  for (size_t i = 0; i < names.size(); ++i) {
    const HostAddress& address = plan.hosts[i].address;
    plan.is_remote.push_back(!is_this[i] || address.has_login() || *spec.is_remote_forced);
    // Behind a port of this machine there may be another one, forwarded to.
    if (!is_this[i] || address.port != 0) plan.spread = HostSpread::kManyMachines;
  }
  return {};
}

Status CheckExec(const LaunchPlan& plan) {
  rlimit stack{};
  ::getrlimit(RLIMIT_STACK, &stack);
  return CheckExecLimits(*plan.spec.command,
                         WorkerEnvironment(plan.spec, plan.environment, /*is_local=*/true),
                         stack.rlim_cur);
}

std::string AgentPath(const JobSpec& spec) {
  if (!spec.agent_path->empty()) return *spec.agent_path;
  std::array<char, 4096> self{};
  const ssize_t length = ::readlink("/proc/self/exe", self.data(), self.size() - 1);
  if (length <= 0) return "hvdray-agent";
  const std::string path(self.data(), static_cast<size_t>(length));
  return path.substr(0, path.rfind('/') + 1) + "hvdray-agent";
}

void SetUpLog(const JobSpec& spec) {
  SetLogLevel(*spec.is_verbose ? LogLevel::kInfo : LogLevel::kWarning);
  SetLogFormat(*spec.is_log_json ? LogFormat::kJson : LogFormat::kText);
}

int PrintOut(std::string_view command, const std::string& text, int exit_code) {
  const bool is_written = std::fwrite(text.data(), 1, text.size(), stdout) == text.size();
  if (std::fflush(stdout) == 0 && is_written) return exit_code;
  const ErrorCode code = errno == EPIPE ? ErrorCode::kReaderGone : ErrorCode::kOutputLost;
  return Fail(command, Status(code, fmt::format("write to stdout: {}", ::strerror(errno))));
}

}  // namespace hvdray
