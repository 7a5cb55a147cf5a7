// SPDX-License-Identifier: Apache-2.0
// The gangs of one agent: one at a time in a job of fixed size; side by side in an elastic job, one
// for each StartGeneration. Detects stale requests. docs/adr/0010-gangs-side-by-side.md.
#ifndef HVDRAY_AGENT_GANG_SET_H_
#define HVDRAY_AGENT_GANG_SET_H_

#include <algorithm>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "agent/connection_breaker.h"
#include "agent/local_gang.h"
#include "base/loop.h"
#include "rendezvous/relay.h"

namespace hvdray {

/// Owns the gangs. Workers are identified by WorkerSlot::name(). Threads: the loop's.
class GangSet final : private LocalGang::Owner {
 public:
  /// The same for all gangs of the job.
  struct Options {
    std::string job_id;
    std::string cgroup_directory;  ///< Exists and is ours; empty: gangs get no cgroup.
    bool is_elastic = false;
    bool keeps_processes = false;  ///< See LocalGang::Options.
    NodeShare node;
  };

  class Owner {
   public:
    virtual void OnReaped(int worker) = 0;
    /// No process of that generation or an earlier one is left; `swept`: orphans killed. In a job
    /// of fixed size: when a gang has ended. In an elastic job: the answer to Stop(), maybe from
    /// within it.
    virtual void OnStopped(Generation generation, uint32_t swept) = 0;
    /// The last gang has ended, for any reason.
    virtual void OnIdle() = 0;

   protected:
    ~Owner() = default;
  };
  /// Loop, link, relay and owner outlive it.
  GangSet(Loop& loop, wire::Link& link, Relay& relay, Options options, Owner& owner)
      : loop_(loop), link_(link), relay_(relay), options_(std::move(options)), owner_(owner) {}
  ~GangSet();

  /// Forks the workers. Drops and counts a request of a generation that was stopped or, in a job of
  /// fixed size, started before. Errors: kProtocolError.
  Status Start(Generation generation, wire::StartGeneration start);
  /// Does the imports of `start` now, for workers that come later. Answers by Warmed in generation
  /// 0, once for each call. Errors: kProtocolError.
  Status Warm(wire::StartGeneration start);
  /// Stops the workers of that generation and of earlier ones; OnStopped() answers. May be repeated
  /// with less grace. A generation that never started here counts as stopped.
  void Stop(Generation generation, Duration grace);
  /// Elastic job: stops these workers alone, in all gangs.
  void StopWorkers(const wire::StopWorkers& stop);
  /// Signals one worker of that generation, or (-1) all workers of it and of earlier ones.
  void Signal(Generation generation, int worker, int signo);
  /// The link is lost, or the agent leaves: stops all gangs and drops their output.
  void StopAll(Duration grace);
  void OnOutputRoom();
  /// The gang of that generation with that worker (-1: any); counts a nullptr as stale.
  LocalGang* Find(Generation generation, int worker);

  bool is_empty() const { return gangs_.empty(); }
  /// The launcher ends all gangs, or there is none.
  bool is_ending() const {
    return std::ranges::all_of(gangs_, [](const auto& gang) { return gang->is_ending(); });
  }
  /// Whether a generation was started or stopped here.
  bool has_begun() const { return last_generation_ > 0; }
  bool IsStale(Generation generation) const { return generation <= last_generation_; }
  void CountStale() { ++stale_requests_; }
  uint64_t stale_requests() const { return stale_requests_; }
  /// Workers of `generation` (started in it, or moved to it by rank_and_size) that are not reaped.
  /// Their pidfds belong to this object and are valid until the next turn of the loop.
  std::vector<LivingWorker> LivingOf(Generation generation) const;

 private:
  Result<uint16_t> OpenRelay(const LocalGang& gang, const wire::WorkerSlot& slot) override;
  void CloseRelay(int worker) override;
  ForkServer* FindServer(const ForkServerPlan& plan, Generation generation,
                         Duration limit) override;
  bool IsOurs(pid_t pid) const override;
  bool HasSiblings() const override { return gangs_.size() > 1; }
  void OnStopped(LocalGang& gang, uint32_t swept) override;
  void OnWarmed(Generation generation, const wire::Warmed& result);
  bool IsRunningUpTo(Generation generation) const;

  Loop& loop_;
  wire::Link& link_;
  Relay& relay_;
  const Options options_;
  Owner& owner_;
  std::unique_ptr<ForkServer> server_;  ///< Outlives the gangs that wait for its answers.
  wire::Warmed warmed_;                 ///< Its result, once it is settled.
  uint32_t warm_owed_ = 0;              ///< Answers to Warm() that wait for it.
  int lost_servers_ = 0;
  bool is_ending_ = false;
  std::vector<std::unique_ptr<LocalGang>> gangs_;
  Generation last_generation_ = 0;  ///< Fixed size: last started or stopped; elastic: last stopped.
  Generation stopping_ = 0;         ///< Elastic: of a Stop() without an answer yet.
  uint32_t swept_ = 0;              ///< Elastic: since the last answer.
  uint32_t started_ = 0;            ///< Elastic: makes cgroup names unique.
  uint64_t stale_requests_ = 0;
};

}  // namespace hvdray

#endif  // HVDRAY_AGENT_GANG_SET_H_
