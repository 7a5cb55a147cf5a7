#include "launcher/engine/job_files.h"

#include <fmt/format.h>

#include <utility>

#include "launcher/report/job_report.h"

namespace hvdray {

std::vector<std::string> NamesOf(const std::vector<HostSlots>& hosts) {
  std::vector<std::string> names;
  names.reserve(hosts.size());
  for (const HostSlots& host : hosts) names.push_back(host.host);
  return names;
}

std::string NamedBy(const Setting<std::string>& file, std::string_view option) {
  const std::string& origin = file.origin();
  if (origin.starts_with("flag ")) return origin.substr(5);
  if (file.is_default() || origin.starts_with("env ")) return fmt::format("--{}", option);
  return fmt::format("{}: {}", origin, option);
}

Status CheckReportPaths(const JobSpec& spec) {
  for (const auto& [file, option] :
       {std::pair(&spec.report_file, "report"), std::pair(&spec.junit_file, "junit"),
        std::pair(&spec.trace_file, "trace")}) {
    if ((*file)->empty()) continue;
    HVDRAY_RETURN_IF_ERROR(CheckReportPath(**file, NamedBy(*file, option)));
  }
  return {};
}

JobOutputOptions OutputOptionsOf(const JobSpec& spec) {
  JobOutputOptions options;
  options.tag = *spec.tag_output;
  options.is_timestamped = *spec.is_timestamped;
  options.folder = *spec.output_folder;
  options.np = *spec.np;
  return options;
}

EventLogOptions EventOptionsOf(const LaunchPlan& plan) {
  EventLogOptions options;
  options.path = *plan.spec.events_file;
  options.option = NamedBy(plan.spec.events_file, "events");
  options.job_id = plan.job_id;
  options.build = plan.build;
  options.command = *plan.spec.command;
  options.np = *plan.spec.np;
  options.hosts = NamesOf(plan.hosts);
  options.began = plan.began;
  options.began_wall = plan.began_wall;
  return options;
}

}  // namespace hvdray
