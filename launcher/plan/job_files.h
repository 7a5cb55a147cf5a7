// SPDX-License-Identifier: Apache-2.0
// The files of a command: what it reads, runs and copies, and what it writes. None may be both.
#ifndef HVDRAY_LAUNCHER_PLAN_JOB_FILES_H_
#define HVDRAY_LAUNCHER_PLAN_JOB_FILES_H_

#include <string>
#include <utility>
#include <vector>

#include "base/distinct_files.h"
#include "base/environ.h"
#include "launcher/job/job_spec.h"
#include "launcher/job/options_resolver.h"

namespace hvdray {

/// What a command reads besides its settings.
struct MoreInputs {
  std::vector<NamedFile> files = {};
  void Add(const std::string& origin, const std::string& path);
};

/// Adds what `files` reads from now on to `inputs`, which outlives it: also files that another file
/// names, as a runtime environment its requirements.
void NoteReads(ResolverFiles& files, MoreInputs& inputs);

/// No file that a command writes (reports, the files of --output-filename, Horovod's own) may be
/// written twice, or be one that it reads, runs or copies: those of its settings, its program and
/// the files that its words name, discovery script, standard streams, ~/.ssh, hvdray itself,
/// `more`. A report replaces nothing but one of an earlier job. `environment`: this process's.
/// Looks at files. Errors: kUsage.
Status CheckDistinctFiles(const JobSpec& spec, const Environment& environment,
                          const MoreInputs& more = {});

/// The same for one file that is written and is no setting.
Status CheckNotRead(const NamedFile& output, const JobSpec& spec, const Environment& environment,
                    const MoreInputs& more);

}  // namespace hvdray

#endif  // HVDRAY_LAUNCHER_PLAN_JOB_FILES_H_
