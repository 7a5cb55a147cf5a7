// SPDX-License-Identifier: Apache-2.0
// A whole elastic job around an ElasticDriver and a RankService on virtual time: fake hosts, agents
// and Horovod-like workers, and a watchman that notes every broken rule (ElasticInvariants, and
// those that take a view of the world). No threads, no clock.
#ifndef HVDRAY_TESTS_FAKES_ELASTIC_SIM_H_
#define HVDRAY_TESTS_FAKES_ELASTIC_SIM_H_

#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <queue>
#include <random>
#include <set>
#include <string>
#include <vector>

#include "launcher/driver/elastic_driver.h"
#include "launcher/driver/elastic_invariants.h"
#include "rendezvous/rank_service.h"

namespace hvdray {

/// How the fake world behaves. Times are upper ends of random ones where `Within` is said.
struct ElasticWorld {
  /// Workers train, commit, meet and end by themselves. Else only what a test calls happens, except
  /// that agents connect and newcomers arrive.
  bool is_alive = false;
  Duration connect{};      ///< Dial to Hello.
  Duration link_delay{};   ///< Within; each message, order is kept.
  Duration import_time{};  ///< Start to hvd.init().
  Duration init_time = std::chrono::milliseconds(50);
  Duration step_time = std::chrono::milliseconds(100);
  int steps = 20;  ///< Then all exit 0.
  Duration gloo_timeout = std::chrono::seconds(30);
  int notices_lost_of_10 = 0;
  int notices_doubled_of_10 = 0;
  int never_arrives_of_100 = 0;  ///< Newcomers that hang in their imports.
  int dies_early_of_100 = 0;     ///< Newcomers that exit 1 before they arrive.
  int ignores_sigterm_of_10 = 0;
  int dies_meeting_of_100 = 0;  ///< Workers that are killed within hvd.init(), each time.
};

/// A machine, as long as the job lasts.
struct FakeMachine {
  bool is_up = true;
  bool is_stuck_in_stop = false;  ///< Ends what it is told to, but never reports it.
  bool is_refusing = false;       ///< No agent starts.
  Duration loss_noticed_after{};
  Duration connect_later{};  ///< Beyond the world's.
};

class ElasticSim {
 public:
  ElasticSim(ElasticPolicy policy, ElasticWorld world, uint64_t seed = 1);
  ElasticSim(const ElasticSim&) = delete;
  ElasticSim& operator=(const ElasticSim&) = delete;

  // What happens in the world, now.
  void Discover(std::vector<HostSlots> hosts, bool is_final = false);
  void Exit(const std::string& host, int local_rank, wire::ExitStatus status);
  void Park(const std::string& host, int local_rank);
  /// Every living member that has not asked yet does, on all hosts or on one.
  void ParkAll(const std::string& only_host = "");
  void Register(const std::string& host, int local_rank);
  /// It neither trains, meets nor ends until it is killed.
  void Hang(const std::string& host, int local_rank);
  void CutOff(const std::string& host);  ///< Its workers die; the link breaks.
  void Leave(const std::string& host, Duration in);
  void Feed(const ElasticEvent& event);
  FakeMachine& machine(const std::string& host) { return machines_[host]; }
  void At(Duration moment, std::function<void()> run);

  /// Lets time pass.
  void Advance(Duration by);
  /// Until Finish, or until nothing is left that could happen, or `limit` after the start.
  bool Run(Duration limit = std::chrono::hours(24));

  const ElasticPolicy& policy() const { return policy_; }
  const ElasticDriver& driver() const { return *driver_; }
  const RankService& ranks() const { return ranks_; }
  bool has_finished() const { return verdict_.has_value(); }
  const Verdict& verdict() const { return *verdict_; }
  Duration elapsed() const { return now_ - TimePoint{}; }
  int size() const { return driver_->Snapshot().size; }
  Generation generation() const { return driver_->generation(); }
  /// In the published generation; -1: has none.
  int RankOf(const std::string& host, int local_rank) const;
  /// What rank_and_size last said to that slot.
  std::string AnswerOf(const std::string& host, int local_rank) const;
  bool IsAlive(const std::string& host, int local_rank) const;
  const std::vector<ElasticEffect>& effects() const { return effects_; }
  template <typename E>
  std::vector<E> All() const {
    std::vector<E> all;
    for (const ElasticEffect& effect : effects_) {
      if (const auto* one = std::get_if<E>(&effect)) all.push_back(*one);
    }
    return all;
  }
  /// Everything that the driver was told, and when.
  const std::vector<std::pair<TimePoint, ElasticEvent>>& facts() const { return facts_; }
  /// "meeting -> running": changes of the driver's state, in order.
  const std::vector<std::string>& changes() const { return changes_; }
  /// Every rule that was broken, in words. Empty at the end of a right run.
  const std::vector<std::string>& violations() const { return violations_; }
  std::vector<std::string> said() const;

 private:
  enum class Phase : uint8_t { kImporting, kAtGate, kIniting, kTraining, kParked, kDead };
  struct Worker {
    WorkerId id = kNoWorker;
    RankInfo place;
    int link = 0;  ///< Of its host, when it was started.
    Generation started_for = 0;
    Generation generation = 0;  ///< Released into; 0: not yet.
    Phase phase = Phase::kImporting;
    bool hangs = false;
    bool ignores_sigterm = false;
    bool has_state = false;
    bool has_registered = false;
    bool is_known_dead = false;   ///< As the driver was told.
    bool is_told_to_end = false;  ///< By the driver.
    int64_t notice = 0;           ///< Waits for the next commit.
    int64_t last_notice = 0;
    int step = 0;
    bool is_living() const { return phase != Phase::kDead; }
  };
  struct Host {
    std::string name;
    bool is_linked = false;
    bool is_known_ready = false;  ///< As the driver was told.
    int link = 0;                 ///< Counts its links: what an old one carries is lost.
    bool is_stopping = false;
    Generation stop_generation = 0;
    TimePoint up_free, down_free;
  };
  struct Gang {
    std::vector<WorkerId> members;
    int initing = 0;
    bool is_open = false;
    bool is_formed = false;
    bool is_broken = false;
  };
  struct Action {
    TimePoint when;
    uint64_t order;
    std::function<void()> run;
    bool operator>(const Action& other) const {
      return std::tie(when, order) > std::tie(other.when, other.order);
    }
  };

  void Schedule(Duration in, std::function<void()> run);
  bool RunOne(TimePoint until);
  void Report(int host, std::function<void()> run);
  void ToAgent(int host, std::function<void()> run);
  Duration Within(Duration most);
  bool Chance(int hits, int of) { return static_cast<int>(random_() % of) < hits; }
  void Break(std::string rule) { violations_.push_back(std::move(rule)); }
  Worker* Find(const std::string& host, int local_rank);
  const Worker* Find(const std::string& host, int local_rank) const;
  void KnowDead(Worker& worker);

  void Apply(const effect::ConnectHost& e);
  void Apply(const effect::ReleaseHost& e);
  void Apply(const effect::StartWorkers& e);
  void Apply(const effect::PublishGeneration& e);
  void Apply(const effect::OpenBarrier& e);
  void Apply(const effect::StopWorkers& e);
  void Apply(const effect::BreakConnections& e);
  void Apply(const effect::Notify& e);
  void Apply(const effect::MembershipChanged&) {}
  void Apply(const effect::StopGeneration& e);
  void Apply(const effect::Say&) {}
  void Apply(const effect::Finish& e);
  void CheckSteps(const effect::PublishGeneration& e);

  // The life of a worker (elastic_sim_workers.cc).
  void Spawn(WorkerId id);
  void ReachInit(WorkerId id);
  void BeginInit(WorkerId id, Generation generation);
  void Form(Generation generation);
  /// Nobody of it has seen another's addresses, nor will before the driver says so.
  bool IsHeldApart(Generation generation);
  void TellConnected(WorkerId id);
  void Step(Generation generation);
  void BreakGang(Generation generation, WorkerId dead);
  void Raise(WorkerId id, Generation generation, Duration in);
  void Ask(WorkerId id);
  void TakeAnswer(WorkerId id, const std::string& text, Generation generation);
  void TakeNotice(WorkerId id, int64_t timestamp);
  void EndWorker(WorkerId id, wire::ExitStatus status);
  void Terminate(WorkerId id, Duration grace);
  void MaybeReportStopped(int host);

  const ElasticPolicy policy_;
  const ElasticWorld world_;
  std::mt19937_64 random_;
  TimePoint now_;
  uint64_t order_ = 0;
  std::priority_queue<Action, std::vector<Action>, std::greater<>> queue_;
  std::unique_ptr<ElasticDriver> driver_;
  ElasticInvariants invariants_;
  std::vector<std::pair<TimePoint, ElasticEvent>> facts_;
  RankService ranks_;
  uint64_t next_question_ = 0;
  std::map<std::string, FakeMachine> machines_;
  std::map<int, Host> hosts_;
  std::vector<Worker> workers_;  // By number.
  std::map<Generation, Gang> gangs_;
  std::map<std::string, std::string> answers_;  // By slot.
  effect::PublishGeneration published_{};
  std::set<WorkerId> released_;  // Ever in a published generation.
  std::optional<Verdict> verdict_;
  std::vector<ElasticEffect> effects_;
  std::vector<std::string> changes_, violations_;
};

}  // namespace hvdray

#endif  // HVDRAY_TESTS_FAKES_ELASTIC_SIM_H_
