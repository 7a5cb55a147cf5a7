// What has to stay open for an agent to go on, beside its link: each a descriptor that becomes
// readable at its end (a pipe, a pidfd).
#ifndef HVDRAY_AGENT_LIFELINES_H_
#define HVDRAY_AGENT_LIFELINES_H_

#include <sys/types.h>

#include <functional>
#include <list>
#include <string>

#include "base/fd.h"
#include "base/loop.h"

namespace hvdray {

/// Threads: the loop's.
class Lifelines {
 public:
  /// `on_lost` (kAgentLost) is called at the end of each, from the loop; it may be set anew.
  Lifelines(Loop& loop, std::function<void(const Status& why)> on_lost)
      : loop_(loop), on_lost_(std::move(on_lost)) {}
  void OnLost(std::function<void(const Status& why)> on_lost) { on_lost_ = std::move(on_lost); }

  /// Bytes that come on it mean nothing. `why`: "the agent's keeper was killed".
  void Add(UniqueFd fd, std::string why);
  /// The life of another process. Errors: kSystem; one that is dead already is lost at once.
  Status AddProcess(pid_t pid, std::string why);
  /// Of the first that has ended; ok while all hold.
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
