// SPDX-License-Identifier: Apache-2.0
// What a relay's decisions ask of its caller.
#ifndef HVDRAY_RENDEZVOUS_RELAY_ACTIONS_H_
#define HVDRAY_RENDEZVOUS_RELAY_ACTIONS_H_

#include <cstdint>
#include <deque>

#include "rendezvous/kv_upstream.h"

namespace hvdray {

/// The answer to a request. Status 0: close its connection without an answer.
struct RelayReply {
  uint64_t request = 0;
  int status = 0;
  KvValue body;
};

/// What the caller must do now: first send the questions, in this order, then the replies.
/// `arrivals`: workers that have reached their first hvd.init() ahead of the store, each once. The
/// caller removes items as it handles them; the core only appends.
struct RelayActions {
  std::deque<KvQuestion> questions;
  std::deque<RelayReply> replies;
  std::deque<int> arrivals;
};

}  // namespace hvdray

#endif  // HVDRAY_RENDEZVOUS_RELAY_ACTIONS_H_
