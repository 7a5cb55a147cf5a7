// SPDX-License-Identifier: Apache-2.0
// Workers that are joined as Gloo joins them, as real processes: each listens, tells its address in
// records as a mesh value has them, and holds one connection to every other; besides a few
// connections that are nobody's business.
#ifndef HVDRAY_TESTS_UNIT_AGENT_MESH_GANG_H_
#define HVDRAY_TESTS_UNIT_AGENT_MESH_GANG_H_

#include <sys/types.h>

#include <string>
#include <vector>

#include "agent/connection_breaker.h"
#include "base/fd.h"
#include "rendezvous/mesh_addresses.h"

namespace hvdray {

enum class MemberKind {
  kPlain,        ///< The worker is the member.
  kBehindShell,  ///< The worker waits for a child, which is the member.
  kNotDumpable,  ///< The member lets nobody without privileges look into it.
};

/// The value that member `rank` of `size` would PUT: size - 1 records of `address`.
std::string MeshValue(int size, const TcpAddress& address);

/// Forked from the test; all ended on destruction.
class MeshGang {
 public:
  /// family: AF_INET, or AF_INET6 for a mesh over ::1.
  explicit MeshGang(int size, MemberKind kind = MemberKind::kPlain, int family = AF_INET);
  ~MeshGang();
  MeshGang(const MeshGang&) = delete;
  MeshGang& operator=(const MeshGang&) = delete;

  /// As the relay would have learnt them.
  std::vector<TcpAddress> addresses() const { return mesh_.Addresses(); }
  /// All that were not killed.
  std::vector<LivingWorker> Living() const;
  pid_t pid(int rank) const { return members_[rank].pid; }

  /// SIGKILL to the whole group; back when it is reaped.
  void Kill(int rank);
  /// From now on the member waits for data of `peer`, and says when that wait ends.
  void WaitFor(int rank, int peer);
  /// In a blocking recv(), in which it serves nobody; back when it is in that call.
  void BlockInRecv(int rank, int peer);
  /// The member answers, and its wait has not ended.
  bool IsWaiting(int rank);
  /// "freed" and the errno of its recv, 0 for an end of file; "" when it still waits after a
  /// minute.
  std::string Freed(int rank);

  /// A byte through that connection and back.
  bool EchoWorks(int rank);   ///< To the next member that lives, by another listener of its host.
  bool RelayWorks(int rank);  ///< Between member and agent.
  bool ListenerWorks(int rank);  ///< A new connection to the member's other listener.

 private:
  struct Member {
    pid_t pid = -1;
    UniqueFd pidfd;
    UniqueFd control;
    UniqueFd relay;
    uint16_t mesh_port = 0;
    uint16_t echo_port = 0;
  };
  std::string Ask(int rank, const std::string& question);
  std::string Read(int rank);

  std::vector<Member> members_;
  MeshAddresses mesh_;
};

}  // namespace hvdray

#endif  // HVDRAY_TESTS_UNIT_AGENT_MESH_GANG_H_
