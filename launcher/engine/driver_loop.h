// SPDX-License-Identifier: Apache-2.0
// Connects a driver, which is pure, to the event loop: facts in, effects out, and its timer.
#ifndef HVDRAY_LAUNCHER_ENGINE_DRIVER_LOOP_H_
#define HVDRAY_LAUNCHER_ENGINE_DRIVER_LOOP_H_

#include <deque>
#include <functional>
#include <optional>
#include <utility>

#include "base/loop.h"
#include "launcher/driver/events.h"

namespace hvdray {

/// Feeds facts to a driver one by one and applies the effects of each before the next; facts that
/// arrive meanwhile are queued. Threads: the loop's.
template <typename Driver, typename Fact, typename Effect>
class DriverLoop {
 public:
  struct Handlers {
    std::function<void(const Fact&, TimePoint now)> on_fact;  ///< Before the driver gets it.
    std::function<void(const Effect&, TimePoint now)> apply;
    std::function<void(const Fact&)> on_late;  ///< Instead of both, after Finish().
    std::function<void()> on_idle;             ///< The queue is empty.
  };
  /// The loop and the driver outlive this.
  DriverLoop(Loop& loop, Driver& driver, Handlers handlers)
      : loop_(loop), driver_(driver), handlers_(std::move(handlers)) {}

  /// Facts fed before this call were queued for it.
  void Start() {
    is_started_ = true;
    pending_.empty() ? Arm() : Drain();
  }

  /// May be called from within a handler.
  void Feed(Fact fact) {
    pending_.push_back(std::move(fact));
    Drain();
  }

  /// The driver has ended: disarms its timer.
  void Finish() { is_finished_ = true; }
  bool is_finished() const { return is_finished_; }

 private:
  void Drain() {
    if (is_feeding_ || !is_started_) return;
    is_feeding_ = true;
    while (!pending_.empty()) {
      const Fact next = std::move(pending_.front());
      pending_.pop_front();
      FeedOne(next);
    }
    is_feeding_ = false;
    handlers_.on_idle();
    Arm();
  }

  void FeedOne(const Fact& fact) {
    if (is_finished_) return handlers_.on_late(fact);
    const TimePoint now = loop_.Now();
    handlers_.on_fact(fact, now);
    for (const Effect& effect : driver_.Handle(fact, now)) handlers_.apply(effect, now);
  }

  void Arm() {
    const auto deadline = is_finished_ ? std::nullopt : driver_.NextDeadline();
    if (deadline == armed_) return;
    armed_ = deadline;
    timer_.Cancel();
    if (!deadline) return;
    timer_ = loop_.After(*deadline - loop_.Now(), [this] {
      armed_.reset();
      Feed(event::Tick{});
    });
  }

  Loop& loop_;
  Driver& driver_;
  const Handlers handlers_;
  std::deque<Fact> pending_;
  bool is_started_ = false;
  bool is_feeding_ = false;
  bool is_finished_ = false;
  std::optional<TimePoint> armed_;
  Watch timer_;
};

}  // namespace hvdray

#endif  // HVDRAY_LAUNCHER_ENGINE_DRIVER_LOOP_H_
