// The gangs of one agent: one at a time in a job of fixed size; in an elastic one side by side,
// each with the workers that one order has started. Knows which orders are out of date.
#ifndef HVDRAY_AGENT_GANG_SET_H_
#define HVDRAY_AGENT_GANG_SET_H_

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "agent/connection_breaker.h"
#include "agent/local_gang.h"
#include "base/loop.h"
#include "rendezvous/relay.h"

namespace hvdray {

struct GangSetOptions {
  std::string job_id;
  std::string cgroup_folder;  ///< Exists and is ours; empty: gangs get no cgroup.
  bool is_elastic = false;
  NodeShare node;
};

/// Threads: the loop's.
class GangSet {
 public:
  struct Handlers {
    std::function<void(Generation, wire::Body)> send;
    std::function<bool()> has_output_room;
    std::function<void(int worker)> on_reaped;
    /// Nothing of that generation and of earlier ones is left. In a job of fixed size: whenever a
    /// gang has ended; in an elastic one: the answer to Stop(). Then the agent may be idle.
    std::function<void(Generation, uint32_t swept)> on_stopped;
    /// The last gang is gone, whatever was asked.
    std::function<void()> on_idle;
  };
  /// Loop and relay outlive it.
  GangSet(Loop& loop, Relay& relay, GangSetOptions options, Handlers handlers);

  /// Forks the workers. An order of a generation that has been stopped, or in a job of fixed size
  /// has begun, is dropped and counted. Errors: kProtocolError.
  Status Start(Generation generation, wire::StartGeneration start);
  /// Ends all that is of that generation or earlier. May be repeated with less grace. One that
  /// never began here counts as ended.
  void Stop(Generation generation, Duration grace);
  void StopWorkers(const wire::StopWorkers& stop);
  /// To one worker of that generation, or (-1) to all workers of it and of earlier ones.
  void Signal(Generation generation, int worker, int signo);
  /// The link is gone, or we leave: ends everything; what it writes is dropped.
  void StopAll(Duration grace);
  void OnOutputRoom();
  /// The gang of that generation with that worker (-1: any); nullptr is counted as stale.
  LocalGang* Find(Generation generation, int worker);

  bool is_empty() const { return gangs_.empty(); }
  /// A generation was started or stopped here.
  bool has_begun() const { return last_generation_ > 0; }
  bool IsStale(Generation generation) const { return generation <= last_generation_; }
  void CountStale() { ++stale_requests_; }
  uint64_t stale_requests() const { return stale_requests_; }
  /// Workers of `generation` (started or released into it) that are not reaped. The pidfds stay
  /// ours.
  std::vector<LivingWorker> LivingOf(Generation generation) const;

 private:
  void OnGangStopped(LocalGang* gang, uint32_t swept);
  LocalGang::Handlers HandlersOf(Generation generation);
  bool IsRunningUpTo(Generation generation) const;

  Loop& loop_;
  Relay& relay_;
  const GangSetOptions options_;
  Handlers handlers_;
  std::vector<std::unique_ptr<LocalGang>> gangs_;
  Generation last_generation_ = 0;  ///< Fixed size: started or stopped last; elastic: stopped last.
  Generation stopping_ = 0;         ///< Elastic: a Stop() that is not answered yet.
  uint32_t swept_ = 0;              ///< Elastic: since the last answer.
  uint32_t started_ = 0;            ///< Names the cgroups.
  uint64_t stale_requests_ = 0;
};

}  // namespace hvdray

#endif  // HVDRAY_AGENT_GANG_SET_H_
