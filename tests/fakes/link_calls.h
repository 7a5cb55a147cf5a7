// SPDX-License-Identifier: Apache-2.0
// The owner of a link whose reactions a test sets, one by one.
#ifndef HVDRAY_TESTS_FAKES_LINK_CALLS_H_
#define HVDRAY_TESTS_FAKES_LINK_CALLS_H_

#include <functional>
#include <utility>

#include "wire/link.h"

namespace hvdray::wire {

/// Ignores what has no function.
class LinkCalls final : public Link::Owner {
 public:
  void OnMessage(Message&& message) override {
    if (on_message) on_message(std::move(message));
  }
  void OnClosed(Status why) override {
    if (on_closed) on_closed(std::move(why));
  }
  void OnOutputRoom() override {
    if (on_output_room) on_output_room();
  }
  void OnControlRoom() override {
    if (on_control_room) on_control_room();
  }
  void OnNoise(ByteView line) override {
    if (on_noise) on_noise(line);
  }

  std::function<void(Message&&)> on_message;
  std::function<void(Status)> on_closed;
  std::function<void()> on_output_room;
  std::function<void()> on_control_room;
  std::function<void(ByteView)> on_noise;
};

}  // namespace hvdray::wire

#endif  // HVDRAY_TESTS_FAKES_LINK_CALLS_H_
