// SPDX-License-Identifier: Apache-2.0
// The agent's work for an elastic job beyond starting and stopping workers: delivers notices to
// them, and frees the survivors of a loss.
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
  /// Loop, relay and gangs outlive it. `send` queues a message to the launcher.
  ElasticDuties(Loop& loop, Relay& relay, GangSet& gangs, SendFn send)
      : relay_(relay), gangs_(gangs), send_(std::move(send)), notifier_(loop) {}

  /// Shuts the Gloo connections of that generation's workers and sends ConnectionsBroken. Blocks
  /// for milliseconds, see ConnectionBreaker.
  void Break(Generation generation);
  /// Sends the notice if the worker has registered. Logs a lost notice; the launcher repeats it.
  void Notify(const wire::Notify& notice);
  /// Drops pending notices to that worker.
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
