// SPDX-License-Identifier: Apache-2.0
// The event loop: one thread that owns all control state of a launcher or an agent.
// Descriptors, timers and signals are events of it; Post() is the only way in from elsewhere.
//
// The contract of callbacks on the loop: one that is called once, as the answer to a call or the
// end of an object, comes from the loop, never from within that call, and may destroy the object;
// the object touches no member afterwards. One that is called repeatedly must not destroy it. A
// type that differs says so.
#ifndef HVDRAY_BASE_LOOP_H_
#define HVDRAY_BASE_LOOP_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <string_view>

#include "base/edge_poller.h"
#include "base/result.h"
#include "base/types.h"

struct event_base;

namespace hvdray {

enum class FdEvent : uint8_t { kRead = 1, kWrite = 2 };

/// A registration with a Loop; ends when destroyed or Cancel()ed, also from within its own
/// callback. Must not outlive the loop. Move-only.
class Watch {
 public:
  struct Impl;
  Watch();
  explicit Watch(std::unique_ptr<Impl> impl);
  Watch(Watch&&) noexcept;
  Watch& operator=(Watch&&) noexcept;
  ~Watch();
  void Cancel();
  bool is_active() const { return impl_ != nullptr; }

 private:
  std::unique_ptr<Impl> impl_;
};

/// Threads: all calls from the loop's thread, but Post() and Stop().
class Loop {
 public:
  static Result<std::unique_ptr<Loop>> Create();
  ~Loop();
  Loop(const Loop&) = delete;
  Loop& operator=(const Loop&) = delete;

  /// Runs until Stop(). In debug builds a callback of over 20 ms is logged.
  void Run();
  /// Makes Run() return after the callbacks that are due now. From any thread.
  void Stop();
  /// Runs `function` on the loop's thread, in the order of the calls. From any thread.
  void Post(std::function<void()> function);

  /// Calls back, level-triggered, as long as `fd` is ready for `event`. The fd stays the caller's
  /// and must be open until the Watch is gone.
  Watch OnFd(int fd, FdEvent event, std::function<void()> callback);
  /// Calls back once after `delay` (at least 0).
  Watch After(Duration delay, std::function<void()> callback);
  /// Calls back again and again, every `period`.
  Watch Every(Duration period, std::function<void()> callback);
  /// Takes the signal over for as long as the Watch lives; the old disposition comes back then.
  Watch OnSignal(int signo, std::function<void()> callback);

  /// Monotonic, read anew at each call.
  TimePoint Now() const;
  /// For sockets by the thousand (base/http_server); made at the first call and the loop's own.
  /// Errors: kOutOfResources, kSystem.
  Result<EdgePoller*> edge_poller();
  /// For adapters of libevent only.
  event_base* raw() const { return base_; }

 private:
  struct Posted;
  Loop(event_base* base, std::unique_ptr<Posted> posted);
  event_base* base_;
  std::unique_ptr<Posted> posted_;
  std::unique_ptr<EdgePoller> edge_poller_;
  Watch edge_watch_;
};

}  // namespace hvdray

#endif  // HVDRAY_BASE_LOOP_H_
