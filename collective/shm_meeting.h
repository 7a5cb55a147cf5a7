// SPDX-License-Identifier: Apache-2.0
// Finds out which ranks share memory, and gives it to them.
#ifndef HVDRAY_COLLECTIVE_SHM_MEETING_H_
#define HVDRAY_COLLECTIVE_SHM_MEETING_H_

#include <sys/types.h>

#include <memory>
#include <span>
#include <string>
#include <vector>

#include "base/fd.h"
#include "base/result.h"
#include "base/types.h"
#include "collective/shm_segment.h"
#include "collective/store.h"

namespace hvdray {

/// Each rank tells rank 0 which machine, user and namespaces it has, and its pid, and listens on a
/// Unix socket with a random name. Rank 0 publishes who seems to be together. Among those, the
/// lowest rank makes the memory and passes it to who asks at its socket: the memory carries a
/// random token of the listener, which the others know from the store. That proves it; no variable
/// is believed.
class ShmMeeting {
 public:
  /// Whether ranks can watch each other here, without which none shares memory. Errors:
  /// kNotSupported.
  static Status CheckSupported();

  /// Publishes this rank and reads where all others are. Blocks; all ranks call it.
  /// Errors: as Store, kSystem, kOutOfResources.
  static Result<ShmMeeting> Join(Store& store, int rank, int size, Duration timeout);

  /// For each rank the lowest rank on its host.
  const std::vector<int>& leaders() const { return leaders_; }
  bool SharesAll() const;
  /// The ranks of each host, in the order of their lowest.
  std::vector<std::vector<int>> Hosts() const;
  /// The ranks of this host, in order.
  std::vector<int> MembersHere() const;

  /// The memory of this rank's host, once all its ranks have it. In it ranks count from 0 in order.
  /// Blocks; all ranks of the host call it. Errors: kDeadlineExceeded, kAborted, kNotSupported,
  /// kOutOfResources, kSystem, naming the rank that did not come or can't share.
  Result<std::unique_ptr<ShmSegment>> Share(Store& store);

  /// Takes this rank's keys out of the store. Only when all ranks have joined. Errors: as Store.
  Status Forget(Store& store) const;

 private:
  ShmMeeting() = default;
  Status AwaitAsker(const std::vector<int>& members, std::span<const UniqueFd> processes,
                    TimePoint deadline) const;
  Status HasDied(int rank) const;
  Status WhyGone(Store& store, int leader, const std::string& attempt) const;
  Result<std::vector<pid_t>> AwaitMembers(const std::vector<int>& members,
                                          std::vector<UniqueFd>& sockets) const;
  Result<std::unique_ptr<ShmSegment>> GiveMemory(Store& store, const std::vector<int>& members);
  Result<std::unique_ptr<ShmSegment>> TakeMemory(Store& store, int position);

  int rank_ = 0;
  Duration timeout_{};
  UniqueFd listener_;
  std::string name_;   ///< Of the listener: of this rank, then of its host's lowest.
  std::string token_;  ///< Likewise.
  std::vector<int> leaders_;
  std::vector<pid_t> pids_;  ///< Valid for ranks of this host only.
};

}  // namespace hvdray

#endif  // HVDRAY_COLLECTIVE_SHM_MEETING_H_
