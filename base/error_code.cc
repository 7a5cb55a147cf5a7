// SPDX-License-Identifier: Apache-2.0
#include "base/error_code.h"

#include <fmt/format.h>

#include <array>

namespace hvdray {
namespace {

constexpr std::array kCatalogue = {
    ErrorInfo{ErrorCode::kInternal, "internal", false},
    ErrorInfo{ErrorCode::kSystem, "system", false},
    ErrorInfo{ErrorCode::kOutOfResources, "out_of_resources", true},
    ErrorInfo{ErrorCode::kCancelled, "cancelled", false},
    ErrorInfo{ErrorCode::kDeadlineExceeded, "deadline_exceeded", true},
    ErrorInfo{ErrorCode::kUsage, "usage", false},
    ErrorInfo{ErrorCode::kSpecInvalid, "spec_invalid", false},
    ErrorInfo{ErrorCode::kNotEnoughSlots, "not_enough_slots", false},
    ErrorInfo{ErrorCode::kFileUnreadable, "file_unreadable", false},
    ErrorInfo{ErrorCode::kFileUnwritable, "file_unwritable", false},
    ErrorInfo{ErrorCode::kNotSupported, "not_supported", false},
    ErrorInfo{ErrorCode::kEnvironmentTooLarge, "environment_too_large", false},
    ErrorInfo{ErrorCode::kPackageTooLarge, "package_too_large", false},
    ErrorInfo{ErrorCode::kHostUnreachable, "host_unreachable", true},
    ErrorInfo{ErrorCode::kHostRefused, "host_refused", true},
    ErrorInfo{ErrorCode::kAgentStartFailed, "agent_start_failed", false},
    ErrorInfo{ErrorCode::kConnectTimeout, "connect_timeout", true},
    ErrorInfo{ErrorCode::kAgentLost, "agent_lost", true},
    ErrorInfo{ErrorCode::kProtocolMismatch, "protocol_mismatch", false},
    ErrorInfo{ErrorCode::kProtocolError, "protocol_error", false},
    ErrorInfo{ErrorCode::kNoCapacity, "no_capacity", true},
    ErrorInfo{ErrorCode::kUnknownHost, "unknown_host", false},
    ErrorInfo{ErrorCode::kNoUsableInterface, "no_usable_interface", false},
    ErrorInfo{ErrorCode::kHandshakeFailed, "handshake_failed", true},
    ErrorInfo{ErrorCode::kHostKeyRejected, "host_key_rejected", false},
    ErrorInfo{ErrorCode::kAuthenticationFailed, "authentication_failed", false},
    ErrorInfo{ErrorCode::kHostBusy, "host_busy", true},
    ErrorInfo{ErrorCode::kSyncFailed, "sync_failed", false},
    ErrorInfo{ErrorCode::kRayUnreachable, "ray_unreachable", true},
    ErrorInfo{ErrorCode::kRayDenied, "ray_denied", false},
    ErrorInfo{ErrorCode::kRayFailed, "ray_failed", true},
    ErrorInfo{ErrorCode::kInfeasible, "infeasible", false},
    ErrorInfo{ErrorCode::kNodeSetupFailed, "node_setup_failed", false},
    ErrorInfo{ErrorCode::kCloudDenied, "cloud_denied", false},
    ErrorInfo{ErrorCode::kCloudFailed, "cloud_failed", true},
    ErrorInfo{ErrorCode::kQuotaExceeded, "quota_exceeded", false},
    ErrorInfo{ErrorCode::kCommandNotFound, "command_not_found", false},
    ErrorInfo{ErrorCode::kCommandNotExecutable, "command_not_executable", false},
    ErrorInfo{ErrorCode::kWorkerFailed, "worker_failed", false},
    ErrorInfo{ErrorCode::kTimeout, "timeout", false},
    ErrorInfo{ErrorCode::kOutputLost, "output_lost", false},
    ErrorInfo{ErrorCode::kReaderGone, "reader_gone", false},
    ErrorInfo{ErrorCode::kInterrupted, "interrupted", false},
    ErrorInfo{ErrorCode::kWorkerStartFailed, "worker_start_failed", true},
    ErrorInfo{ErrorCode::kResetLimit, "reset_limit", false},
    ErrorInfo{ErrorCode::kPartialSuccess, "partial_success", false},
    ErrorInfo{ErrorCode::kStateLost, "state_lost", true},
    ErrorInfo{ErrorCode::kAborted, "aborted", true},
    ErrorInfo{ErrorCode::kKvRejected, "kv_rejected", false},
    ErrorInfo{ErrorCode::kAddressInUse, "address_in_use", true},
};

}  // namespace

std::span<const ErrorInfo> ErrorCatalogue() { return kCatalogue; }

const ErrorInfo& InfoOf(ErrorCode code) {
  for (const ErrorInfo& info : kCatalogue) {
    if (info.code == code) return info;
  }
  return kCatalogue[0];
}

std::string ErrorLabel(ErrorCode code) {
  return fmt::format("HVD-E{:04d}", static_cast<unsigned>(code));
}

}  // namespace hvdray
