// How long a blocking step of a connection may take, and who may call it off.
#ifndef HVDRAY_CLUSTER_SSH_SSH_LIMIT_H_
#define HVDRAY_CLUSTER_SSH_SSH_LIMIT_H_

#include "base/status.h"
#include "base/types.h"

namespace hvdray {

struct SshLimit {
  TimePoint deadline;
  int cancel_fd = -1;  ///< Readable: give up. -1: nobody can. The caller keeps it open.

  static SshLimit In(Duration duration, int cancel_fd = -1);
  /// The same, but over `duration` from now on at the latest.
  SshLimit NoLaterThan(Duration duration) const;
  /// At least 0.
  Duration Remaining() const;
};

/// Blocks until `fd` is ready for one of `events` (POLLIN, POLLOUT; errors and hang-ups count as
/// ready). Errors: kConnectTimeout, kCancelled, kSystem.
Status WaitForFd(int fd, short events, const SshLimit& limit);

}  // namespace hvdray

#endif  // HVDRAY_CLUSTER_SSH_SSH_LIMIT_H_
