// What an agent does for the workers of an elastic job beside starting and ending them: takes
// notices to them, and frees the survivors of a loss.
#ifndef HVDRAY_LAUNCHER_AGENT_ELASTIC_DUTIES_H_
#define HVDRAY_LAUNCHER_AGENT_ELASTIC_DUTIES_H_

#include <functional>

#include "base/loop.h"
#include "launcher/agent/connection_breaker.h"
#include "launcher/agent/gang_set.h"
#include "launcher/agent/notifier.h"
#include "launcher/wire/message.h"
#include "rendezvous/relay.h"

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

#endif  // HVDRAY_LAUNCHER_AGENT_ELASTIC_DUTIES_H_
