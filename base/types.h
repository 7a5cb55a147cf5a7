// SPDX-License-Identifier: Apache-2.0
// Small value types that every room uses.
#ifndef HVDRAY_BASE_TYPES_H_
#define HVDRAY_BASE_TYPES_H_

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <string_view>

namespace hvdray {

/// Bytes that someone else owns. Not text: may contain NULs and invalid UTF-8.
using ByteView = std::string_view;

/// A span of time.
using Duration = std::chrono::nanoseconds;

/// Monotonic time. Pure code takes it as an argument and reads no clock.
using TimePoint = std::chrono::time_point<std::chrono::steady_clock, Duration>;

/// Counts membership changes from 1; 0 means "before the first".
using Generation = uint32_t;

/// A span of time in settings and messages.
using Seconds = std::chrono::duration<double>;

/// Whole milliseconds, rounded down, as messages and files carry them.
constexpr uint32_t Milliseconds(Duration duration) {
  return static_cast<uint32_t>(
      std::chrono::duration_cast<std::chrono::milliseconds>(duration).count());
}

}  // namespace hvdray

#endif  // HVDRAY_BASE_TYPES_H_
