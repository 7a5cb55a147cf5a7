// Where somebody on the host tells its agents that the machine will be taken away: a socket in a
// folder of the user's own, one line a connection. And the other end, for `hvdray-agent --leave`.
#ifndef HVDRAY_AGENT_CONTROL_SOCKET_H_
#define HVDRAY_AGENT_CONTROL_SOCKET_H_

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

/// Seconds of "leave N": range [0, 86400].
inline constexpr int kMaxLeaveSeconds = 86400;

/// "leave 120" -> 120 s; "leave" -> kDefaultLeave. nullopt: another line. Pure.
std::optional<Duration> ParseLeave(std::string_view line);
inline constexpr Duration kDefaultLeave = std::chrono::seconds(30);

/// $XDG_RUNTIME_DIR/hvdray, else /tmp/hvdray-UID. Pure but for the environment and the uid.
std::string ControlFolder();

/// Threads: the loop's. Hears only this user and root.
class ControlSocket {
 public:
  /// Makes FOLDER/agent-PID.sock, mode 0600, in a folder of mode 0700 that must be ours. `on_leave`
  /// is called from the loop; it may not destroy the socket. Errors: kSystem, kFileUnwritable.
  static Result<std::unique_ptr<ControlSocket>> Open(Loop& loop, const std::string& folder,
                                                     std::function<void(Duration)> on_leave);
  /// Takes the file away.
  ~ControlSocket();

 private:
  struct Client {
    UniqueFd fd;
    std::string text;
    Watch watch;
    Watch limit;
  };
  ControlSocket(Loop& loop, std::string path, UniqueFd fd, std::function<void(Duration)> on_leave);
  void Listen();
  void OnConnection();
  void OnReadable(int id);
  void Drop(int id);

  Loop& loop_;
  const std::string path_;
  UniqueFd fd_;
  const std::function<void(Duration)> on_leave_;
  std::map<int, Client> clients_;
  int last_id_ = 0;
  Watch watch_;
};

/// Tells every agent that has a socket in `folder`. Returns how many took it; those that do not
/// listen any more are passed over, and their files taken away where the folder is ours alone.
/// Blocks for moments. Errors: kUsage when there is none.
Result<int> TellAgentsToLeave(const std::string& folder, Duration in);

}  // namespace hvdray

#endif  // HVDRAY_AGENT_CONTROL_SOCKET_H_
