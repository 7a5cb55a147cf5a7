// SPDX-License-Identifier: Apache-2.0
// The limits of execve, checked before anything starts. Pure.
#ifndef HVDRAY_LAUNCHER_JOB_EXEC_LIMITS_H_
#define HVDRAY_LAUNCHER_JOB_EXEC_LIMITS_H_

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

#include "base/environ.h"
#include "base/status.h"

namespace hvdray {

/// The longest "NAME=VALUE" or word, with its NUL (MAX_ARG_STRLEN: 32 pages of 4 KiB).
inline constexpr size_t kMaxExecStringBytes = 131072;

/// Bytes kept free for the variables of a slot, which are added later.
inline constexpr size_t kSlotVariableBytes = 8192;

/// Checks that the kernel can start `command` in `environment` under a stack limit of
/// `stack_limit_bytes` (RLIMIT_STACK, may be RLIM_INFINITY): no string above kMaxExecStringBytes,
/// and all strings with their pointers within a quarter of the limit, at least 128 KiB and at most
/// 6 MiB. Errors: kEnvironmentTooLarge, naming the variable or the word, or the largest variables.
/// Source: execve(2), "Limits on size of arguments and environment"; Linux fs/exec.c.
Status CheckExecLimits(std::span<const std::string> command, const Environment& environment,
                       uint64_t stack_limit_bytes);

}  // namespace hvdray

#endif  // HVDRAY_LAUNCHER_JOB_EXEC_LIMITS_H_
