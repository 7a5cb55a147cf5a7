// SPDX-License-Identifier: Apache-2.0
// Helper programs that the launcher starts itself (a local agent, ssh, a remote shell): a child
// with a stream on its stdin and stdout. Never starts workers: only agents do.
#ifndef HVDRAY_CLUSTER_TRANSPORT_CHILD_PROCESS_H_
#define HVDRAY_CLUSTER_TRANSPORT_CHILD_PROCESS_H_

#include <sys/types.h>

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "base/fd.h"
#include "base/loop.h"
#include "base/result.h"
#include "cluster/transport/transport.h"

namespace hvdray {

/// Who ends a child.
enum class ChildEnd : uint8_t {
  kItself,   ///< It notices that its stdin has ended.
  kDropped,  ///< We do: it may wait for a network. Also the kernel, should it kill our thread.
};

/// Ends children that nobody waits for any more: SIGTERM for their process groups, and SIGKILL for
/// those that are still there a moment later. Reaps them. Threads: the loop's.
class ChildEnder {
 public:
  explicit ChildEnder(Loop& loop);
  ~ChildEnder();
  ChildEnder(const ChildEnder&) = delete;
  ChildEnder& operator=(const ChildEnder&) = delete;

  /// `pid` leads its group and is not reaped yet.
  void End(pid_t pid, UniqueFd pidfd);
  /// Returns once all have ended; blocks for a moment at most. From then on End() does as well, and
  /// needs no loop.
  void Close();

 private:
  struct Child {
    UniqueFd pidfd;
    TimePoint deadline;
    Watch ended;
    Watch late;
  };
  static void Reap(pid_t pid, const Child& child);

  Loop& loop_;
  std::map<pid_t, Child> children_;
  bool is_closed_ = false;
};

/// Starts `command` as SpawnHelper() does, with one socket as its stdin and stdout, and calls
/// `done` once. `name`: the child in messages ("agent", "ssh"). on_stderr: called with each line of
/// its stderr, without the newline; empty: it inherits our stderr. The AgentProcess reports its end
/// (ok: exit code 0; otherwise kAgentLost with the code or signal) after its stderr has been read
/// to the end, or shortly later if a grandchild holds stderr open. The loop outlives both. Errors:
/// kAgentStartFailed when it can't be executed, kOutOfResources, kSystem. With `ender`, the child
/// is kDropped: the end of the AgentProcess ends it.
void StartChild(Loop& loop, std::string name, const std::vector<std::string>& command,
                std::function<void(std::string line)> on_stderr,
                std::function<void(Result<AgentStart>)> done,
                std::shared_ptr<ChildEnder> ender = nullptr);

/// argv for a shell command of the user's, `arguments` its "$1" and so on, that kDropped ends
/// whole: a shell that only waits dies with its group when it gets SIGTERM, where one that runs a
/// program would leave that behind.
std::vector<std::string> TiedShell(const std::string& command,
                                   std::vector<std::string> arguments = {});

// The spawn itself, for callers that want the descriptors and the exit status.

/// A running child. The caller must reap it. It leads a session and a process group; `pid` is the
/// group's number until it is reaped.
struct Helper {
  pid_t pid = -1;
  UniqueFd pidfd;  ///< Readable once it has ended.
};

/// As SpawnHelper() with kDropped, for a caller that reaps the child itself: sets `pid` and returns
/// 0, or an errno.
int SpawnTied(const std::vector<std::string>& command, int in, int out, int err, pid_t& pid);

/// Starts `command` (argv; the first word is looked up in PATH unless it contains a slash) in its
/// own session with default signals, so signals of the terminal reach the launcher only. The child
/// has no other open descriptor of ours. `in`, `out`, `err`: become its stdin, stdout and stderr;
/// the caller keeps owning them. err -1: it inherits our stderr. kDropped: SIGTERM ends it with the
/// calling thread; the caller must end it before.
/// Errors: kAgentStartFailed when it can't be executed, kOutOfResources, kSystem; no child is left.
Result<Helper> SpawnHelper(const std::vector<std::string>& command, int in, int out, int err,
                           ChildEnd end = ChildEnd::kItself);

}  // namespace hvdray

#endif  // HVDRAY_CLUSTER_TRANSPORT_CHILD_PROCESS_H_
