// SPDX-License-Identifier: Apache-2.0
// The communicators that MakeCommunicator() chooses from.
#ifndef HVDRAY_COLLECTIVE_BACKENDS_H_
#define HVDRAY_COLLECTIVE_BACKENDS_H_

#include <memory>
#include <string>
#include <vector>

#include "base/result.h"
#include "collective/communicator.h"
#include "collective/mesh.h"
#include "collective/shm_segment.h"

namespace hvdray {

/// For ranks that all map `segment`. Ranks are the segment's. `joined`: the step that all have
/// posted as kWritten last. operation_timeout: as CommunicatorOptions has it.
std::unique_ptr<Communicator> MakeShmCommunicator(std::unique_ptr<ShmSegment> segment,
                                                  uint32_t joined = 1,
                                                  Duration operation_timeout = {});

/// Of the ranks of `mesh` that `members` lists, this one among them.
std::unique_ptr<Communicator> MakeNetworkCommunicator(std::shared_ptr<Mesh> mesh,
                                                      std::vector<int> members);

/// Of all ranks of `mesh`, those of a machine beside each other in `hosts`; `local` is of this
/// machine's.
std::unique_ptr<Communicator> MakeHierarchicalCommunicator(std::shared_ptr<Mesh> mesh,
                                                           std::unique_ptr<Communicator> local,
                                                           std::vector<std::vector<int>> hosts);

/// Of GPUs; `mesh` is of all ranks, nullptr for one. Errors: kNotSupported, kAborted,
/// kDeadlineExceeded, kSystem.
Result<std::unique_ptr<Communicator>> MakeNcclCommunicator(const CommunicatorOptions& options,
                                                           std::shared_ptr<Mesh> mesh);

/// Of one rank.
std::unique_ptr<Communicator> MakeSingleCommunicator();

/// Compares each call with those of all other ranks before `inner` runs it.
std::unique_ptr<Communicator> MakeCheckingCommunicator(std::unique_ptr<Communicator> inner);

}  // namespace hvdray

#endif  // HVDRAY_COLLECTIVE_BACKENDS_H_
