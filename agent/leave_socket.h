// SPDX-License-Identifier: Apache-2.0
// Tells agents that their machine goes away: a Unix socket in a directory of the user's own, one
// line per connection. Both ends: the agent's, and the one of `hvdray-agent --leave`.
#ifndef HVDRAY_AGENT_LEAVE_SOCKET_H_
#define HVDRAY_AGENT_LEAVE_SOCKET_H_

#include <sys/types.h>

#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "base/fd.h"
#include "base/loop.h"
#include "base/result.h"

namespace hvdray {

/// Largest N of "leave N"; the smallest is 0.
inline constexpr int kMaxLeaveSeconds = 86400;

/// "leave 120" -> 120 s; "leave" -> kDefaultLeave. nullopt: any other line. Pure.
std::optional<Duration> ParseLeave(std::string_view line);
inline constexpr Duration kDefaultLeave = std::chrono::seconds(30);

/// $XDG_RUNTIME_DIR/hvdray if that directory exists, else /tmp/hvdray-UID. Creates nothing.
std::string LeaveDirectory();

/// Accepts only connections of this user and of root. Threads: the loop's.
class LeaveSocket {
 public:
  /// Creates `directory`/agent-PID.sock, mode 0600, in a directory of mode 0700 that must be ours.
  /// Removes such sockets there of agents that are gone.
  /// The loop outlives the socket. Errors: kSystem, kFileUnwritable.
  static Result<std::unique_ptr<LeaveSocket>> Open(Loop& loop, const std::string& directory,
                                                   std::function<void(Duration)> on_leave);
  /// Removes the file, and the directory if nothing else is in it.
  ~LeaveSocket();

 private:
  struct Client {
    UniqueFd fd;
    std::string text;
    Watch watch;
    Watch limit;
  };
  LeaveSocket(Loop& loop, std::string path, UniqueFd fd, std::function<void(Duration)> on_leave);
  void Listen();
  void OnConnection();
  void OnReadable(int id);

  Loop& loop_;
  const std::string path_;
  UniqueFd fd_;
  const std::function<void(Duration)> on_leave_;
  std::map<int, Client> clients_;
  int last_id_ = 0;
  Watch watch_;
};

/// Removes the socket of an agent that was killed, if nobody listens there.
void RemoveDeadLeaveSocket(const std::string& directory, pid_t agent);

/// Sends "leave" to every agent with a socket in `directory`; returns how many accepted it. Skips
/// sockets of dead agents, and removes them if the directory is ours alone. Blocks for up to 2 s
/// per agent that does not answer. Errors: kUsage when no agent accepted it.
Result<int> TellAgentsToLeave(const std::string& directory, Duration in);

}  // namespace hvdray

#endif  // HVDRAY_AGENT_LEAVE_SOCKET_H_
