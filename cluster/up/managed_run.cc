// SPDX-License-Identifier: Apache-2.0
#include "cluster/up/managed_run.h"

#include <fmt/format.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <functional>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <utility>

#include "base/blocking_pool.h"
#include "base/environ.h"
#include "base/fd.h"
#include "base/log.h"
#include "base/loop.h"
#include "base/report_file.h"
#include "base/screen.h"
#include "base/terminal.h"
#include "cluster/up/cluster_events.h"
#include "cluster/up/cluster_report.h"
#include "cluster/up/cluster_run.h"
#include "cluster/up/node_display.h"
#include "launcher/engine/job_console.h"
#include "launcher/job/exit_code.h"
#include "launcher/plan/build_name.h"
#include "launcher/plan/host_access.h"
#include "launcher/report/facts_json.h"
#include "launcher/report/progress.h"

namespace hvdray {
namespace {

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

using ReportError = std::function<void(const Status& why)>;

ReportError ErrorReporter(const ManagedCluster& cluster) {
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
                                                  const ReportError& report_error) {
  const Setting<std::string>& file = cluster.spec.events_file;
  if (file->empty()) return std::unique_ptr<ClusterEvents>();
  ClusterEventsOptions options;
  options.path = *file;
  options.option = NamedBy(file, "events");
  options.call = CallOf(cluster);
  options.nodes = std::move(nodes);
  options.on_damaged = [&end, report_error](Status why) {
    report_error(why);
    if (end.failure.ok()) end.failure = std::move(why);
  };
  return ClusterEvents::Open(loop, std::move(options));
}

void WriteOut(std::string_view text, ClusterEnd& end) {
  if (end.is_stdout_gone) return;  // The first fault is the one to tell.
  const bool is_written = std::fwrite(text.data(), 1, text.size(), stdout) == text.size();
  if (std::fflush(stdout) == 0 && is_written) return;
  end.is_stdout_gone = true;
  end.failure = OutputLost("stdout", errno);
}

/// Null: nobody watches at a terminal.
std::unique_ptr<NodeDisplay> OpenDisplay(Loop& loop, const ClusterDriver& driver, ClusterEnd& end) {
  if (!IsScreen() || IsContinuousIntegration(Environment::FromProcess())) return nullptr;
  return std::make_unique<NodeDisplay>(loop, driver,
                                       [&end](std::string_view text) { WriteOut(text, end); });
}

ClusterRunOptions RunOptions(const ManagedCluster& cluster, ClusterEnd& end,
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
  if (end.is_stdout_gone) return ExitCode(end.failure);
  if (end.signo != 0) return 128 + end.signo;
  return end.exit_code == 0 && !end.failure.ok() ? ExitCode(end.failure) : end.exit_code;
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
  if (end.exit_code == 0) end.exit_code = ExitCode(written);
}

}  // namespace

Status ClusterEnd::error() const {
  if (!failure.ok()) return failure;
  if (signo != 0) return {ErrorCode::kInterrupted, fmt::format("stopped by {}", SignalName(signo))};
  return FirstFailure(nodes);
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
  ReportError report_error = ErrorReporter(cluster);
  std::optional<LogSink> log;
  if (display) {
    report_error = [&display, plain = report_error](const Status& why) {
      display->Above([&] { plain(why); });
    };
    log.emplace([&display](std::string_view line) {
      display->Above([line] { (void)WriteAll(STDERR_FILENO, std::string(line) + "\n"); });
    });
  }
  HVDRAY_ASSIGN_OR_RETURN(std::unique_ptr<ClusterEvents> events,
                          OpenEvents(*loop, cluster, driver.Rows(), end, report_error));
  BlockingPool questions(*loop, std::chrono::milliseconds(500));
  ClusterRunOptions options = RunOptions(cluster, end, questions, display.get());
  options.report_error = report_error;
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
      loop.ok() ? OpenEvents(**loop, cluster, end.nodes, end, ErrorReporter(cluster))
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
