// Frees the survivors of a lost worker: shuts the Gloo connections of living workers, so that who
// waits for data from somebody that waits for nobody learns of the loss at once and not after
// Horovod's timeout (Horovod spec 3.10.1). Touches no other connection; decides not when.
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
  int pidfd = -1;          ///< Of that process; stays the caller's. -1: made here.
  bool is_parked = false;  ///< It waits in rank_and_size already: it is left alone.
};

struct BreakResult {
  /// Ends of connections that were shut, and listeners; both ends of one between two workers here
  /// count.
  uint32_t shut = 0;
  /// Connections that had to be ended by sock_diag, because their descriptor was not to be had.
  uint32_t destroyed = 0;
  /// Workers some of whose connections could not be ended: they wait for Horovod's own timeout.
  uint32_t refused = 0;
  std::string why;   ///< Of the first that was refused: calls and the kernel's reasons; one line.
  std::string hint;  ///< What would allow the quick way; one line. Empty: nothing was refused.
  Duration took{};
};

/// Threads: one. Blocks: for milliseconds (0.2 s at 16,000 connections).
class ConnectionBreaker {
 public:
  /// Shuts every TCP connection of `workers`, established or about to be, one end of which is in
  /// `addresses` (sorted as MeshAddresses::Addresses() gives them), and every socket of theirs that
  /// listens on one of `listening` (sorted): who waits there for a peer is told as well. Where a
  /// worker's own process has none, as a shell that waits for the training program, its descendants
  /// and its process group are looked at instead. Idempotent: what is shut already is not found
  /// again. Never fails: see the result. The first refusal is logged, and no other.
  BreakResult Break(std::span<const LivingWorker> workers, std::span<const TcpAddress> addresses,
                    std::span<const TcpAddress> listening = {});

 private:
  /// What became of the connections of one worker.
  struct Attempt {
    uint32_t matched = 0;
    uint32_t refused = 0;
    int error = 0;    ///< The first refusal's errno of pidfd_getfd, or of looking.
    std::string why;  ///< Of that.
  };
  struct Round {
    TcpSockets sockets;
    std::span<const TcpAddress> addresses;
    std::span<const TcpAddress> listening;
    std::optional<std::vector<ProcessKin>> processes;  ///< Read when first needed.
    BreakResult result;
  };

  void BreakWorker(const LivingWorker& worker, Round& round);
  void BreakProcess(pid_t pid, int pidfd, Round& round, Attempt& attempt);
  void End(int pidfd, const ProcessConnection& connection, Round& round, Attempt& attempt);
  void Refuse(const Attempt& attempt, BreakResult& result);

  SockDiag diag_;
  bool has_logged_ = false;
};

}  // namespace hvdray

#endif  // HVDRAY_AGENT_CONNECTION_BREAKER_H_
