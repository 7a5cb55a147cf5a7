// SPDX-License-Identifier: Apache-2.0
// Status: how everything that can fail at run time reports it; Result<T> is in result.h. Exceptions
// cross no header of ours; each adapter of a library translates them into these.
#ifndef HVDRAY_BASE_STATUS_H_
#define HVDRAY_BASE_STATUS_H_

#include <string>
#include <string_view>
#include <utility>

#include "base/error_code.h"

namespace hvdray {

/// Success, or an error code with a message and perhaps a hint. Value type. Threads: like any
/// value.
class [[nodiscard]] Status {
 public:
  Status() = default;
  Status(ErrorCode code, std::string message, std::string hint = {})
      : code_(code), message_(std::move(message)), hint_(std::move(hint)) {}

  bool ok() const { return code_ == ErrorCode::kOk; }
  ErrorCode code() const { return code_; }
  /// What was attempted and what failed, in one line:
  /// "start agent on node7: connect 10.0.0.7:22: timed out after 30 s".
  const std::string& message() const { return message_; }
  /// What the user can do about it, in one line; empty: nothing known.
  const std::string& hint() const { return hint_; }

  /// Puts the attempt in front: "<attempt>: <message>". No effect on success.
  Status WithContext(std::string_view attempt) &&;
  /// Sets the hint, unless there is one already. No effect on success.
  Status WithHint(std::string_view hint) &&;
  /// Replaces the code and keeps message and hint. No effect on success.
  Status WithCode(ErrorCode code) &&;

  /// "<message> [HVD-E0204]", then a line "  hint: …" if there is a hint; "ok" on success.
  std::string ToString() const;

  bool operator==(const Status&) const = default;

 private:
  ErrorCode code_ = ErrorCode::kOk;
  std::string message_;
  std::string hint_;
};

/// The Status for errno `error` of `call`: "<call>: <strerror>". Its code is that of the errno
/// where there is one (ENOSPC, EMFILE, EADDRINUSE, ECONNREFUSED, …), else kSystem. Threads: any.
Status ErrnoStatus(std::string_view call, int error);

/// Aborts the process with a message, for states that only a bug of ours can cause. An agent or
/// launcher that aborts leaves no worker behind: its peer sees the link close, and an agent's
/// keeper sweeps what is left.
[[noreturn]] void CheckFailed(const char* expression, const char* file, int line);

}  // namespace hvdray

/// The name of the source, without the directory that it is built in: all builds are alike.
#ifdef __FILE_NAME__  // GCC 12, clang 9
#define HVDRAY_FILE __FILE_NAME__
#else
#define HVDRAY_FILE __FILE__
#endif

#define HVDRAY_CHECK(expression) \
  ((expression) ? static_cast<void>(0) : ::hvdray::CheckFailed(#expression, HVDRAY_FILE, __LINE__))

#define HVDRAY_RETURN_IF_ERROR(expression)           \
  do {                                               \
    ::hvdray::Status hvdray_status_ = (expression);  \
    if (!hvdray_status_.ok()) return hvdray_status_; \
  } while (false)

#endif  // HVDRAY_BASE_STATUS_H_
