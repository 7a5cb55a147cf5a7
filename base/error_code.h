// SPDX-License-Identifier: Apache-2.0
// The catalogue of errors, one row per code. docs/errors.md has the same rows for users;
// tests/unit/report/errors_doc_test.cc and tools/lint.py keep the two equal.
#ifndef HVDRAY_BASE_ERROR_CODE_H_
#define HVDRAY_BASE_ERROR_CODE_H_

#include <cstdint>
#include <span>
#include <string>
#include <string_view>

namespace hvdray {

/// Numbers are part of the interface (reports, scripts): add new ones, never reuse one. 1-99:
/// anywhere; 100s: input; 200s: hosts, Ray, clouds; 300s: the job; 400s: collectives; 500s:
/// rendezvous.
enum class ErrorCode : uint16_t {
  kOk = 0,
  kInternal = 1,
  kSystem = 2,
  kOutOfResources = 3,
  kCancelled = 4,
  kDeadlineExceeded = 5,
  kUsage = 101,
  kSpecInvalid = 102,
  kNotEnoughSlots = 103,
  kFileUnreadable = 104,
  kFileUnwritable = 105,
  kNotSupported = 106,
  kEnvironmentTooLarge = 107,
  kPackageTooLarge = 108,
  kHostUnreachable = 201,
  kHostRefused = 202,
  kAgentStartFailed = 203,
  kConnectTimeout = 204,
  kAgentLost = 205,
  kProtocolMismatch = 206,
  kProtocolError = 207,
  kNoCapacity = 208,
  kUnknownHost = 209,
  kNoUsableInterface = 210,
  kHandshakeFailed = 211,
  kHostKeyRejected = 212,
  kAuthenticationFailed = 213,
  kHostBusy = 214,
  kSyncFailed = 215,
  kRayUnreachable = 216,
  kRayDenied = 217,
  kRayFailed = 218,
  kInfeasible = 219,
  kNodeSetupFailed = 220,
  kCloudDenied = 230,
  kCloudFailed = 231,
  kQuotaExceeded = 232,
  kCommandNotFound = 301,
  kCommandNotExecutable = 302,
  kWorkerFailed = 303,
  kTimeout = 304,
  kOutputLost = 305,
  kReaderGone = 306,
  kInterrupted = 307,
  kWorkerStartFailed = 308,
  kResetLimit = 309,
  kPartialSuccess = 310,
  kStateLost = 311,
  kAborted = 401,
  kKvRejected = 501,
  kAddressInUse = 502,
};

/// One row of the catalogue.
struct ErrorInfo {
  ErrorCode code;
  std::string_view name;  ///< The enumerator without its k, in snake case: stable, for JSON.
  bool is_retriable;      ///< The same command may succeed later with nothing changed.
};

/// All codes but kOk, in ascending order. Static.
std::span<const ErrorInfo> ErrorCatalogue();

/// The exit code of a program of ours that could not do its part; whether a retry helps depends on
/// the error's code.
inline constexpr int kHvdrayFailed = 125;

/// The row of `code`; kOk and unknown numbers give the row of kInternal.
const ErrorInfo& InfoOf(ErrorCode code);

/// The code as reports and messages print it: "HVD-E0204".
std::string ErrorLabel(ErrorCode code);

}  // namespace hvdray

#endif  // HVDRAY_BASE_ERROR_CODE_H_
