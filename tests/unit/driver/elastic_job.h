// SPDX-License-Identifier: Apache-2.0
// A job by hand for the tests of ElasticDriver: only the test makes things happen, except that
// agents connect and newcomers arrive at once. Every broken rule fails the test.
#ifndef HVDRAY_TESTS_UNIT_DRIVER_ELASTIC_JOB_H_
#define HVDRAY_TESTS_UNIT_DRIVER_ELASTIC_JOB_H_

#include <gtest/gtest.h>

#include <csignal>
#include <string>
#include <vector>

#include "tests/fakes/elastic_sim.h"
#include "tests/fakes/fault_catalogue.h"

namespace hvdray {

using std::chrono::milliseconds;
using std::chrono::seconds;
using Hosts = std::vector<HostSlots>;

inline ElasticPolicy Workers(int np, int min_np, std::optional<int> max_np = std::nullopt) {
  ElasticPolicy policy;
  policy.np = np;
  policy.min_np = min_np;
  policy.max_np = max_np;
  return policy;
}

class ElasticJob : public ElasticSim {
 public:
  explicit ElasticJob(ElasticPolicy policy, Hosts hosts = {}, ElasticWorld world = {})
      : ElasticSim(policy, world) {
    if (!hosts.empty()) Find(std::move(hosts));
  }
  ~ElasticJob() {
    for (const std::string& rule : violations()) ADD_FAILURE() << rule;
  }

  /// Delivers pending events.
  void Settle() { Advance(milliseconds(1)); }
  void Find(Hosts hosts, bool is_final = false) {
    Discover(std::move(hosts), is_final);
    Settle();
  }
  void Fail(const std::string& host, int local_rank, wire::ExitStatus status = {.exit_code = 1}) {
    Exit(host, local_rank, status);
    Settle();
  }
  void Succeed(const std::string& host, int local_rank) { Fail(host, local_rank, {}); }
  void AllMeet() {
    ParkAll();
    Settle();
  }
  ElasticState state() const { return driver().state(); }
  template <typename E>
  size_t Count() const {
    return All<E>().size();
  }
  /// Expects a line that names `facts`; its wording goes into the catalogue.
  void ExpectSaid(Facts facts) const { hvdray::ExpectSaid(said(), facts); }
};

}  // namespace hvdray

#endif  // HVDRAY_TESTS_UNIT_DRIVER_ELASTIC_JOB_H_
