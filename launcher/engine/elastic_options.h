// From a resolved spec to the settings of an elastic driver. Pure.
#ifndef HVDRAY_LAUNCHER_ENGINE_ELASTIC_OPTIONS_H_
#define HVDRAY_LAUNCHER_ENGINE_ELASTIC_OPTIONS_H_

#include <cstdint>

#include "launcher/job/elastic_policy.h"
#include "launcher/job/job_spec.h"

namespace hvdray {

/// `spec`: of an elastic job. What no option says has the policy's default. began_epoch_s: seconds
/// since the epoch when the job began. CheckElasticPolicy() says whether it can be.
ElasticPolicy ElasticPolicyOf(const JobSpec& spec, int64_t began_epoch_s);

}  // namespace hvdray

#endif  // HVDRAY_LAUNCHER_ENGINE_ELASTIC_OPTIONS_H_
