// SPDX-License-Identifier: Apache-2.0
#include "cluster/ray/ray_stop.h"

#include <fmt/format.h>

#include <chrono>
#include <csignal>
#include <functional>
#include <memory>
#include <utility>

#include "base/blocking_pool.h"
#include "base/log.h"
#include "base/loop.h"
#include "cluster/ray/ray_stop_plan.h"
#include "launcher/engine/signals.h"
#include "launcher/job/exit_code.h"
#include "launcher/job/option_layers.h"

namespace hvdray {
namespace {

constexpr Duration kPace = std::chrono::milliseconds(500);
// An answer that does not come must not hold up the end.
constexpr Duration kAnswerPatience = std::chrono::milliseconds(100);

/// Looks, asks Ray to stop, waits, until all jobs are over, or the user leaves.
class Stopper {
 public:
  Stopper(Loop& loop, RayAccess access, StopPlan plan)
      : loop_(loop),
        pool_(loop, kAnswerPatience),
        client_(std::make_shared<DashboardClient>(std::move(access))),
        plan_(std::move(plan)) {
    signals_ = std::make_unique<UserSignals>(
        loop, SignalHandlers{.on_stop = [this](int signo) { OnSignal(signo); }});
  }

  Result<int> Run() {
    Look();
    loop_.Run();
    return std::move(end_);
  }

 private:
  void Look() {
    pool_.Run<Result<std::vector<RayJob>>>([client = client_] { return client->ListJobs(); },
                                           [this](Result<std::vector<RayJob>> jobs) {
                                             if (!jobs.ok()) return End(std::move(jobs).status());
                                             OnJobs(*jobs);
                                           });
  }

  void OnJobs(const std::vector<RayJob>& jobs) {
    Result<StopPlan::Step> step = plan_.OnLook(jobs, TimePoint(std::chrono::steady_clock::now()));
    if (!step.ok()) return End(std::move(step).status());
    std::string text;
    for (const std::string& line : step->lines) text += line + "\n";
    const int code = text.empty() ? 0 : PrintOut("stop", text);
    if (code != 0 || step->is_done) return End(code);
    if (step->to_stop.empty()) {
      timer_ = loop_.After(kPace, [this] { Look(); });
      return;
    }
    pool_.Run<Status>(
        [client = client_, ids = std::move(step->to_stop)] {
          for (const std::string& id : ids) {
            const Result<bool> stopped = client->StopJob(id);
            if (!stopped.ok()) return Status(stopped.status()).WithContext("stop job " + id);
          }
          return Status();
        },
        [this](Status status) {
          if (!status.ok()) return End(std::move(status));
          timer_ = loop_.After(kPace, [this] { Look(); });
        });
  }

  void OnSignal(int signo) {
    const std::string waited = plan_.WaitsFor();
    if (has_signal_ || signo != SIGINT || waited.empty()) return End(128 + signo);
    has_signal_ = true;
    Tell(LogLevel::kWarning, "hvdray stop",
         fmt::format("waiting for {}; Ctrl-C again leaves it to end alone", waited));
  }

  void End(Result<int> end) {
    end_ = std::move(end);
    loop_.Stop();
  }

  Loop& loop_;
  BlockingPool pool_;
  const std::shared_ptr<DashboardClient> client_;  // with the call that runs
  StopPlan plan_;
  std::unique_ptr<UserSignals> signals_;
  Watch timer_;
  bool has_signal_ = false;
  Result<int> end_ = 0;
};

}  // namespace

Result<int> StopRayJobs(const CommandRequest& request, RayAccess ray,
                        std::vector<std::string> ids) {
  HVDRAY_ASSIGN_OR_RETURN(const Duration limit,
                          ToDuration(OptionId::kTimeout, request.Get(OptionId::kTimeout)));
  HVDRAY_ASSIGN_OR_RETURN(const std::unique_ptr<Loop> loop, Loop::Create());
  const std::string url = ray.address.Shown();
  Result<int> code = Stopper(*loop, std::move(ray), StopPlan(std::move(ids), limit)).Run();
  if (code.ok()) return code;
  return std::move(code).status().WithContext(url);
}

}  // namespace hvdray
