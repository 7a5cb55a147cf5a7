// SPDX-License-Identifier: Apache-2.0
// A whole job around a GangDriver on virtual time: fake agents and workers behind ordered links
// with delays, and a watchman that notes every broken rule. No threads, no clock, no sleeping.
#ifndef HVDRAY_TESTS_FAKES_SIM_H_
#define HVDRAY_TESTS_FAKES_SIM_H_

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <queue>
#include <random>
#include <string>
#include <vector>

#include "launcher/driver/gang_driver.h"

namespace hvdray {

/// What a fake worker does with its life. Applies to every generation unless `only_generation` is
/// set.
struct WorkerPlan {
  std::optional<Duration> ends_after;  ///< nullopt: never by itself.
  wire::ExitStatus status;             ///< How it then ends. stage != kNone: it is never started.
  bool ignores_sigterm = false;
  std::optional<int> exit_code_on_sigterm;  ///< Else it dies of SIGTERM.
  Generation only_generation = 0;           ///< 0: all; else it exits 0 after 10 ms in the others.
  LastError error = {};                     ///< What it wrote by then; told just before its end.
  Duration erred_before{};                  ///< How long before its end it wrote that.
};

struct HostPlan {
  std::optional<Duration> ready_after = std::chrono::milliseconds(5);  ///< nullopt: never.
  std::optional<Duration> lost_after;                                  ///< From the job's start.
  Duration loss_noticed_after{};  ///< How long the launcher takes to see it.
  Status why_lost{ErrorCode::kAgentLost, "the link closed"};
  bool is_stuck_in_stop = false;   ///< Kills, but never reports GenerationStopped.
  bool is_stuck_in_start = false;  ///< Takes StartGeneration and reports nothing.
  Duration output_drain = std::chrono::milliseconds(1);  ///< From last death to GenerationStopped.
  uint32_t orphans = 0;
};

class Sim {
 public:
  Sim(GangPolicy policy, std::vector<HostSlots> hosts, uint64_t seed = 1);
  Sim(const Sim&) = delete;
  Sim& operator=(const Sim&) = delete;

  WorkerPlan& worker(int rank) { return worker_plans_[rank]; }
  HostPlan& host(int index) { return host_plans_[index]; }
  /// All links delay each message by up to this; order within a link is kept.
  void set_link_delay(Duration most) { link_delay_ = most; }
  /// Feeds the driver at a moment counted from the start of the job.
  void At(Duration moment, Event event);
  /// Runs until Finish, or until nothing is left that could happen. Returns whether it finished.
  bool Run();

  const GangPolicy& policy() const { return policy_; }
  const Verdict& verdict() const { return *verdict_; }
  bool has_finished() const { return verdict_.has_value(); }
  Duration elapsed() const { return now_ - TimePoint{}; }
  const std::vector<std::string>& said() const { return said_; }
  /// "connecting -> starting": changes of the gang's state, in order.
  const std::vector<std::string>& gang_changes() const { return gang_changes_; }
  const std::vector<effect::StartGeneration>& starts() const { return starts_; }
  const std::vector<effect::StopGeneration>& stops() const { return stops_; }
  GangDriver& driver() { return driver_; }
  /// Every rule that was broken, in words. Empty at the end of a right run.
  const std::vector<std::string>& violations() const { return violations_; }
  /// Every event that the driver was fed before it finished, with its moment, in order.
  const std::vector<std::pair<Duration, Event>>& fed() const { return fed_; }

 private:
  struct FakeWorker {
    Generation generation = 0;
    bool is_alive = false;
    bool was_signalled = false;
  };
  struct FakeHost {
    bool is_lost = false;
    bool is_loss_known = false;  ///< Until then, what was sent before still arrives.
    Generation generation = 0;   ///< Of the workers it has or had.
    bool has_reported_stop = true;
    bool is_stopping = false;
    TimePoint kill_at;
    TimePoint up_link_free, down_link_free;  ///< No message may overtake an earlier one.
    std::vector<int> ranks;
  };
  struct Action {
    TimePoint when;
    uint64_t order;
    std::function<void()> run;
    bool operator>(const Action& other) const {
      return std::tie(when, order) > std::tie(other.when, other.order);
    }
  };

  void Schedule(TimePoint when, std::function<void()> run);
  void Feed(const Event& event);
  void Apply(const Effect& effect);
  void Apply(const effect::StartGeneration& start);
  void Apply(const effect::StopGeneration& stop);
  void Apply(const effect::Say& say);
  void Apply(const effect::Finish& finish);
  /// From the agent of `host` to the driver, unless the host is lost by then.
  void Report(int host, Event event);
  void ToAgent(int host, std::function<void()> run);
  void StartWorkers(int host, Generation generation);
  void StopWorkers(int host, Generation generation, Duration grace);
  void EndWorker(int rank, Generation generation, wire::ExitStatus status);
  void MaybeReportStopped(int host);
  void LoseHost(int host);
  void Break(std::string rule) { violations_.push_back(std::move(rule)); }
  Duration Random(Duration most);

  const GangPolicy policy_;
  std::mt19937_64 random_;
  TimePoint now_;
  uint64_t order_ = 0;
  Duration link_delay_ = std::chrono::milliseconds(1);
  std::priority_queue<Action, std::vector<Action>, std::greater<>> queue_;
  std::vector<RankInfo> ranks_;
  GangDriver driver_;
  std::map<int, HostPlan> host_plans_;
  std::vector<WorkerPlan> worker_plans_;
  std::map<int, FakeHost> hosts_;
  std::vector<FakeWorker> workers_;
  std::optional<Verdict> verdict_;
  std::vector<std::string> said_, gang_changes_, violations_;
  std::vector<effect::StartGeneration> starts_;
  std::vector<effect::StopGeneration> stops_;
  std::vector<std::pair<Duration, Event>> fed_;
};

}  // namespace hvdray

#endif  // HVDRAY_TESTS_FAKES_SIM_H_
