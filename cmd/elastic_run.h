// `hvdray run` of an elastic job.
#ifndef HVDRAY_CMD_ELASTIC_RUN_H_
#define HVDRAY_CMD_ELASTIC_RUN_H_

#include "launcher/engine/launcher.h"
#include "launcher/report/run_ending.h"

namespace hvdray {

/// From a plan as PlaceElastic() leaves it to the job's exit code. Blocks until the job has ended.
int LaunchElastic(LaunchPlan plan, Wording wording);

}  // namespace hvdray

#endif  // HVDRAY_CMD_ELASTIC_RUN_H_
