#include "launcher/report/junit.h"

#include <fmt/format.h>

#include "base/xml.h"
#include "launcher/report/facts_json.h"

namespace hvdray {
namespace {

struct Counts {
  int64_t tests = 0;
  int64_t failures = 0;
  int64_t errors = 0;
  int64_t skipped = 0;
};

// A job that ended badly while no worker of it is to blame.
bool IsOurOwnError(const Verdict& verdict) {
  return !verdict.error.ok() && !IsWorkerToBlame(verdict);
}

// The job is a success in spite of that worker: an elastic one with --success any.
bool IsForgiven(WorkerOutcome outcome, const Verdict& verdict) {
  const bool is_bad = outcome == WorkerOutcome::kFailed || outcome == WorkerOutcome::kLost;
  return is_bad && verdict.error.ok() && verdict.exit_code == 0;
}

Counts CountOf(const Verdict& verdict) {
  Counts counts;
  for (const WorkerRecord& worker : verdict.workers) {
    ++counts.tests;
    const WorkerOutcome outcome = OutcomeOf(worker, verdict);
    switch (outcome) {
      case WorkerOutcome::kSucceeded:
        break;
      case WorkerOutcome::kFailed:
      case WorkerOutcome::kLost:
        ++(IsForgiven(outcome, verdict) ? counts.skipped : counts.failures);
        break;
      case WorkerOutcome::kStopped:
      case WorkerOutcome::kNotStarted:
        ++counts.skipped;
        break;
    }
  }
  if (IsOurOwnError(verdict)) {
    ++counts.tests;
    ++counts.errors;
  }
  return counts;
}

std::string TimeText(Duration time) {
  return fmt::format("{:.3f}", std::chrono::duration_cast<Seconds>(time).count());
}

// More than one error only when hosts were lost for several reasons.
std::string ErrorText(const Verdict& verdict) {
  std::string text = verdict.error.ToString() + "\n";
  for (size_t i = 1; i < verdict.losses.size(); ++i) {
    text += verdict.losses[i].error.ToString() + "\n";
  }
  return text;
}

std::string LastLinesOf(const JobReport& report) {
  std::string text;
  for (const std::string& line :
       report.last_lines.empty() ? report.last_stdout : report.last_lines) {
    text += line + "\n";
  }
  return text;
}

void AddWorker(XmlElement suite, const WorkerRecord& worker, const JobReport& report) {
  const Verdict& verdict = report.verdict;
  XmlElement test = suite.Child("testcase");
  test.Attribute("name", fmt::format("rank {}", worker.rank));
  test.Attribute("classname", "hvdray." + worker.host);
  if (worker.started.has_value()) {
    test.Attribute("time", TimeText(worker.ended.value_or(verdict.ended) - *worker.started));
  }
  const bool is_first = verdict.first_failure.has_value() &&
                        verdict.first_failure->rank == worker.rank &&
                        verdict.first_failure->generation == worker.generation;
  const std::string how = worker.status.has_value() ? Describe(*worker.status) : "";
  const WorkerOutcome outcome = OutcomeOf(worker, verdict);
  if (IsForgiven(outcome, verdict)) {
    test.Child("skipped").Attribute(
        "message", "the job succeeded without it: " + (how.empty() ? "lost with its agent" : how));
    return;
  }
  switch (outcome) {
    case WorkerOutcome::kSucceeded:
      break;
    case WorkerOutcome::kFailed:
      test.Child("failure")
          .Attribute("message", how)
          .Attribute("type", is_first ? "first_failure" : "failure")
          .Text(is_first ? LastLinesOf(report) : "");
      break;
    case WorkerOutcome::kLost:
      test.Child("failure")
          .Attribute("message", "lost with the agent of its host")
          .Attribute("type", "lost");
      break;
    case WorkerOutcome::kStopped:
      test.Child("skipped").Attribute("message",
                                      verdict.first_failure.has_value()
                                          ? fmt::format("stopped after the failure of rank {}: {}",
                                                        verdict.first_failure->rank, how)
                                          : "stopped: " + how);
      break;
    case WorkerOutcome::kNotStarted:
      test.Child("skipped").Attribute("message", "never started");
      break;
  }
}

}  // namespace

std::string ToJunitXml(const JobReport& report) {
  const Verdict& verdict = report.verdict;
  const Counts counts = CountOf(verdict);
  XmlDocument document;
  XmlElement suite = document.Root("testsuites").Child("testsuite");
  suite.Attribute("name", "hvdray")
      .Attribute("id", report.job_id)
      .Attribute("tests", counts.tests)
      .Attribute("failures", counts.failures)
      .Attribute("errors", counts.errors)
      .Attribute("skipped", counts.skipped)
      .Attribute("time", TimeText(verdict.ended - report.began))
      .Attribute("timestamp", WallText(report.began_wall));
  XmlElement properties = suite.Child("properties");
  const auto property = [&](std::string_view name, const std::string& value) {
    properties.Child("property").Attribute("name", name).Attribute("value", value);
  };
  property("build", report.build);
  property("np", fmt::format("{}", report.np));
  property("exit_code", fmt::format("{}", verdict.exit_code));
  property("restarts", fmt::format("{}", verdict.restarts));
  if (!report.memberships.empty()) property("generations", fmt::format("{}", report.generations));
  for (const WorkerRecord& worker : verdict.workers) AddWorker(suite, worker, report);
  if (IsOurOwnError(verdict)) {
    XmlElement test = suite.Child("testcase");
    test.Attribute("name", "hvdray").Attribute("classname", "hvdray");
    test.Child("error")
        .Attribute("message", verdict.error.message())
        .Attribute("type", ErrorLabel(verdict.error.code()))
        .Text(ErrorText(verdict));
  }
  return document.ToString();
}

Status WriteJunit(const std::string& path, const JobReport& report) {
  return WriteReportFile(path, "--junit", ToJunitXml(report));
}

}  // namespace hvdray
