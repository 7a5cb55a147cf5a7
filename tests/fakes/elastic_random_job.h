// SPDX-License-Identifier: Apache-2.0
// Random elastic jobs in the simulator: hosts join, leave, flap, fail and fall silent; workers
// fail, hang and ignore signals; notices are lost and doubled.
#ifndef HVDRAY_TESTS_FAKES_ELASTIC_RANDOM_JOB_H_
#define HVDRAY_TESTS_FAKES_ELASTIC_RANDOM_JOB_H_

#include <memory>

#include "tests/fakes/elastic_sim.h"

namespace hvdray {

/// The same for the same seed. Run() it, for at least 4000 s of its time.
std::unique_ptr<ElasticSim> RandomJob(uint64_t seed);

}  // namespace hvdray

#endif  // HVDRAY_TESTS_FAKES_ELASTIC_RANDOM_JOB_H_
