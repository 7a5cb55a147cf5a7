// SPDX-License-Identifier: Apache-2.0
// `hvdray check`: from words to a plan, as run does; from the plan to agents without workers; from
// what they say to findings, as text or JSON, and an exit code.
#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <filesystem>
#include <optional>
#include <set>
#include <string>
#include <system_error>
#include <utility>
#include <vector>

#include "agent/inspector.h"
#include "base/command_words.h"
#include "base/exec.h"
#include "base/log.h"
#include "base/loop.h"
#include "base/terminal.h"
#include "base/text.h"
#include "base/user_home.h"
#include "cmd/commands.h"
#include "launcher/engine/host_check.h"
#include "launcher/engine/sync_plan.h"
#include "launcher/job/exit_code.h"
#include "launcher/job/help.h"
#include "launcher/job/options_resolver.h"
#include "launcher/plan/host_access.h"
#include "launcher/plan/host_sources.h"
#include "launcher/plan/launch_plan.h"
#include "launcher/plan/log_options.h"
#include "launcher/report/check_findings.h"
#include "launcher/report/check_text.h"
#include "launcher/report/progress.h"

namespace hvdray {
namespace {

/// The text to print instead of a check, if the words ask for one.
std::optional<std::string> TextWanted(const RunRequest& request) {
  if (request.wants_help) return Help(CommandNamed("check"));
  if (request.wants_version) return VersionText();
  if (request.wants_check_build) return BuildTable();
  return std::nullopt;
}

bool IsFileHere(const std::string& path) {
  std::error_code error;
  return std::filesystem::is_regular_file(path, error);
}

/// The files that the command names: a Python's script, and every word (or value after '=') that is
/// a file on this machine and that --sync does not copy to the others.
CheckWishes Wishes(const LaunchPlan& plan, std::vector<std::string> modules) {
  CheckWishes wishes;
  wishes.modules = std::move(modules);
  const std::vector<std::string>& command = *plan.spec.command;
  const std::filesystem::path directory =
      plan.spec.working_directory->empty() ? plan.current_directory : *plan.spec.working_directory;
  const size_t script = PythonScript(command);
  for (size_t i = 1; i < command.size() && wishes.files.size() < wire::kMaxInspected; ++i) {
    const bool is_option = command[i].starts_with('-') && i != script;
    const size_t equals = is_option ? command[i].find('=') : std::string::npos;
    if (is_option && equals == std::string::npos) continue;
    const std::string word = is_option ? command[i].substr(equals + 1) : command[i];
    const std::string here = directory / word;
    const bool is_here = !word.empty() && IsFileHere(here);
    const bool is_copied = is_here && PlaceIn(plan.synced, ResolvedDirectory(here));
    if (is_copied || (!is_here && i != script)) continue;
    if (i == script) wishes.script = word;
    if (std::find(wishes.files.begin(), wishes.files.end(), word) == wishes.files.end()) {
      wishes.files.push_back(word);
    }
  }
  return wishes;
}

constexpr Duration kAskLimit = std::chrono::seconds(5);

/// Packages of distributions and of pip may both be installed. Runs each with --version.
std::vector<OtherProgram> OthersOnPath(const Environment& environment) {
  namespace fs = std::filesystem;
  std::error_code error;
  const fs::path own = OwnPath();
  if (!own.is_absolute()) return {};  // without /proc nobody knows which is the other
  std::set<fs::path> seen = {own};
  std::vector<OtherProgram> others;
  const std::string path = environment.GetOr("PATH", "");
  for (const std::string_view directory : BlankSeparated(path, ":")) {
    const fs::path program = fs::path(directory) / "hvdray";
    const fs::path real = fs::canonical(program, error);
    const bool is_program = !error && fs::is_regular_file(real, error) &&
                            ::access(real.c_str(), X_OK) == 0 && directory.starts_with('/');
    if (!is_program || !seen.insert(real).second) continue;
    const Result<ProgramAnswer> answer = AskProgram({program.string(), "--version"}, kAskLimit);
    const bool is_told = answer.ok() && answer->exit_code == 0 && !answer->text.empty();
    others.push_back(
        {program.string(), is_told ? std::string(LinesOf(answer->text).front()) : std::string()});
  }
  return others;
}

/// With too few slots, plans as many workers as there is room for: the hosts are still worth a
/// look.
Status PlanCheck(CheckRequest& request, LaunchPlan& plan) {
  HVDRAY_RETURN_IF_ERROR(CheckOptionsOfRun(plan.spec));
  HVDRAY_RETURN_IF_ERROR(LearnHosts(plan.spec, &SayDiscovery));
  if (plan.spec.may_learn_hosts()) {
    // A job would wait for more hosts; a check reports that there are too few now.
    request.slots = AssignRanks(*plan.spec.hosts, *plan.spec.np, *plan.spec.max_np).status();
  }
  if (!request.slots.ok()) {
    int room = 0;
    for (const HostSlots& host : *plan.spec.hosts) room += host.slots;
    if (room == 0) return request.slots;
    plan.spec.np.Set(std::min(room, *plan.spec.np), plan.spec.np.origin());
  }
  HVDRAY_RETURN_IF_ERROR(Place(plan));
  HVDRAY_ASSIGN_OR_RETURN(plan.synced,
                          PlanSync(*plan.spec.sync, plan.environment, SyncScope::kCheckOnly));
  const std::string& directory =
      plan.spec.working_directory->empty() ? plan.current_directory : *plan.spec.working_directory;
  plan.worker_place = PlaceIn(plan.synced, ResolvedDirectory(directory));
  plan.directory_trustees = TrusteesOf(directory);
  return plan.spec.command->empty() ? Status() : CheckExec(plan);
}

int CheckHosts(const CheckRequest& request, LaunchPlan plan) {
  const JobSpec spec = plan.spec;
  const Environment environment = plan.environment;
  std::vector<std::string> unused;
  for (const HostSlots& host : *spec.hosts) {
    const bool is_used = std::any_of(plan.hosts.begin(), plan.hosts.end(),
                                     [&](const auto& used) { return used.host == host.host; });
    if (!is_used) unused.push_back(host.host);
  }
  Result<std::unique_ptr<Loop>> loop = Loop::Create();
  if (!loop.ok()) return Fail("check", loop.status());
  HostCheck::Outcome outcome;
  {
    Result<std::unique_ptr<HostAccess>> access =
        HostAccess::Open(**loop, spec, AgentPath(spec), plan.hosts, plan.is_remote, plan.spread);
    if (!access.ok()) return Fail("check", access.status());
    CheckWishes wishes = Wishes(plan, request.modules);
    outcome = HostCheck(**loop, **access, std::move(plan), {}, std::move(wishes)).Run();
    EndTerminalQuestions();  // after Ctrl-C a host may still ask
  }
  if (outcome.signo != 0) return 128 + outcome.signo;
  const Shades shades =
      ChooseStyle(::isatty(STDOUT_FILENO) != 0, *spec.color, false, environment).is_colored
          ? Shades::kAnsi
          : Shades::kNone;
  outcome.facts.np = *request.run.spec.np;
  outcome.facts.slots = request.slots;
  outcome.facts.path = OwnPath();
  outcome.facts.others = OthersOnPath(environment);
  outcome.facts.unused_hosts = std::move(unused);
  const std::vector<Finding> findings = FindFindings(outcome.facts);
  return PrintOut("check",
                  request.is_json ? CheckJson(outcome.facts, findings)
                                  : CheckText(outcome.facts, findings, shades),
                  ExitCode(findings));
}

}  // namespace

int CheckCommand(const CommandLine& line) {
  LaunchPlan plan = BeginPlan(line.began);
  SetUpLogEarly(line.args, plan.environment);
  ResolverFiles files = RealResolverFiles();
  files.home_of = HomesHere(plan.environment);
  files.load_cluster = &LoadClusterHosts;
  Result<CheckRequest> request = ResolveCheck(line.args, plan.environment, files);
  if (!request.ok()) {
    const bool is_path = request.status().code() == ErrorCode::kFileUnreadable;
    const Status gone = is_path ? CheckCurrentDirectory(plan) : Status();
    return Fail("check", gone.ok() ? request.status() : gone);
  }
  SetUpLog(request->run.spec);
  for (const std::string& warning : request->run.warnings) {
    Tell(LogLevel::kWarning, "hvdray check", warning);
  }
  if (const auto text = TextWanted(request->run)) return PrintOut("check", *text);
  plan.spec = request->run.spec;
  if (plan.spec.working_directory->empty()) {
    if (const Status gone = CheckCurrentDirectory(plan); !gone.ok()) return Fail("check", gone);
  }
  TellAllocation(plan.spec, "hvdray check");
  if (const Status status = PlanCheck(*request, plan); !status.ok()) return Fail("check", status);
  return CheckHosts(*request, std::move(plan));
}

}  // namespace hvdray
