// SPDX-License-Identifier: Apache-2.0
// Frees the survivors of a lost worker: shuts the Gloo connections between living workers, so that
// workers which wait for a peer learn of the loss at once, not after Horovod's timeout. Touches no
// other connection; others decide when. docs/elastic.md, "Survivors are freed at once".
#ifndef HVDRAY_AGENT_CONNECTION_BREAKER_H_
#define HVDRAY_AGENT_CONNECTION_BREAKER_H_

#include <sys/types.h>

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "agent/process_tree.h"
#include "agent/tcp_sockets.h"
#include "base/tcp_table.h"

namespace hvdray {

/// A worker that has not been reaped.
struct LivingWorker {
  pid_t pid = -1;
  int pidfd = -1;          ///< Of that process, owned by the caller. -1: Break() opens one.
  bool is_parked = false;  ///< It already waits in rank_and_size: Break() skips it.
};

/// Ends connections from outside: by pidfd_getfd(2) and shutdown(2), else by SOCK_DESTROY.
/// Threads: one. Blocks: for milliseconds (0.2 s at 16,000 connections).
class ConnectionBreaker {
 public:
  /// What Break() did, for ConnectionsBroken.
  struct Outcome {
    /// Shut ends of connections and listeners; a connection between two workers here counts twice.
    uint32_t shut = 0;
    /// Connections ended by sock_diag, because their descriptor could not be duplicated.
    uint32_t destroyed = 0;
    /// Workers with connections that could not be ended: they wait for Horovod's own timeout.
    uint32_t refused = 0;
    std::string why;   ///< Of the first refusal: the calls and the kernel's reasons; one line.
    std::string hint;  ///< What would permit the quick way; one line. Empty: no refusal.
    Duration took{};
  };

  /// Shuts every TCP connection of `workers`, established or in progress, with one end in
  /// `addresses` (sorted, as from MeshAddresses::Addresses()), and each of their sockets that
  /// listens on one of `listening` (sorted), so that workers waiting there for a peer fail as well.
  /// If a worker's own process has no such socket (a shell that waits for the training program),
  /// searches its descendants and process group. Idempotent: shut connections are not found again.
  /// Reports failures in the result and logs only the first refusal.
  Outcome Break(std::span<const LivingWorker> workers, std::span<const TcpAddress> addresses,
                std::span<const TcpAddress> listening = {});

 private:
  /// The outcome for one worker.
  struct Attempt {
    uint32_t matched = 0;
    uint32_t refused = 0;
    int error = 0;    ///< errno of the first refusal, by pidfd_getfd or in listing sockets.
    std::string why;  ///< The same as text.
  };
  /// The state of one Break().
  struct Round {
    TcpSockets sockets;
    std::span<const TcpAddress> addresses;
    std::span<const TcpAddress> listening;
    std::optional<std::vector<ProcessKin>> processes;  ///< Read when first needed.
    Outcome result;
  };

  void BreakWorker(const LivingWorker& worker, Round& round);
  void BreakProcess(pid_t pid, int pidfd, Round& round, Attempt& attempt);
  void End(int pidfd, const ProcessConnection& connection, Round& round, Attempt& attempt);
  void Refuse(const Attempt& attempt, Outcome& result);

  SockDiag diag_;
  bool has_logged_ = false;
};

}  // namespace hvdray

#endif  // HVDRAY_AGENT_CONNECTION_BREAKER_H_
