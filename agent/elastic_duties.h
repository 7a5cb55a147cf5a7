// What an agent does for the workers of an elastic job beside starting and ending them: takes
// notices to them, and frees the survivors of a loss.
#ifndef HVDRAY_AGENT_ELASTIC_DUTIES_H_
#define HVDRAY_AGENT_ELASTIC_DUTIES_H_

#include <functional>

#include "agent/connection_breaker.h"
#include "agent/gang_set.h"
#include "agent/notifier.h"
#include "base/loop.h"
#include "rendezvous/relay.h"
#include "wire/message.h"

namespace hvdray {

/// Threads: the loop's.
class ElasticDuties {
 public:
  using SendFn = std::function<void(Generation, wire::Body)>;
  /// All outlive it.
  ElasticDuties(Loop& loop, Relay& relay, GangSet& gangs, SendFn send)
      : relay_(relay), gangs_(gangs), send_(std::move(send)), notifier_(loop) {}

  /// Shuts the connections between workers of that generation; answers with ConnectionsBroken.
  /// Blocks for milliseconds, see ConnectionBreaker.
  void Break(Generation generation);
  /// Tells the worker, if it has registered; what is lost is logged and not repeated here.
  void Notify(const wire::Notify& notice);
  void OnReaped(int worker) { notifier_.Forget(worker); }

 private:
  Relay& relay_;
  GangSet& gangs_;
  SendFn send_;
  Notifier notifier_;
  ConnectionBreaker breaker_;
};

}  // namespace hvdray

#endif  // HVDRAY_AGENT_ELASTIC_DUTIES_H_
