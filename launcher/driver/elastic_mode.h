// SPDX-License-Identifier: Apache-2.0
// Which driver an elastic job gets. Pure.
#ifndef HVDRAY_LAUNCHER_DRIVER_ELASTIC_MODE_H_
#define HVDRAY_LAUNCHER_DRIVER_ELASTIC_MODE_H_

#include <memory>

#include "launcher/driver/elastic_driver.h"

namespace hvdray {

/// By the policy's mode; arguments as those of ElasticDriver.
std::unique_ptr<ElasticDriver> MakeElasticDriver(const ElasticPolicy& policy, uint64_t jitter_seed,
                                                 TimePoint now, StateChangeFn on_change = {});

}  // namespace hvdray

#endif  // HVDRAY_LAUNCHER_DRIVER_ELASTIC_MODE_H_
