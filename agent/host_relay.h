// SPDX-License-Identifier: Apache-2.0
// The host's relay with its way to the launcher: its questions leave as KvRequest, and KvReply and
// KvReset reach it.
//
// What always holds: each question leaves at once, as one message, in the relay's order; a value
// leaves deflated only if the launcher takes that and it saves a quarter.
#ifndef HVDRAY_AGENT_HOST_RELAY_H_
#define HVDRAY_AGENT_HOST_RELAY_H_

#include "base/loop.h"
#include "base/result.h"
#include "rendezvous/relay.h"
#include "wire/link.h"
#include "wire/message.h"

namespace hvdray {

/// Owns the relay. Threads: the loop's.
class HostRelay final : private KvUpstream {
 public:
  /// With the settings of `welcome`. Loop and link outlive it.
  HostRelay(Loop& loop, wire::Link& link, const wire::Welcome& welcome);

  Relay& relay() { return relay_; }
  const Relay& relay() const { return relay_; }
  /// A value of another host's agent that can't be inflated reaches the reader as an empty one,
  /// which fails at once. Always ok.
  Status On(Generation generation, wire::KvReply&& reply);
  Status On(Generation generation, wire::KvReset&& reset);

 private:
  void Ask(KvQuestion question) override;
  void Arrived(int worker) override;

  wire::Link& link_;
  const bool takes_deflated_;
  Relay relay_;
};

}  // namespace hvdray

#endif  // HVDRAY_AGENT_HOST_RELAY_H_
