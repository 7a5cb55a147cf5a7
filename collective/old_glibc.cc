// SPDX-License-Identifier: Apache-2.0
// What libhvdray.so, and the C++ library that is in it, take from glibc beyond version 2.17. Only
// in the wheel's, which loads where glibc is older: there a single name that it lacks would be the
// end, called or not. None of these is seen outside.
#include <dirent.h>
#include <dlfcn.h>
#include <pthread.h>
#include <spawn.h>
#include <sys/syscall.h>
#include <sys/types.h>
#include <unistd.h>

#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <ctime>

namespace {

// glibc's own, where it has one. `Function`: a type of pointer.
template <typename Function>
Function Newer(const char* name) {
  return reinterpret_cast<Function>(::dlsym(RTLD_DEFAULT, name));
}

int64_t Nanoseconds(const timespec& time) { return time.tv_sec * 1'000'000'000LL + time.tv_nsec; }

int64_t Now(clockid_t clock) {
  timespec now{};
  (void)::clock_gettime(clock, &now);
  return Nanoseconds(now);
}

}  // namespace

extern "C" {

// 2.25
ssize_t getrandom(void* bytes, size_t size, unsigned flags) {
  return ::syscall(SYS_getrandom, bytes, size, flags);
}

// 2.27
int memfd_create(const char* name, unsigned flags) noexcept {
  return static_cast<int>(::syscall(SYS_memfd_create, name, flags));
}

// 2.36. Of std::random_device: there is no way to say that it failed, as before Linux 3.17.
uint32_t arc4random() noexcept {
  uint32_t number = 0;
  while (getrandom(&number, sizeof number, 0) != sizeof number) {
    if (errno != EINTR) std::abort();
  }
  return number;
}

// 2.25. Of std::random_device, which does not call it, since there is arc4random().
int getentropy(void* bytes, size_t size) {
  return getrandom(bytes, size, 0) == static_cast<ssize_t>(size) ? 0 : -1;
}

// 2.18. Destroys a thread's objects at its end; an older glibc leaves them.
int __cxa_thread_atexit_impl(void (*destroy)(void*), void* object,  // NOLINT: the name is glibc's
                             void* library) {
  static const auto own = Newer<int (*)(void (*)(void*), void*, void*)>("__cxa_thread_atexit_impl");
  return own == nullptr ? 0 : own(destroy, object, library);
}

// 2.30. Of std::condition_variable. An older glibc waits by the clock that can be set.
int pthread_cond_clockwait(pthread_cond_t* condition, pthread_mutex_t* mutex, clockid_t clock,
                           const timespec* until) {
  static const auto own = Newer<decltype(&pthread_cond_clockwait)>("pthread_cond_clockwait");
  if (own != nullptr) return own(condition, mutex, clock, until);
  const int64_t time = Now(CLOCK_REALTIME) + Nanoseconds(*until) - Now(clock);
  const timespec by_the_clock{time / 1'000'000'000, time % 1'000'000'000};
  return ::pthread_cond_timedwait(condition, mutex, &by_the_clock);
}

// 2.34. In an older glibc the descriptors that are open now; closing one that has gone is no error.
int posix_spawn_file_actions_addclosefrom_np(posix_spawn_file_actions_t* actions,
                                             int first) noexcept {
  static const auto own =
      Newer<int (*)(posix_spawn_file_actions_t*, int)>("posix_spawn_file_actions_addclosefrom_np");
  if (own != nullptr) return own(actions, first);
  DIR* const open = ::opendir("/proc/self/fd");
  if (open == nullptr) return errno;
  int error = 0;
  while (const dirent* entry = ::readdir(open)) {
    const int fd = std::atoi(entry->d_name);  // 0 for "." and ".."
    if (error == 0 && fd >= first) error = ::posix_spawn_file_actions_addclose(actions, fd);
  }
  ::closedir(open);
  return error;
}

// 2.32. False: counters of references are always atomic, as with an older C++ library.
extern char __libc_single_threaded;  // NOLINT: the name is glibc's
char __libc_single_threaded = 0;     // NOLINT

}  // extern "C"
