// SPDX-License-Identifier: Apache-2.0
// Small types that every room uses.
#ifndef HVDRAY_BASE_TYPES_H_
#define HVDRAY_BASE_TYPES_H_

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <string_view>

namespace hvdray {

/// Bytes that somebody else owns. Not text: may hold NULs and invalid UTF-8.
using ByteView = std::string_view;

using Duration = std::chrono::nanoseconds;

/// Monotonic time. Pure code gets it as an argument and never asks for it.
using TimePoint = std::chrono::time_point<std::chrono::steady_clock, Duration>;

/// Counts membership changes from 1; 0 means "before the first".
using Generation = uint32_t;

using Seconds = std::chrono::duration<double>;

}  // namespace hvdray

#endif  // HVDRAY_BASE_TYPES_H_
