// SPDX-License-Identifier: Apache-2.0
// Which interface the workers of a host use in an elastic job: chosen once per host, since a
// process keeps its interface for life, and compatible with those of the present hosts. Pure.
// docs/elastic.md, "Network interfaces".
#ifndef HVDRAY_LAUNCHER_ENGINE_ELASTIC_NICS_H_
#define HVDRAY_LAUNCHER_ENGINE_ELASTIC_NICS_H_

#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/result.h"
#include "launcher/job/nic_select.h"

namespace hvdray {

/// A host whose agent has reported its facts.
struct ElasticNicHost {
  std::string name;
  std::span<const wire::InterfaceFacts> interfaces;
  bool is_elsewhere = false;     ///< Another machine.
  std::optional<NicChoice> nic;  ///< Of its workers; nullopt: none started yet.
};

/// The rules of the choice; keeps no hosts.
class ElasticNics {
 public:
  /// `wanted`: --network-interfaces. `is_fixed`: the host list never changes.
  ElasticNics(std::vector<std::string> wanted, bool is_fixed)
      : wanted_(std::move(wanted)), is_fixed_(is_fixed) {}
  void SetFixed(bool is_fixed) { is_fixed_ = is_fixed; }

  /// Ok if workers on `newcomer` could reach those on `present`. Errors: kNoUsableInterface.
  Status Check(std::span<const ElasticNicHost> present, const ElasticNicHost& newcomer) const;
  /// Fills in missing choices; each host has passed Check() against the others. Errors:
  /// kNoUsableInterface; `hosts` is unchanged then.
  Status Choose(std::span<ElasticNicHost> hosts) const;

 private:
  Result<std::vector<NicChoice>> Select(std::span<const ElasticNicHost> hosts) const;

  const std::vector<std::string> wanted_;
  bool is_fixed_;
};

}  // namespace hvdray

#endif  // HVDRAY_LAUNCHER_ENGINE_ELASTIC_NICS_H_
