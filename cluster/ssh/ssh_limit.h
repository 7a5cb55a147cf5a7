// SPDX-License-Identifier: Apache-2.0
// The time limit of a blocking step of a connection, and its cancellation.
#ifndef HVDRAY_CLUSTER_SSH_SSH_LIMIT_H_
#define HVDRAY_CLUSTER_SSH_SSH_LIMIT_H_

#include "base/status.h"
#include "base/types.h"

namespace hvdray {

/// By value; owns nothing.
struct SshLimit {
  TimePoint deadline;
  int cancel_fd = -1;  ///< Readable: give up. -1: not cancellable. The caller keeps it open.

  /// The limit that expires `duration` from now.
  static SshLimit In(Duration duration, int cancel_fd = -1);
  /// This limit, but at most `duration` from now.
  SshLimit NoLaterThan(Duration duration) const;
  /// At least 0.
  Duration Remaining() const;
};

/// Blocks until `fd` is ready for one of `events` (POLLIN, POLLOUT; errors and hang-ups count as
/// ready). Errors: kConnectTimeout, kCancelled, kSystem.
Status WaitForFd(int fd, short events, const SshLimit& limit);

}  // namespace hvdray

#endif  // HVDRAY_CLUSTER_SSH_SSH_LIMIT_H_
