// Runs an elastic job: applies what its driver decides, over hosts that come and go.
#ifndef HVDRAY_LAUNCHER_ENGINE_ELASTIC_LAUNCHER_H_
#define HVDRAY_LAUNCHER_ENGINE_ELASTIC_LAUNCHER_H_

#include <functional>
#include <memory>
#include <span>
#include <string>

#include "base/loop.h"
#include "cluster/host_source.h"
#include "cluster/transport.h"
#include "launcher/driver/elastic_policy.h"
#include "launcher/engine/launcher.h"
#include "launcher/report/job_report.h"
#include "launcher/report/trace.h"

namespace hvdray {

/// What the elastic launcher needs of the way to hosts.
struct ElasticHosts {
  std::function<void(const HostSlots&)> add;  ///< Before Transport::Start of a new host.
  std::function<bool(const std::string& host)> is_remote;     ///< Reached over the network.
  std::function<bool(const std::string& host)> is_elsewhere;  ///< Another machine.
};

class ElasticLauncher {
 public:
  static Result<std::unique_ptr<ElasticLauncher>> Open(Loop& loop, Transport& transport,
                                                       HostSource& source, ElasticHosts hosts,
                                                       Trace& trace, LaunchPlan plan,
                                                       ElasticPolicy policy);
  virtual ~ElasticLauncher() = default;
  virtual JobReport Run() = 0;
  virtual void Print(std::span<const std::string> lines) = 0;
};

}  // namespace hvdray

#endif  // HVDRAY_LAUNCHER_ENGINE_ELASTIC_LAUNCHER_H_
