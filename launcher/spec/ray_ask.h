// What a JobSpec asks of a Ray cluster, in the words of cluster/ray. Pure.
#ifndef HVDRAY_LAUNCHER_SPEC_RAY_ASK_H_
#define HVDRAY_LAUNCHER_SPEC_RAY_ASK_H_

#include "cluster/ray/ray_request.h"
#include "launcher/spec/job_spec.h"

namespace hvdray {

/// `spec`: resolved, with --ray. MakeRayRequest() says what of it can't be.
RayAsk RayAskOf(const JobSpec& spec);

}  // namespace hvdray

#endif  // HVDRAY_LAUNCHER_SPEC_RAY_ASK_H_
