// SPDX-License-Identifier: Apache-2.0
// Decides what a client does about its job on Ray. Pure, like the drivers: facts and a time in,
// steps out; ray_attach.h carries them out.
#ifndef HVDRAY_CLUSTER_RAY_RAY_FOLLOW_PLAN_H_
#define HVDRAY_CLUSTER_RAY_RAY_FOLLOW_PLAN_H_

#include <optional>
#include <string>
#include <vector>

#include "base/status.h"
#include "base/types.h"
#include "cluster/ray/ray_facts.h"
#include "launcher/report/stream_file.h"

namespace hvdray {

/// The state machine of a following client. Each On... takes a fact and returns the steps to take
/// now, in order. Threads: one.
class FollowPlan {
 public:
  /// One action of the client.
  struct Step {
    enum class Kind : uint8_t {
      kSay,        ///< Print the line `text` to stderr.
      kFollow,     ///< Read the job's stream from node `text` from now on.
      kReadRest,   ///< The job is over: read the rest of its stream, then call OnRest().
      kStop,       ///< Ask Ray to stop the job.
      kForceStop,  ///< Tell the stopping driver to force the stop.
      kFinish,     ///< Fetch files if the job has ended, then exit with outcome().
      kLeave,      ///< Exit with outcome() now; the job continues.
    };
    Kind kind;
    std::string text = {};
  };

  /// Exit code and error of the client.
  struct Outcome {
    int exit_code = 0;
    Status error;  ///< What the driver has not printed on the stream itself.
  };

  enum class OnSignal : uint8_t { kStopsJob, kLeavesJob };
  struct Options {
    std::string id;
    std::string how_to_follow;  ///< "hvdray follow ID", printed when leaving.
    std::string how_to_read;    ///< "hvdray logs ID", for what the driver itself has said.
    OnSignal on_signal = OnSignal::kStopsJob;
    bool is_quiet = false;
  };
  FollowPlan(Options options, TimePoint now) : options_(std::move(options)), began_(now) {}

  using Steps = std::vector<Step>;

  /// `likely_node`: most likely node of the driver; its stream may be read before Ray reports the
  /// node.
  Steps Begin(const std::string& likely_node);
  /// Ray's answer to the question for the job's state. Follows the driver to its node, repeats a
  /// stop that Ray has not carried out, and reads the rest of the stream once the job is over.
  Steps OnJob(const RayJob& job, TimePoint now);
  /// Ray answers that it has no such job.
  Steps OnJobUnknown();
  /// The request to Ray failed.
  Steps OnNoAnswer(const Status& why, TimePoint now);
  /// The stream's last record has arrived.
  Steps OnEnd(StreamEnd end, TimePoint now);
  /// The stream has been read to its end, or can't be read. `last_line`: of the job's own log.
  Steps OnRest(const std::string& last_line);
  /// This process got `signo`: stops the job, or with kLeavesJob leaves it. Once a stop has begun,
  /// a signal forces it; the third one (StopNow() counts as the first) leaves the job. Exit code on
  /// leaving: 128 + `signo`.
  Steps OnSignalTo(int signo);
  /// Stops the job without a signal to this process.
  Steps StopNow();
  /// kStop did not reach Ray: tries again later.
  Steps OnStopFailed(const Status& why);
  /// Our stdout has no reader: stops the job, or with kLeavesJob leaves it, as SIGPIPE would. No
  /// effect once a signal has begun a stop.
  Steps OnReaderGone();
  /// Valid after kFinish, too.
  void OnOutputLost(const Status& why);
  /// Call regularly: finishes without Ray if the stream has ended and Ray does not say within 15 s
  /// that the job is over.
  Steps OnTick(TimePoint now);

  /// Time until the next request for the job's state.
  Duration AskPause() const;
  const Outcome& outcome() const { return outcome_; }
  bool is_done() const { return is_done_; }
  /// The first stop signal that this client got, or SIGPIPE if its reader has gone; 0: none.
  int stop_signo() const { return stop_signo_; }

 private:
  Steps Stop();
  void Say(Steps& steps, std::string text) const;
  Steps Finish(Outcome outcome);
  Steps FinishByEnd();
  Status StoppedByOthers() const;
  Status NotThere(const Status& why, Duration silence) const;
  Outcome OutcomeWithoutEnd(const std::string& last_line) const;
  int CodeOfStop(int driver_code) const;

  const Options options_;
  const TimePoint began_;
  std::optional<RayJob> job_;
  std::string followed_;  // node
  std::optional<StreamEnd> end_;
  TimePoint end_at_{};
  bool is_reading_rest_ = false;
  int stop_signo_ = 0;
  int signals_ = 0;
  bool is_stop_wanted_ = false;
  bool is_stop_owed_ = false;
  bool is_stop_failure_told_ = false;
  std::optional<TimePoint> silent_since_;  // since when Ray has not answered
  int unanswered_ = 0;                     // requests since then
  bool is_silence_told_ = false;
  int pending_told_ = 0;
  Status output_lost_;
  Outcome outcome_;
  bool is_done_ = false;
};

}  // namespace hvdray

#endif  // HVDRAY_CLUSTER_RAY_RAY_FOLLOW_PLAN_H_
