// SPDX-License-Identifier: Apache-2.0
#include "launcher/job/exit_code.h"

#include <fmt/format.h>

#include <cerrno>
#include <cstdio>
#include <filesystem>
#include <system_error>

#include "base/log.h"
#include "base/report_file.h"

namespace hvdray {

int ExitCode(const Status& status) {
  switch (status.code()) {
    case ErrorCode::kOk:
      return 0;
    case ErrorCode::kUsage:
    case ErrorCode::kSpecInvalid:
    case ErrorCode::kNotEnoughSlots:
    case ErrorCode::kFileUnreadable:
    case ErrorCode::kFileUnwritable:
    case ErrorCode::kNotSupported:
    case ErrorCode::kEnvironmentTooLarge:
    case ErrorCode::kPackageTooLarge:
    case ErrorCode::kRayUnreachable:
    case ErrorCode::kRayDenied:
    case ErrorCode::kInfeasible:
    case ErrorCode::kCloudDenied:
      return 2;
    case ErrorCode::kCommandNotExecutable:
      return 126;
    case ErrorCode::kCommandNotFound:
      return 127;
    case ErrorCode::kTimeout:
      return 124;
    case ErrorCode::kReaderGone:
      return 141;
    default:
      return kHvdrayFailed;
  }
}

namespace {

/// A relative path leads nowhere from a directory that has been removed, which the file's own error
/// does not say.
Status WithItsDirectory(const Status& status) {
  const bool is_file =
      status.code() == ErrorCode::kFileUnreadable || status.code() == ErrorCode::kFileUnwritable;
  std::error_code error;
  const bool is_there = !std::filesystem::current_path(error).empty() || error.value() != ENOENT;
  if (!is_file || status.message().starts_with('/') || is_there) return status;
  return {status.code(),
          fmt::format("the current directory has been removed: {}", status.message()),
          "cd to a directory that exists; cd . is enough if it was made anew"};
}

}  // namespace

int Fail(std::string_view command, const Status& status) {
  Tell(LogLevel::kError, fmt::format("hvdray {}", command), WithItsDirectory(status).ToString());
  return ExitCode(status);
}

int PrintOut(std::string_view command, const std::string& text, int exit_code) {
  const bool is_written = std::fwrite(text.data(), 1, text.size(), stdout) == text.size();
  if (std::fflush(stdout) == 0 && is_written) return exit_code;
  Status lost = OutputLost("stdout", errno);
  // Like any program in a pipe: who reads the first lines only wants no message.
  if (lost.code() == ErrorCode::kReaderGone) return ExitCode(lost);
  return Fail(command, lost);
}

}  // namespace hvdray
