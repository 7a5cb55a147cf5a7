// SPDX-License-Identifier: Apache-2.0
// Status and Result<T>: how everything that can fail at run time reports it. Exceptions cross no
// header of ours; each adapter of a library translates them into these.
#ifndef HVDRAY_BASE_STATUS_H_
#define HVDRAY_BASE_STATUS_H_

#include <string>
#include <string_view>
#include <utility>

#include "base/error_code.h"

namespace hvdray {

/// Success, or a code with the attempt in words and, where there is one, a hint what to do.
/// Value type; threads: as any value.
class [[nodiscard]] Status {
 public:
  Status() = default;
  Status(ErrorCode code, std::string message, std::string hint = {})
      : code_(code), message_(std::move(message)), hint_(std::move(hint)) {}

  bool ok() const { return code_ == ErrorCode::kOk; }
  ErrorCode code() const { return code_; }
  /// "start agent on node7: connect 10.0.0.7:22: timed out after 30 s"; one line.
  const std::string& message() const { return message_; }
  /// What the reader can do about it; empty when nothing is known. One line.
  const std::string& hint() const { return hint_; }

  /// Puts the attempt in front: "<attempt>: <message>". No effect on success.
  Status WithContext(std::string_view attempt) &&;
  /// Sets the hint if there is none yet. No effect on success.
  Status WithHint(std::string_view hint) &&;
  /// Same message and hint under another code.
  Status WithCode(ErrorCode code) &&;

  /// "<message> [HVD-E0204]", then a line "  hint: …" if there is a hint. "ok" on success.
  std::string ToString() const;

  bool operator==(const Status&) const = default;

 private:
  ErrorCode code_ = ErrorCode::kOk;
  std::string message_;
  std::string hint_;
};

/// A Status for the error number `error` (errno) of `call`: "<call>: <strerror>". Maps the numbers
/// that have a code of their own (ENOSPC, EMFILE, EADDRINUSE, ECONNREFUSED, …), the rest is
/// kSystem.
Status ErrnoStatus(std::string_view call, int error);

/// Ends the process with a message: for states that only a bug of ours can bring about. An agent or
/// launcher that aborts leaves nothing behind: its peers see the link close (style P6).
[[noreturn]] void CheckFailed(const char* expression, const char* file, int line);

}  // namespace hvdray

#define HVDRAY_CHECK(expression) \
  ((expression) ? static_cast<void>(0) : ::hvdray::CheckFailed(#expression, __FILE__, __LINE__))

#define HVDRAY_RETURN_IF_ERROR(expression)           \
  do {                                               \
    ::hvdray::Status hvdray_status_ = (expression);  \
    if (!hvdray_status_.ok()) return hvdray_status_; \
  } while (false)

#endif  // HVDRAY_BASE_STATUS_H_
