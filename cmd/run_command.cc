// `hvdray run`: words to a plan, the plan to a launcher, its report to files and an exit code.
#include <fmt/format.h>
#include <sys/random.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <cstdio>
#include <filesystem>
#include <iterator>
#include <system_error>

#include "base/environ.h"
#include "base/log.h"
#include "base/loop.h"
#include "base/terminal.h"
#include "cluster/local_transport.h"
#include "cmd/cluster_hosts.h"
#include "cmd/commands.h"
#include "cmd/exit_code.h"
#include "cmd/host_access.h"
#include "launcher/engine/generation_start.h"
#include "launcher/engine/launcher.h"
#include "launcher/output/progress.h"
#include "launcher/placement/plan.h"
#include "launcher/report/closing_lines.h"
#include "launcher/report/junit.h"
#include "launcher/spec/exec_limits.h"
#include "launcher/spec/help.h"
#include "launcher/spec/options_resolver.h"
#include "launcher/spec/print_config.h"

namespace hvdray {
namespace {

void PrintOut(const std::string& text) {
  std::fwrite(text.data(), 1, text.size(), stdout);
  std::fflush(stdout);
}

void PrintErr(const std::string& line) { std::fputs((line + "\n").c_str(), stderr); }

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

// hvdray-agent lies beside hvdray, wherever that was installed or linked to.
std::string AgentPath(const JobSpec& spec) {
  if (!spec.agent_path->empty()) return *spec.agent_path;
  std::array<char, 4096> self{};
  const ssize_t length = ::readlink("/proc/self/exe", self.data(), self.size() - 1);
  if (length <= 0) return "hvdray-agent";
  const std::string path(self.data(), static_cast<size_t>(length));
  return path.substr(0, path.rfind('/') + 1) + "hvdray-agent";
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

// Hosts that get no worker get no agent either.
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

// Whatever execve would refuse on every host is refused here, before anything is started.
Status CheckExec(const LaunchPlan& plan) {
  rlimit stack{};
  ::getrlimit(RLIMIT_STACK, &stack);
  return CheckExecLimits(*plan.spec.command,
                         WorkerEnvironment(plan.spec, plan.environment, /*is_local=*/true),
                         stack.rlim_cur);
}

void SetUpLog(const JobSpec& spec) {
  SetLogLevel(*spec.is_verbose ? LogLevel::kInfo : LogLevel::kWarning);
  SetLogFormat(*spec.is_log_json ? LogFormat::kJson : LogFormat::kText);
}

// A report that can't be written makes a good job a bad one, but never hides how a bad one ended:
// then it is one line more.
std::vector<std::string> WriteReports(const JobSpec& spec, Trace& trace, JobReport& report) {
  std::vector<std::string> lines;
  const auto note = [&report, &lines](const Status& status) {
    if (status.ok()) return;
    if (report.verdict.exit_code != 0) {
      lines.push_back(fmt::format("hvdray run: {}", status.ToString()));
      return;
    }
    report.verdict.exit_code = 125;
    report.verdict.origin = ExitOrigin::kHvdray;
    report.verdict.error = status;
  };
  if (!spec.trace_file->empty()) {
    note(trace.WriteTo(*spec.trace_file, std::chrono::steady_clock::now()));
  }
  if (!spec.junit_file->empty()) note(WriteJunit(*spec.junit_file, report));
  if (!spec.report_file->empty()) note(WriteJobReport(*spec.report_file, report));
  return lines;
}

int Launch(LaunchPlan plan) {
  const JobSpec spec = plan.spec;
  std::vector<std::string> names;
  for (const HostSlots& host : plan.hosts) names.push_back(host.host);
  Trace trace(plan.began, names, !spec.trace_file->empty());
  trace.Begin("resolve", plan.began);
  trace.End("resolve", std::chrono::steady_clock::now());
  const Environment environment = plan.environment;

  Result<std::unique_ptr<Loop>> loop = Loop::Create();
  if (!loop.ok()) return Fail("run", loop.status());
  Result<std::unique_ptr<HostAccess>> access =
      HostAccess::Open(**loop, spec, AgentPath(spec), plan.hosts, plan.is_remote, plan.spread);
  if (!access.ok()) return Fail("run", access.status());
  Result<std::unique_ptr<Launcher>> launcher =
      Launcher::Open(**loop, **access, trace, std::move(plan));
  if (!launcher.ok()) return Fail("run", launcher.status());
  JobReport report = (*launcher)->Run();
  EndTerminalQuestions();  // hosts that are on their way are not wanted any more

  const TerminalStyle style =
      ChooseStyle(::isatty(STDERR_FILENO) != 0, *spec.color, *spec.is_quiet, environment);
  const ClosingStyle closing{spec.command->front(), *spec.working_folder, style.is_colored,
                             *spec.is_quiet, *spec.is_verbose};
  // The files first: a reader of stderr that has stopped reading must not cost them.
  std::vector<std::string> lines = WriteReports(spec, trace, report);
  for (std::string& line : ClosingLines(report.verdict, report.last_lines, closing)) {
    lines.push_back(std::move(line));
  }
  (*launcher)->Print(lines);
  return report.verdict.exit_code;
}

int ShowPlan(const LaunchPlan& plan) {
  const PlanFormat format = plan.spec.print_plan->value_or(PlanFormat::kText);
  PrintOut(format == PlanFormat::kJson ? PlanToJson(plan.spec, plan.ranks)
                                       : PlanToText(plan.spec, plan.ranks));
  return 0;
}

}  // namespace

int RunCommand(const CommandLine& line) {
  LaunchPlan plan;
  plan.environment = Environment::FromProcess();
  plan.began = line.began;
  plan.began_wall = std::chrono::system_clock::now();
  std::error_code no_folder;  // it may have been removed under us: workers then start elsewhere
  plan.current_folder = std::filesystem::current_path(no_folder).string();
  ResolverFiles files = RealResolverFiles();
  files.load_cluster = &LoadClusterHosts;
  Result<RunRequest> request = ResolveRun(line.args, plan.environment, files);
  if (!request.ok()) return Fail("run", request.status());
  for (const std::string& warning : request->warnings) {
    PrintErr(fmt::format("hvdray run: warning: {}", warning));
  }
  if (request->wants_help) return PrintOut(RunHelp()), 0;
  if (request->wants_version) return PrintOut(BuildName() + "\n"), 0;
  if (request->wants_check_build) return PrintOut(BuildTable()), 0;
  plan.spec = std::move(request->spec);
  if (plan.spec.print_config->has_value()) {
    return PrintOut(PrintConfig(plan.spec, **plan.spec.print_config)), 0;
  }
  SetUpLog(plan.spec);
  Status status = CheckSupported(plan.spec);
  if (status.ok()) status = Place(plan);
  if (status.ok()) status = CheckExec(plan);
  if (!status.ok()) return Fail("run", status);
  if (plan.spec.print_plan->has_value() || *plan.spec.is_dry_run) return ShowPlan(plan);
  plan.job_id = MakeJobId();
  plan.build = BuildName();
  return Launch(std::move(plan));
}

}  // namespace hvdray
