// SPDX-License-Identifier: Apache-2.0
#include "cluster/ray/slots_serve.h"

#include <fcntl.h>
#include <poll.h>

#include <chrono>
#include <csignal>
#include <memory>
#include <string>
#include <string_view>
#include <utility>

#include "base/byte_stream.h"
#include "base/digest.h"
#include "base/log.h"
#include "base/loop.h"
#include "cluster/ray/ray_slots.h"
#include "launcher/engine/driver_policies.h"
#include "launcher/engine/host_source.h"
#include "launcher/engine/job_console.h"
#include "launcher/engine/open_job.h"
#include "launcher/job/exit_code.h"
#include "launcher/job/ray_job_file.h"
#include "launcher/plan/host_access.h"
#include "launcher/plan/launch_plan.h"
#include "launcher/plan/run_on_hosts.h"

namespace hvdray {
namespace {

// How often a client that waits for slots is looked for.
constexpr Duration kClientLook = std::chrono::milliseconds(100);
constexpr size_t kKeyBytes = 32;

bool HasHungUp(int socket) {
  pollfd state = {.fd = socket, .events = POLLRDHUP, .revents = 0};
  return ::poll(&state, 1, 0) > 0;
}

/// `hvdray serve` on slots of Ray.
class RayServe {
 public:
  /// `broker`: the socket to what reserves slots.
  RayServe(Loop& loop, LaunchPlan plan, ServeOptions options, UniqueFd broker)
      : loop_(loop),
        spec_(plan.spec),
        plan_(std::move(plan)),
        options_(std::move(options)),
        slots_(loop, spec_,
               {.job_id = plan_.job_id,
                .key = Hex(RandomBytes(kKeyBytes)),
                .can_grow = true,
                .agent_path = "@agent:" + AgentPath(spec_)},
               StreamOf(loop, std::move(broker)), MakeHandlers()) {
    plan_.environment = EnvironmentForRay(spec_, plan_.environment);
    AdaptPlanToRay(&plan_);
  }

  /// Returns the exit code.
  int Run() {
    const Status ready = Prepare();
    if (has_left_) return 0;
    if (!ready.ok()) return Refuse(ready);
    return spec_.is_elastic() ? RunElastic() : RunFixed();
  }

 private:
  static std::unique_ptr<ByteStream> StreamOf(Loop& loop, UniqueFd socket) {
    UniqueFd output(::fcntl(socket.get(), F_DUPFD_CLOEXEC, 0));
    return MakeFdStream(loop, std::move(socket), std::move(output));
  }

  RaySlots::Handlers MakeHandlers() {
    RaySlots::Handlers handlers;
    handlers.on_hello = [this](const BrokerHello& hello) {
      // Else workers start where this program is, if that is there.
      if (hello.has_directory) plan_.current_directory.clear();
      return Status();
    };
    handlers.say = [this](std::string_view line) { Say(line); };
    // Ray ends the agents now; those that still hear us stop in good order.
    handlers.on_closed = [this](const Status&) {
      if (running_ != nullptr) running_->StopBy(SIGTERM);
    };
    return handlers;
  }

  void Say(std::string_view line) {
    if (*spec_.is_quiet) return;
    running_ != nullptr ? running_->Say(line) : Tell(LogLevel::kInfo, "hvdray", line);
  }

  /// Until slots are there, or the client has gone.
  Status Prepare() {
    const Watch look = loop_.Every(kClientLook, [this] {
      if (!options_.socket.is_valid() || !HasHungUp(options_.socket.get())) return;
      has_left_ = true;
      slots_.GiveUp({ErrorCode::kCancelled, "the client has gone"});
    });
    HVDRAY_RETURN_IF_ERROR(CheckExec(plan_));
    HVDRAY_RETURN_IF_ERROR(slots_.Join());
    if (spec_.is_elastic()) return CheckElasticPolicy(ToElasticPolicy(spec_, plan_.began_wall));
    HVDRAY_ASSIGN_OR_RETURN(const RayPlacement placement, slots_.Reserve());
    return PlaceStatic(placement, &plan_);
  }

  int Refuse(const Status& why) {
    if (!options_.socket.is_valid()) return Fail("serve", why);
    RefuseClient(options_.socket.get(), why, kHvdrayFailed);
    return kHvdrayFailed;
  }

  int RunFixed() {
    Transport& transport = slots_.Start(plan_);
    plan_.place.held_up = [this] { return slots_.HeldUp(); };
    Trace trace = BeginTrace(plan_, Names(plan_.hosts));
    return RunToEnd(trace, OpenJob(loop_, {transport}, trace, plan_, std::move(options_)));
  }

  int RunElastic() {
    RaySlots::RayHostHandlers handlers;
    handlers.say = [this](std::string_view line) { Say(line); };
    handlers.on_leaving = [this](const std::string& host, Duration in) {
      if (running_ != nullptr) running_->HostLeaves(host, in);
    };
    JobReach reach = slots_.Offer(std::move(handlers), plan_.spread);
    ToldHosts told(loop_);
    if (*spec_.are_hosts_told) {
      slots_.Limit({});
      HostSource::Handlers limits;
      limits.on_hosts = [this](const std::vector<HostSlots>& hosts, bool) { slots_.Limit(hosts); };
      if (const Status started = told.Start(std::move(limits)); !started.ok())
        return Refuse(started);
    }
    Trace trace = BeginTrace(plan_, /*hosts=*/{});
    if (*spec_.are_hosts_told) reach.told = &told;
    return RunToEnd(trace, OpenJob(loop_, reach, trace, plan_, std::move(options_)));
  }

  int RunToEnd(Trace& trace, const Result<std::unique_ptr<Launcher>>& launcher) {
    if (!launcher.ok()) return Fail("serve", launcher.status());
    running_ = launcher->get();
    return hvdray::RunToEnd(*running_, spec_, CalledAs::kHvdray, plan_.environment, trace,
                            [this] { running_ = nullptr; });
  }

  Loop& loop_;
  const JobSpec spec_;
  LaunchPlan plan_;
  ServeOptions options_;
  Launcher* running_ = nullptr;
  bool has_left_ = false;
  RaySlots slots_;
};

}  // namespace

int ServeOnSlots(LaunchPlan plan, ServeOptions options, UniqueFd broker) {
  Result<std::unique_ptr<Loop>> loop = Loop::Create();
  if (!loop.ok()) return Fail("serve", loop.status());
  ::signal(SIGPIPE, SIG_IGN);
  return RayServe(**loop, std::move(plan), std::move(options), std::move(broker)).Run();
}

}  // namespace hvdray
