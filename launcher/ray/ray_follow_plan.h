// What a client does about its job on Ray, from what it hears of it: pure, like the drivers. Facts
// and a time in, steps out; ray_attach.h carries them out.
#ifndef HVDRAY_LAUNCHER_RAY_RAY_FOLLOW_PLAN_H_
#define HVDRAY_LAUNCHER_RAY_RAY_FOLLOW_PLAN_H_

#include <optional>
#include <string>
#include <vector>

#include "base/status.h"
#include "base/types.h"
#include "cluster/ray/ray_facts.h"
#include "launcher/report/record_reader.h"

namespace hvdray {

struct FollowStep {
  enum class Kind : uint8_t {
    kSay,       ///< A line of ours for stderr: `text`.
    kFollow,    ///< Read the job's stream at the node `text`, instead of where it was read.
    kReadRest,  ///< The job is over: read what is left of its stream, then OnRest().
    kStop,      ///< Ask Ray to stop the job.
    kHurry,     ///< Tell the driver that stops the job to do it at once.
    kFinish,    ///< Fetch files if there is an end, then leave with outcome().
    kLeave,     ///< Leave with outcome() now; the job goes on.
  };
  Kind kind;
  std::string text = {};
};

/// How it ended, for the exit code.
struct FollowOutcome {
  int exit_code = 0;
  Status error;  ///< What the driver has not said on the stream itself.
};

class FollowPlan {
 public:
  enum class OnSignal : uint8_t { kStopsJob, kLeavesJob };
  struct Options {
    std::string id;
    std::string how_to_follow;  ///< "hvdray follow ID": for those who leave.
    OnSignal on_signal = OnSignal::kStopsJob;
    bool is_quiet = false;
  };
  FollowPlan(Options options, TimePoint now) : options_(std::move(options)), began_(now) {}

  using Steps = std::vector<FollowStep>;

  /// The node that the job's driver is most likely on: its stream may be read before Ray has said
  /// where it is.
  Steps Begin(const std::string& likely_node);
  Steps OnJob(const RayJob& job, TimePoint now);
  Steps OnJobUnknown();
  /// Ray could not be asked.
  Steps OnNoAnswer(const Status& why, TimePoint now);
  Steps OnEnd(StreamEnd end, TimePoint now);
  /// All that the stream holds has been read, or can't be. `last_line` of the job's own log.
  Steps OnRest(const std::string& last_line);
  Steps OnSignalTo(int signo);
  /// --stop of hvdray follow.
  Steps StopNow();
  /// kStop did not reach Ray: it is to be tried again.
  Steps OnStopFailed(const Status& why);
  Steps OnReaderGone();
  /// Counts behind kFinish, too.
  void OnOutputLost(const Status& why);
  Steps OnTick(TimePoint now);

  /// How long to wait before Ray is asked again how the job is.
  Duration AskPause() const;
  const FollowOutcome& outcome() const { return outcome_; }
  bool is_done() const { return is_done_; }

 private:
  Steps Stop();
  void Say(Steps& steps, std::string text) const;
  Steps Finish(FollowOutcome outcome);
  Steps FinishByEnd();
  Status StoppedByOthers() const;
  Status NotThere(const Status& why, Duration silence) const;
  FollowOutcome OutcomeWithoutEnd(const std::string& last_line) const;
  int CodeOfStop(int driver_code) const;

  const Options options_;
  const TimePoint began_;
  std::optional<RayJob> job_;
  std::string followed_;  // node
  std::optional<StreamEnd> end_;
  TimePoint end_at_{};
  bool is_reading_rest_ = false;
  int stop_signo_ = 0;  // that this client got, or SIGPIPE for a reader that is gone
  int signals_ = 0;
  bool is_stop_wanted_ = false;
  bool is_stop_owed_ = false;
  bool is_stop_failure_told_ = false;
  std::optional<TimePoint> silent_since_;  // Ray has not answered since
  int unanswered_ = 0;                     // since then
  bool is_silence_told_ = false;
  int pending_told_ = 0;
  Status output_lost_;
  FollowOutcome outcome_;
  bool is_done_ = false;
};

}  // namespace hvdray

#endif  // HVDRAY_LAUNCHER_RAY_RAY_FOLLOW_PLAN_H_
