// SPDX-License-Identifier: Apache-2.0
// How an elastic job's launcher reaches the workers of this host that go on: it breaks their
// connections, so that they notice a loss at once, and sends them notices.
//
// What always holds: only workers that are not reaped and that the relay knows are touched.
#ifndef HVDRAY_AGENT_SURVIVORS_H_
#define HVDRAY_AGENT_SURVIVORS_H_

#include "agent/connection_breaker.h"
#include "agent/gang_set.h"
#include "agent/notifier.h"
#include "base/loop.h"
#include "rendezvous/relay.h"
#include "wire/link.h"
#include "wire/message.h"

namespace hvdray {

/// Threads: the loop's.
class Survivors {
 public:
  /// All of them outlive it.
  Survivors(Loop& loop, wire::Link& link, Relay& relay, const GangSet& gangs)
      : link_(link), relay_(relay), gangs_(gangs), notifier_(loop) {}

  /// Shuts the Gloo connections of that generation's workers and answers. Blocks for milliseconds,
  /// see ConnectionBreaker.
  void Break(Generation generation);
  /// Drops a notice for a worker that has not registered, or is dead, and logs one that is lost:
  /// the launcher repeats it.
  void Send(const wire::Notify& notice);
  /// The process was reaped.
  void Forget(int worker) { notifier_.Forget(worker); }

 private:
  wire::Link& link_;
  Relay& relay_;
  const GangSet& gangs_;
  Notifier notifier_;
  ConnectionBreaker breaker_;
};

}  // namespace hvdray

#endif  // HVDRAY_AGENT_SURVIVORS_H_
