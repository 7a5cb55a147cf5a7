// SPDX-License-Identifier: Apache-2.0
// Connects a driver, which is pure, to the event loop: facts in, effects out, and its timer.
#ifndef HVDRAY_LAUNCHER_ENGINE_DRIVER_LOOP_H_
#define HVDRAY_LAUNCHER_ENGINE_DRIVER_LOOP_H_

#include <deque>
#include <optional>
#include <utility>
#include <variant>

#include "base/loop.h"
#include "launcher/driver/events.h"

namespace hvdray {

/// Feeds facts to a driver one by one and applies the effects of each before the next; facts that
/// arrive meanwhile are queued. Threads: the loop's.
///
/// `Owner` is the launcher; it has these functions:
///   OnFact(fact, now)      before the driver gets it
///   OnEffect(effect, now)  before it is applied
///   Apply(e)               for each kind of effect
///   OnLate(fact)           instead of these, after Finish()
///   OnIdle()               the queue is empty
template <typename Owner, typename Driver, typename Fact, typename Effect>
class DriverLoop {
 public:
  /// Loop, driver and owner outlive this.
  DriverLoop(Loop& loop, Driver& driver, Owner& owner)
      : loop_(loop), driver_(driver), owner_(owner) {}

  /// Facts fed before this call were queued for it.
  void Start() {
    is_started_ = true;
    pending_.empty() ? Arm() : Drain();
  }

  /// May be called from within the owner's functions.
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
      if (is_finished_) {
        owner_.OnLate(next);
        continue;
      }
      const TimePoint now = loop_.Now();
      owner_.OnFact(next, now);
      for (const Effect& effect : driver_.Handle(next, now)) {
        owner_.OnEffect(effect, now);
        std::visit([this](const auto& e) { owner_.Apply(e); }, effect);
      }
    }
    is_feeding_ = false;
    owner_.OnIdle();
    Arm();
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
  Owner& owner_;
  std::deque<Fact> pending_;
  bool is_started_ = false;
  bool is_feeding_ = false;
  bool is_finished_ = false;
  std::optional<TimePoint> armed_;
  Watch timer_;
};

}  // namespace hvdray

#endif  // HVDRAY_LAUNCHER_ENGINE_DRIVER_LOOP_H_
