// SPDX-License-Identifier: Apache-2.0
// The event loop: the one thread that owns all control state of a launcher or an agent.
// Descriptors, timers and signals are its events; other threads come in through Post() alone.
// The adapter of libevent's core.
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

/// kHangUp: the peer of a stream socket sends no more. Bytes that it sent before may be unread.
enum class FdEvent : uint8_t { kRead = 1, kWrite = 2, kHangUp = 3 };

/// A registration with a Loop. Ends when destroyed or cancelled, at any time: a callback that is
/// running completes, with everything it captured, and no other follows. The loop outlives it.
/// Move-only. Threads: the loop's.
class Watch {
 public:
  struct Impl;
  Watch();
  explicit Watch(std::unique_ptr<Impl> impl);
  Watch(Watch&&) noexcept;
  Watch& operator=(Watch&&) noexcept;
  ~Watch();
  void Cancel();
  /// Not cancelled. A timer that has fired stays active until it is.
  bool is_active() const { return impl_ != nullptr; }

 private:
  std::unique_ptr<Impl> impl_;
};

/// Threads: every call comes from the loop's thread, except Post() and Stop(), which any thread may
/// make. Callbacks run on the loop's thread, must not block and must not throw.
class Loop {
 public:
  /// Errors: kOutOfResources, kSystem.
  static Result<std::unique_ptr<Loop>> Create();
  /// Drops what was posted and has not run. All watches are gone by now.
  ~Loop();
  Loop(const Loop&) = delete;
  Loop& operator=(const Loop&) = delete;

  /// Runs until Stop(). Debug builds log a callback that takes more than 20 ms.
  void Run();
  /// Makes Run() return after the callbacks that are due now. Threads: any.
  void Stop();
  /// Runs `function` on the loop's thread, in the order of the calls. Threads: any.
  void Post(std::function<void()> function);

  /// Calls back for as long as `fd` is ready for `event` (level-triggered). The caller owns `fd`
  /// and keeps it open until the Watch has ended.
  Watch OnFd(int fd, FdEvent event, std::function<void()> callback);
  /// Calls back once after `delay`; at once if that is negative, but never inside this call.
  Watch After(Duration delay, std::function<void()> callback);
  /// Calls back every `period`, at least 1 us apart.
  Watch Every(Duration period, std::function<void()> callback);
  /// Takes the signal over while the Watch lives, then restores its previous disposition.
  Watch OnSignal(int signo, std::function<void()> callback);

  /// Monotonic; reads the clock at each call.
  TimePoint Now() const;
  /// For thousands of sockets (base/http_server.h). Made at the first call; the loop owns it.
  /// Errors: kOutOfResources, kSystem.
  Result<EdgePoller*> edge_poller();
  /// For adapters of libevent only. The loop owns it.
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
