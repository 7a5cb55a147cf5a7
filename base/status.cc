// SPDX-License-Identifier: Apache-2.0
#include "base/status.h"

#include <fmt/format.h>

#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>

namespace hvdray {

Status Status::WithContext(std::string_view attempt) && {
  if (!ok()) message_ = fmt::format("{}: {}", attempt, message_);
  return std::move(*this);
}

Status Status::WithHint(std::string_view hint) && {
  if (!ok() && hint_.empty()) hint_ = hint;
  return std::move(*this);
}

Status Status::WithCode(ErrorCode code) && {
  if (!ok()) code_ = code;
  return std::move(*this);
}

std::string Status::ToString() const {
  if (ok()) return "ok";
  std::string text = fmt::format("{} [{}]", message_, ErrorLabel(code_));
  if (!hint_.empty()) text += fmt::format("\n  hint: {}", hint_);
  return text;
}

Status ErrnoStatus(std::string_view call, int error) {
  ErrorCode code = ErrorCode::kSystem;
  switch (error) {
    case ENOSPC:
    case EDQUOT:
    case EMFILE:
    case ENFILE:
    case ENOMEM:
    case EAGAIN:
      code = ErrorCode::kOutOfResources;
      break;
    case EADDRINUSE:
      code = ErrorCode::kAddressInUse;
      break;
    case ECONNREFUSED:
      code = ErrorCode::kHostRefused;
      break;
    case EHOSTUNREACH:
    case ENETUNREACH:
      code = ErrorCode::kHostUnreachable;
      break;
    case ETIMEDOUT:
      code = ErrorCode::kConnectTimeout;
      break;
    default:
      break;
  }
  char buffer[128];
  return {code, fmt::format("{}: {}", call, ::strerror_r(error, buffer, sizeof buffer)),
          error == ENOSYS ? "hvdray needs Linux 5.4 or later, and its calls let through" : ""};
}

void CheckFailed(const char* expression, const char* file, int line) {
  std::fprintf(stderr, "hvdray: bug: %s is not true at %s:%d [HVD-E0001]\n", expression, file,
               line);
  std::abort();
}

}  // namespace hvdray
