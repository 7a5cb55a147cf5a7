// SPDX-License-Identifier: Apache-2.0
#include "base/loop.h"

#include <event2/event.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <mutex>
#include <utility>
#include <vector>

#include "base/fd.h"
#include "base/log.h"

namespace hvdray {
namespace {

timeval ToTimeval(Duration delay) {
  const auto us =
      std::max<int64_t>(0, std::chrono::duration_cast<std::chrono::microseconds>(delay).count());
  return {static_cast<time_t>(us / 1'000'000), static_cast<suseconds_t>(us % 1'000'000)};
}

TimePoint SteadyNow() { return std::chrono::steady_clock::now(); }

}  // namespace

struct Watch::Impl {
  explicit Impl(std::function<void()> function) : callback(std::move(function)) {}
  Impl(const Impl&) = delete;
  Impl& operator=(const Impl&) = delete;
  ~Impl() {
    if (has_ended != nullptr) *has_ended = true;
    if (handle != nullptr) event_free(handle);
  }

  static void Fire(evutil_socket_t /*fd*/, short /*what*/, void* self) {
    auto* const impl = static_cast<Impl*>(self);
    // The running function belongs to this call, so that it outlasts a Watch that it ends.
    std::function<void()> running = std::move(impl->callback);
    bool has_ended = false;
    impl->has_ended = &has_ended;
#ifndef NDEBUG
    const TimePoint start = SteadyNow();
#endif
    running();
#ifndef NDEBUG
    const Duration took = SteadyNow() - start;
    if (took > std::chrono::milliseconds(20)) {
      Log(LogLevel::kDebug, "loop", "a callback took {:.1f} ms",
          std::chrono::duration<double, std::milli>(took).count());
    }
#endif
    if (has_ended) return;
    impl->has_ended = nullptr;
    impl->callback = std::move(running);
  }

  std::function<void()> callback;
  event* handle = nullptr;
  bool* has_ended = nullptr;  // Fire()'s, while it runs
};

Watch::Watch() = default;
Watch::Watch(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
Watch::Watch(Watch&&) noexcept = default;
Watch& Watch::operator=(Watch&&) noexcept = default;
Watch::~Watch() = default;
void Watch::Cancel() { impl_.reset(); }

struct Loop::Posted {
  std::mutex mutex;  // guards queue
  std::vector<std::function<void()>> queue;
  UniqueFd wakeup;
  Watch watch;
  std::atomic<bool> is_stopping{false};

  void Wake() const {
    const uint64_t one = 1;
    (void)!::write(wakeup.get(), &one, sizeof one);
  }
};

Result<std::unique_ptr<Loop>> Loop::Create() {
  auto posted = std::make_unique<Posted>();
  posted->wakeup.Reset(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
  if (!posted->wakeup.is_valid()) return ErrnoStatus("eventfd", errno);
  event_config* config = event_config_new();
  if (config == nullptr) return Status(ErrorCode::kOutOfResources, "event_config_new");
  // Timers to the microsecond, for the answers that the rendezvous holds; heartbeats don't need it.
  event_config_set_flag(config, EVENT_BASE_FLAG_PRECISE_TIMER);
  event_base* base = event_base_new_with_config(config);
  event_config_free(config);
  if (base == nullptr) return Status(ErrorCode::kOutOfResources, "event_base_new");
  std::unique_ptr<Loop> loop(new Loop(base, std::move(posted)));
  Posted* state = loop->posted_.get();
  state->watch = loop->OnFd(state->wakeup.get(), FdEvent::kRead, [state, base] {
    uint64_t count = 0;
    (void)!::read(state->wakeup.get(), &count, sizeof count);
    std::vector<std::function<void()>> due;
    {
      const std::lock_guard lock(state->mutex);
      due.swap(state->queue);
    }
    for (const auto& function : due) function();
    if (state->is_stopping.load()) event_base_loopbreak(base);
  });
  return loop;
}

Loop::Loop(event_base* base, std::unique_ptr<Posted> posted)
    : base_(base), posted_(std::move(posted)) {}

Loop::~Loop() {
  edge_watch_.Cancel();
  posted_->watch.Cancel();
  posted_->queue.clear();
  event_base_free(base_);
}

void Loop::Run() {
  // Without a registered event libevent would return at once; the wake-up is always registered.
  event_base_loop(base_, EVLOOP_NO_EXIT_ON_EMPTY);
  posted_->is_stopping.store(false);
}

void Loop::Stop() {
  posted_->is_stopping.store(true);
  posted_->Wake();
}

void Loop::Post(std::function<void()> function) {
  {
    const std::lock_guard lock(posted_->mutex);
    posted_->queue.push_back(std::move(function));
  }
  posted_->Wake();
}

namespace {

short FlagOf(FdEvent event) {
  switch (event) {
    case FdEvent::kRead:
      return EV_READ;
    case FdEvent::kWrite:
      return EV_WRITE;
    case FdEvent::kHangUp:
      return EV_CLOSED;
  }
  return 0;
}

Watch Register(event_base* base, int fd, short what, const timeval* timeout,
               std::function<void()> callback) {
  auto impl = std::make_unique<Watch::Impl>(std::move(callback));
  impl->handle = event_new(base, fd, what, &Watch::Impl::Fire, impl.get());
  HVDRAY_CHECK(impl->handle != nullptr);
  HVDRAY_CHECK(event_add(impl->handle, timeout) == 0);
  return Watch(std::move(impl));
}

}  // namespace

Watch Loop::OnFd(int fd, FdEvent event, std::function<void()> callback) {
  return Register(base_, fd, static_cast<short>(FlagOf(event) | EV_PERSIST), nullptr,
                  std::move(callback));
}

Watch Loop::After(Duration delay, std::function<void()> callback) {
  const timeval timeout = ToTimeval(delay);
  return Register(base_, -1, EV_TIMEOUT, &timeout, std::move(callback));
}

Watch Loop::Every(Duration period, std::function<void()> callback) {
  // libevent takes a period of 0 to mean "once".
  const timeval timeout = ToTimeval(std::max<Duration>(period, std::chrono::microseconds(1)));
  return Register(base_, -1, EV_TIMEOUT | EV_PERSIST, &timeout, std::move(callback));
}

Watch Loop::OnSignal(int signo, std::function<void()> callback) {
  return Register(base_, signo, EV_SIGNAL | EV_PERSIST, nullptr, std::move(callback));
}

Result<EdgePoller*> Loop::edge_poller() {
  if (edge_poller_ == nullptr) {
    HVDRAY_ASSIGN_OR_RETURN(edge_poller_, EdgePoller::Create());
    EdgePoller* poller = edge_poller_.get();
    edge_watch_ = OnFd(poller->fd(), FdEvent::kRead, [poller] { poller->Dispatch(); });
  }
  return edge_poller_.get();
}

TimePoint Loop::Now() const { return SteadyNow(); }

}  // namespace hvdray
