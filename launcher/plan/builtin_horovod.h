// SPDX-License-Identifier: Apache-2.0
// Where the `horovod` package and the collective library of --horovod builtin are. They lie beside
// the program, so a job gets those of the hvdray that started it. Reads the file system, and
// changes no more than the environment it is given; without --horovod builtin it does nothing.
#ifndef HVDRAY_LAUNCHER_PLAN_BUILTIN_HOROVOD_H_
#define HVDRAY_LAUNCHER_PLAN_BUILTIN_HOROVOD_H_

#include <string>

#include "base/environ.h"
#include "base/status.h"
#include "launcher/job/job_spec.h"

namespace hvdray {

/// With --horovod builtin: puts the directory whose `horovod` is ours, and the library, into
/// `environment`, where WorkerEnvironment() takes them from, with the version that both must have.
/// They belong to the program `own`, in a build, in an installed tree, or in a wheel's environment.
/// HVDRAY_LIBRARY wins. Errors: kUsage.
Status FindBuiltinHorovod(const JobSpec& spec, const std::string& own, Environment& environment);

}  // namespace hvdray

#endif  // HVDRAY_LAUNCHER_PLAN_BUILTIN_HOROVOD_H_
