// SPDX-License-Identifier: Apache-2.0
// Agents on this machine: hvdray-agent as a child, its frames over a socketpair.
#ifndef HVDRAY_CLUSTER_TRANSPORT_LOCAL_TRANSPORT_H_
#define HVDRAY_CLUSTER_TRANSPORT_LOCAL_TRANSPORT_H_

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "base/fd.h"
#include "base/loop.h"
#include "cluster/transport/transport.h"

namespace hvdray {

/// A program's file, held open. An upgrade may replace or remove it while a job runs; hosts that
/// join later still get the one that the job began with. Movable; threads: any.
class HeldProgram {
 public:
  /// A file that can't be opened is not held.
  explicit HeldProgram(std::string path);
  /// A name of the file that is held, for this process and its children: its path while that is
  /// still the same file.
  std::string Path() const;

 private:
  std::string path_;
  UniqueFd file_;
};

/// `agent`: the executable; `agent_arguments`: its arguments. The loop outlives the transport.
std::unique_ptr<Transport> MakeLocalTransport(Loop& loop, HeldProgram agent,
                                              std::vector<std::string> agent_arguments = {});

}  // namespace hvdray

#endif  // HVDRAY_CLUSTER_TRANSPORT_LOCAL_TRANSPORT_H_
