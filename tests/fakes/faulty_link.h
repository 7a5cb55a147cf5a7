// SPDX-License-Identifier: Apache-2.0
// A Link that breaks at its n-th call, so that a test can try every n: nothing is sent from then on
// and OnClosed() says kAgentLost, as when a cable is cut.
#ifndef HVDRAY_TESTS_FAKES_FAULTY_LINK_H_
#define HVDRAY_TESTS_FAKES_FAULTY_LINK_H_

#include <memory>
#include <utility>

#include "wire/link.h"

namespace hvdray::wire {

class FaultyLink : public Link {
 public:
  /// Passes calls on to `link`; the `fail_at`-th call of Start, Send and StartHeartbeat together
  /// (from 1) breaks it. 0: never.
  FaultyLink(Loop& loop, std::unique_ptr<Link> link, int fail_at)
      : loop_(loop), link_(std::move(link)), fail_at_(fail_at) {}

  /// Calls so far: run once with fail_at 0 to learn how many there are to break.
  int calls() const { return calls_; }

  void Start(Owner& owner) override {
    owner_ = &owner;
    if (!Breaks()) link_->Start(owner);
  }
  void Send(Message message) override {
    if (!Breaks()) link_->Send(std::move(message));
  }
  void StartHeartbeat(Duration period, Duration timeout) override {
    if (!Breaks()) link_->StartHeartbeat(period, timeout);
  }
  bool HasOutputRoom() const override { return link_ == nullptr || link_->HasOutputRoom(); }
  bool HasControlRoom() const override { return link_ == nullptr || link_->HasControlRoom(); }
  size_t QueuedBytes() const override { return link_ == nullptr ? 0 : link_->QueuedBytes(); }
  bool IsTimedOut() const override { return link_ != nullptr && link_->IsTimedOut(); }
  void Close(Bye bye, Duration deadline, std::function<void()> on_done) override {
    broken_later_.Cancel();
    if (!is_broken_) {
      link_->Close(std::move(bye), deadline, std::move(on_done));
    } else if (on_done) {
      broken_later_ = loop_.After(Duration::zero(), std::move(on_done));
    }
  }

 private:
  bool Breaks() {
    if (is_broken_) return true;
    if (++calls_ != fail_at_) return false;
    // Later, as a real link does: the caller may be in a handler of `link_`.
    broken_later_ = loop_.After(Duration::zero(), [this] {
      link_.reset();
      if (owner_ != nullptr) {
        owner_->OnClosed({ErrorCode::kAgentLost, "the link was cut by a test"});
      }
    });
    is_broken_ = true;
    return true;
  }

  Loop& loop_;
  std::unique_ptr<Link> link_;
  int fail_at_;
  int calls_ = 0;
  bool is_broken_ = false;
  Owner* owner_ = nullptr;
  Watch broken_later_;
};

}  // namespace hvdray::wire

#endif  // HVDRAY_TESTS_FAKES_FAULTY_LINK_H_
