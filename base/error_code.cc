// SPDX-License-Identifier: Apache-2.0
#include "base/error_code.h"

#include <fmt/format.h>

#include <array>

namespace hvdray {
namespace {

constexpr std::array kCatalogue = {
    ErrorInfo{ErrorCode::kInternal, "internal", false, "a bug in hvdray"},
    ErrorInfo{ErrorCode::kSystem, "system", false, "a system call failed"},
    ErrorInfo{ErrorCode::kOutOfResources, "out_of_resources", true,
              "descriptors, processes, memory or disk ran out"},
    ErrorInfo{ErrorCode::kCancelled, "cancelled", false, "cancelled because something else ended"},
    ErrorInfo{ErrorCode::kDeadlineExceeded, "deadline_exceeded", true,
              "an operation took longer than its limit"},
    ErrorInfo{ErrorCode::kUsage, "usage", false, "the command line is wrong"},
    ErrorInfo{ErrorCode::kSpecInvalid, "spec_invalid", false,
              "a job, cluster, config or host file is wrong"},
    ErrorInfo{ErrorCode::kNotEnoughSlots, "not_enough_slots", false,
              "more processes requested than the hosts have slots"},
    ErrorInfo{ErrorCode::kFileUnreadable, "file_unreadable", false, "a file cannot be read"},
    ErrorInfo{ErrorCode::kFileUnwritable, "file_unwritable", false,
              "a file or directory cannot be written"},
    ErrorInfo{ErrorCode::kNotSupported, "not_supported", false,
              "valid, but hvdray does not support it"},
    ErrorInfo{ErrorCode::kEnvironmentTooLarge, "environment_too_large", false,
              "the environment or command is too large for the kernel"},
    ErrorInfo{ErrorCode::kPackageTooLarge, "package_too_large", false,
              "a directory's package is larger than Ray accepts"},
    ErrorInfo{ErrorCode::kHostUnreachable, "host_unreachable", true, "no route to a host"},
    ErrorInfo{ErrorCode::kHostRefused, "host_refused", true, "a host refused the connection"},
    ErrorInfo{ErrorCode::kAgentStartFailed, "agent_start_failed", false,
              "a host's agent did not start"},
    ErrorInfo{ErrorCode::kConnectTimeout, "connect_timeout", true, "a host did not answer in time"},
    ErrorInfo{ErrorCode::kAgentLost, "agent_lost", true,
              "the link to an agent closed or fell silent"},
    ErrorInfo{ErrorCode::kProtocolMismatch, "protocol_mismatch", false,
              "launcher and agent share no protocol version"},
    ErrorInfo{ErrorCode::kProtocolError, "protocol_error", false,
              "a peer sent bytes that the protocol does not allow"},
    ErrorInfo{ErrorCode::kNoCapacity, "no_capacity", true, "slots did not become free in time"},
    ErrorInfo{ErrorCode::kUnknownHost, "unknown_host", false, "a host name has no address"},
    ErrorInfo{ErrorCode::kNoUsableInterface, "no_usable_interface", false,
              "no network interface matches"},
    ErrorInfo{ErrorCode::kHandshakeFailed, "handshake_failed", true,
              "a host closed the connection or speaks an unknown protocol"},
    ErrorInfo{ErrorCode::kHostKeyRejected, "host_key_rejected", false,
              "a host's key or certificate is not trusted"},
    ErrorInfo{ErrorCode::kAuthenticationFailed, "authentication_failed", false,
              "a host rejected our login"},
    ErrorInfo{ErrorCode::kHostBusy, "host_busy", true, "a host's sshd is busy or not ready yet"},
    ErrorInfo{ErrorCode::kSyncFailed, "sync_failed", false,
              "a directory could not be copied to a host"},
    ErrorInfo{ErrorCode::kRayUnreachable, "ray_unreachable", true,
              "the Ray dashboard does not answer"},
    ErrorInfo{ErrorCode::kRayDenied, "ray_denied", false, "a Ray cluster denied access"},
    ErrorInfo{ErrorCode::kRayFailed, "ray_failed", true,
              "a Ray cluster could not do what was requested"},
    ErrorInfo{ErrorCode::kInfeasible, "infeasible", false,
              "no node of the cluster can ever hold what was requested"},
    ErrorInfo{ErrorCode::kCommandNotFound, "command_not_found", false,
              "the command does not exist on the worker's host"},
    ErrorInfo{ErrorCode::kCommandNotExecutable, "command_not_executable", false,
              "the command exists but cannot be executed"},
    ErrorInfo{ErrorCode::kWorkerFailed, "worker_failed", false,
              "a worker exited non-zero or died by a signal"},
    ErrorInfo{ErrorCode::kTimeout, "timeout", false, "the job reached --timeout"},
    ErrorInfo{ErrorCode::kOutputLost, "output_lost", false,
              "output or a report could not be written completely"},
    ErrorInfo{ErrorCode::kReaderGone, "reader_gone", false, "the reader of stdout went away"},
    ErrorInfo{ErrorCode::kInterrupted, "interrupted", false, "a signal stopped hvdray"},
    ErrorInfo{ErrorCode::kWorkerStartFailed, "worker_start_failed", true,
              "a worker process could not be created"},
    ErrorInfo{ErrorCode::kResetLimit, "reset_limit", false,
              "an elastic job changed more often than --reset-limit allows"},
    ErrorInfo{ErrorCode::kPartialSuccess, "partial_success", false,
              "some workers succeeded before the others ended"},
    ErrorInfo{ErrorCode::kStateLost, "state_lost", true,
              "no remaining worker has the state of an elastic job"},
    ErrorInfo{ErrorCode::kAborted, "aborted", true, "a peer left a collective operation"},
    ErrorInfo{ErrorCode::kKvRejected, "kv_rejected", false, "the rendezvous refused a request"},
    ErrorInfo{ErrorCode::kAddressInUse, "address_in_use", true,
              "the address to listen on is taken"},
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
