// SPDX-License-Identifier: Apache-2.0
// A link without a peer: what is sent goes to the test.
#ifndef HVDRAY_TESTS_FAKES_FAKE_LINK_H_
#define HVDRAY_TESTS_FAKES_FAKE_LINK_H_

#include <functional>
#include <utility>

#include "wire/link.h"

namespace hvdray::wire {

/// Never closes and queues nothing; is full while `has_room` is false.
class FakeLink : public Link {
 public:
  explicit FakeLink(std::function<void(Message)> on_send) : on_send_(std::move(on_send)) {}
  void Start(Owner& /*owner*/) override {}
  void Send(Message message) override { on_send_(std::move(message)); }
  bool HasOutputRoom() const override { return has_room; }
  bool HasControlRoom() const override { return has_room; }
  void StartHeartbeat(Duration /*period*/, Duration /*timeout*/) override {}
  void Close(Bye /*bye*/, Duration /*deadline*/, std::function<void()> /*on_done*/) override {}
  size_t QueuedBytes() const override { return 0; }
  bool IsTimedOut() const override { return false; }

  bool has_room = true;

 private:
  const std::function<void(Message)> on_send_;
};

}  // namespace hvdray::wire

#endif  // HVDRAY_TESTS_FAKES_FAKE_LINK_H_
