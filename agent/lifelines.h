// SPDX-License-Identifier: Apache-2.0
// Watches what an agent depends on besides its link: each lifeline is a descriptor that becomes
// readable at its end (a pipe or a pidfd).
#ifndef HVDRAY_AGENT_LIFELINES_H_
#define HVDRAY_AGENT_LIFELINES_H_

#include <sys/types.h>

#include <functional>
#include <list>
#include <string>

#include "base/fd.h"
#include "base/loop.h"

namespace hvdray {

/// Owns the descriptors. Threads: the loop's.
class Lifelines {
 public:
  /// `on_lost(why)`: called from the loop at the end of each lifeline, with kAgentLost. OnLost()
  /// replaces it. The loop outlives this.
  Lifelines(Loop& loop, std::function<void(const Status& why)> on_lost)
      : loop_(loop), on_lost_(std::move(on_lost)) {}
  void OnLost(std::function<void(const Status& why)> on_lost) { on_lost_ = std::move(on_lost); }

  /// Discards bytes that arrive on `fd`. `why`: the message at its end, such as "the agent's keeper
  /// was killed".
  void Add(UniqueFd fd, std::string why);
  /// Watches another process; one that is already dead counts as lost at the next turn of the loop.
  /// Errors: those of pidfd_open(2), as ErrnoStatus() maps them.
  Status AddProcess(pid_t pid, std::string why);
  /// Why the first lifeline was lost; ok: all hold.
  const Status& lost() const { return lost_; }

 private:
  struct Line {
    UniqueFd fd;
    std::string why;
    Watch watch;
  };
  void Look(Line& line);
  void Lose(const Line& line);

  Loop& loop_;
  std::function<void(const Status&)> on_lost_;
  std::list<Line> lines_;
  Status lost_;
};

}  // namespace hvdray

#endif  // HVDRAY_AGENT_LIFELINES_H_
