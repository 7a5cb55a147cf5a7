// Which interface the workers of a host use in an elastic job: chosen once a host, since a process
// keeps its interface for life, and fitting those of the hosts that are there already. Pure.
#ifndef HVDRAY_LAUNCHER_ENGINE_ELASTIC_NICS_H_
#define HVDRAY_LAUNCHER_ENGINE_ELASTIC_NICS_H_

#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/result.h"
#include "launcher/job/nic_select.h"

namespace hvdray {

/// A host whose agent has told its facts.
struct ElasticNicHost {
  std::string name;
  std::span<const wire::InterfaceFacts> interfaces;
  bool is_elsewhere = false;     ///< Another machine.
  std::optional<NicChoice> nic;  ///< Of its workers; nullopt: none was started yet.
};

class ElasticNics {
 public:
  /// wanted: --network-interfaces. is_fixed: the source will never name other hosts.
  ElasticNics(std::vector<std::string> wanted, bool is_fixed)
      : wanted_(std::move(wanted)), is_fixed_(is_fixed) {}
  void SetFixed(bool is_fixed) { is_fixed_ = is_fixed; }

  /// Whether workers on `newcomer` could reach those on `present`. Errors: kNoUsableInterface.
  Status Check(std::span<const ElasticNicHost> present, const ElasticNicHost& newcomer) const;
  /// Fills in those that are missing; all have passed Check() against the others. Errors:
  /// kNoUsableInterface; then nothing is filled in.
  Status Choose(std::span<ElasticNicHost> hosts) const;

 private:
  Result<std::vector<NicChoice>> Select(std::span<const ElasticNicHost> hosts) const;

  const std::vector<std::string> wanted_;
  bool is_fixed_;
};

}  // namespace hvdray

#endif  // HVDRAY_LAUNCHER_ENGINE_ELASTIC_NICS_H_
