// Which files a job writes, from its plan. Pure but for the look whether they can be written.
#ifndef HVDRAY_LAUNCHER_ENGINE_JOB_FILES_H_
#define HVDRAY_LAUNCHER_ENGINE_JOB_FILES_H_

#include <string>
#include <string_view>
#include <vector>

#include "launcher/engine/launcher.h"
#include "launcher/report/event_log.h"
#include "launcher/report/job_output.h"

namespace hvdray {

/// Of the hosts of a plan, by its index.
std::vector<std::string> NamesOf(const std::vector<HostSlots>& hosts);

/// How messages begin that are about a file which an option names: "--report", or, of a job file,
/// "job.yaml:4:9: report".
std::string NamedBy(const Setting<std::string>& file, std::string_view option);

/// --report, --junit and --trace, before anything is started. Errors: kFileUnwritable.
Status CheckReportPaths(const JobSpec& spec);

JobOutputOptions OutputOptionsOf(const JobSpec& spec);

/// All but on_damaged.
EventLogOptions EventOptionsOf(const LaunchPlan& plan);

}  // namespace hvdray

#endif  // HVDRAY_LAUNCHER_ENGINE_JOB_FILES_H_
