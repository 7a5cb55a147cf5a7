// SPDX-License-Identifier: Apache-2.0
#include "launcher/driver/elastic_mode.h"

#include <utility>

#include "launcher/driver/elastic_gang_driver.h"
#include "launcher/driver/horovod_driver.h"

namespace hvdray {

std::unique_ptr<ElasticDriver> MakeElasticDriver(const ElasticPolicy& policy, uint64_t jitter_seed,
                                                 TimePoint now, StateChangeFn on_change) {
  if (policy.mode == ElasticMode::kGang) {
    return std::make_unique<ElasticGangDriver>(policy, jitter_seed, now, std::move(on_change));
  }
  return std::make_unique<HorovodDriver>(policy, jitter_seed, now, std::move(on_change));
}

}  // namespace hvdray
