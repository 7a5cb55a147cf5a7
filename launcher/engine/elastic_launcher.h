// Applies what an elastic driver decides, over hosts that come and go: starts and releases agents,
// serves the rendezvous, moves output, writes events, record, trace and reports. Decides nothing
// itself; owns the loop's side of a job.
#ifndef HVDRAY_LAUNCHER_ENGINE_ELASTIC_LAUNCHER_H_
#define HVDRAY_LAUNCHER_ENGINE_ELASTIC_LAUNCHER_H_

#include <functional>
#include <memory>
#include <span>
#include <string>
#include <string_view>

#include "base/loop.h"
#include "cluster/host_source.h"
#include "cluster/transport.h"
#include "launcher/engine/launcher.h"
#include "launcher/job/elastic_policy.h"
#include "launcher/report/job_report.h"
#include "launcher/report/trace.h"

namespace hvdray {

/// What the elastic launcher needs of the way to hosts.
struct ElasticHosts {
  std::function<void(const HostSlots&)> add;  ///< Before Transport::Start of a new host.
  /// Certain once Transport::Start of that host has called back.
  std::function<bool(const std::string& host)> is_remote;     ///< Reached over the network.
  std::function<bool(const std::string& host)> is_elsewhere;  ///< Another machine.
};

class ElasticLauncher {
 public:
  /// Opens all files that the job writes and starts the source, so that what is wrong stops the job
  /// before any host is dialled. `plan` needs no hosts and ranks. Loop, transport, source and trace
  /// outlive the launcher. Errors: kFileUnwritable, those of HostSource::Start().
  static Result<std::unique_ptr<ElasticLauncher>> Open(Loop& loop, Transport& transport,
                                                       HostSource& source, ElasticHosts hosts,
                                                       Trace& trace, LaunchPlan plan,
                                                       ElasticPolicy policy);
  virtual ~ElasticLauncher() = default;
  /// As Launcher's.
  virtual JobReport Run() = 0;
  virtual void StopBy(int signo) = 0;
  /// Its source says that a host goes away, as its agent may: its workers are moved out of the job.
  virtual void HostLeaves(const std::string& host, Duration in) = 0;
  virtual void Print(std::span<const std::string> lines) = 0;
  /// A line for stderr while it runs, in order with all output.
  virtual void Say(std::string_view line) = 0;
};

}  // namespace hvdray

#endif  // HVDRAY_LAUNCHER_ENGINE_ELASTIC_LAUNCHER_H_
