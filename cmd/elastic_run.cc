// A source of hosts, the way to them, the driver's policy; then the elastic launcher's part.
#include "cmd/elastic_run.h"

#include <chrono>
#include <cstdint>
#include <memory>
#include <string>

#include "base/loop.h"
#include "cmd/exit_code.h"
#include "cmd/host_access.h"
#include "cmd/host_sources.h"
#include "cmd/launch_plan.h"
#include "launcher/engine/elastic_launcher.h"
#include "launcher/engine/elastic_options.h"

namespace hvdray {
namespace {

int64_t EpochSeconds(std::chrono::system_clock::time_point time) {
  return std::chrono::duration_cast<std::chrono::seconds>(time.time_since_epoch()).count();
}

ElasticHosts HostsOf(HostAccess& access) {
  return {.add = [&access](const HostSlots& host) { access.AddHost(host); },
          .is_remote = [&access](const std::string& host) { return access.IsRemote(host); },
          .is_elsewhere = [&access](const std::string& host) { return access.IsElsewhere(host); }};
}

}  // namespace

int LaunchElastic(LaunchPlan plan) {
  const JobSpec spec = plan.spec;
  const ElasticPolicy policy = ElasticPolicyOf(spec, EpochSeconds(plan.began_wall));
  if (const Status status = CheckElasticPolicy(policy); !status.ok()) return Fail("run", status);
  Result<std::unique_ptr<Loop>> loop = Loop::Create();
  if (!loop.ok()) return Fail("run", loop.status());
  Result<std::unique_ptr<HostAccess>> access =
      HostAccess::OpenElastic(**loop, spec, AgentPath(spec), plan.spread);
  if (!access.ok()) return Fail("run", access.status());
  Result<std::unique_ptr<HostSource>> source = MakeHostSource(**loop, spec, &SayDiscovery);
  if (!source.ok()) return Fail("run", source.status());
  const ElasticHosts hosts = HostsOf(**access);
  return Fail("run", Status(ErrorCode::kNotSupported,
                            "elastic jobs (--min-np, --host-discovery-script) are not "
                            "supported by this version",
                            "leave those options out; --max-restarts N restarts the whole gang "
                            "after a failure"));
}

}  // namespace hvdray
