// SPDX-License-Identifier: Apache-2.0
// What the launchers of both kinds of jobs do alike: the user's side of a job, the workers' output,
// errors and channels, the client of `hvdray serve`, the end and the common part of the report.
// Decides nothing.
#ifndef HVDRAY_LAUNCHER_ENGINE_JOB_LAUNCHER_H_
#define HVDRAY_LAUNCHER_ENGINE_JOB_LAUNCHER_H_

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "base/loop.h"
#include "launcher/driver/cause.h"
#include "launcher/driver/last_error.h"
#include "launcher/driver/verdict.h"
#include "launcher/engine/agent_set.h"
#include "launcher/engine/job_client.h"
#include "launcher/engine/job_console.h"
#include "launcher/engine/job_observers.h"
#include "launcher/engine/kv_bridge.h"
#include "launcher/engine/launcher.h"
#include "launcher/engine/serve_session.h"
#include "launcher/engine/stdin_feeder.h"
#include "launcher/engine/warm_starts.h"
#include "launcher/engine/worker_channels.h"
#include "launcher/engine/worker_errors.h"
#include "launcher/engine/worker_guard.h"
#include "launcher/report/progress.h"

namespace hvdray {

/// The base of FixedLauncher and ElasticLauncher. Workers are identified by the numbers that their
/// agents use: the rank in a job of fixed size, else a number that grows with each start. Threads:
/// the loop's.
class JobLauncher : public Launcher, protected JobClient::Owner {
 public:
  /// See OpenJob().
  virtual Status Open(std::optional<ServeOptions> client) = 0;
  JobReport Run() final;
  void StopBy(int signo) final { console_->OnStopSignal(signo); }
  void Say(std::string_view line) final;
  void Print(std::span<const std::string> lines) final { console_->Print(lines); }

 protected:
  /// `worker_word`: what messages call a worker. Loop and trace outlive this.
  JobLauncher(Loop& loop, Trace& trace, LaunchPlan plan, std::string_view worker_word);

  // What differs.
  virtual AgentSet& agents() = 0;
  virtual KvBridge& kv() = 0;
  /// Starts what needs the loop; called by Run().
  virtual void Start() = 0;
  virtual JobReport MakeReport() = 0;
  /// A worker's error, for the driver. `age`: since it appeared; nullopt: unchanged.
  virtual void FeedError(int worker, LastError error, std::optional<Duration> age) = 0;
  /// A worker's report, for --events.
  virtual void RecordReport(int worker, uint32_t number, const Json& metrics) = 0;
  /// Hosts no longer need the client's object.
  virtual void DropFromHosts(int64_t object) = 0;
  /// The client stops its gang.
  virtual void Dismiss(Duration grace) = 0;
  /// The driver has work to do before a session can end.
  virtual bool HasGang() const = 0;
  /// The session ends; no gang is left.
  virtual void OnServeEnd() {}
  /// The agents that were lost on this machine.
  virtual std::vector<uint32_t> LostPidsHere() = 0;

  /// Opens the output and --events, once there is a client. `handlers`: HandlersFeeding(*this),
  /// with on_forward_signal. Errors: kFileUnwritable.
  Status OpenConsole(JobConsole::Handlers handlers);
  /// Makes the client; nullopt: that of `hvdray run`. Errors: those of ServeSession::Open() and
  /// AgentSet::OfferMemory().
  Status OpenClient(std::optional<ServeOptions> serve);

  /// Drops the message if the worker was never started.
  void SendToWorker(int worker, wire::Body body);
  /// Feeds hvdray's stdin to the worker, which has been admitted.
  void StartStdin(int worker);
  void StopStdinOf(int worker);
  void DropStdin() { stdin_.reset(); }
  /// Announces on the channel that the worker is to end within `grace`.
  void TellEnd(int worker, Duration grace);
  /// Handles output, credits and requests to the store, and what the guard refuses; false: the
  /// message is another one.
  bool OnCommon(int agent, wire::Message& message);
  void OnWarmed(const std::string& host, const wire::Warmed& warmed);
  /// Tells how many threads the libraries of these workers start, if hvdray has chosen that.
  void SayThreads(const std::map<int, wire::StartGeneration>& messages);
  /// The progress line, while the driver has nothing to do.
  void OnIdle();

  /// The environment of the client's next gang: that of `hvdray serve`, with `added`.
  /// Errors: kUsage for a variable that only hvdray can set.
  Result<std::vector<std::string>> EnvironmentOf(
      const std::map<std::string, std::string>& added) const;
  /// A signal, or a reader that has gone, ends the session, whatever ends its gang.
  template <typename Fact>
  void EndServingOn(const Fact& fact) {
    if (const auto* signal = std::get_if<event::UserSignal>(&fact)) {
      EndServing(InterruptedCause(signal->signo));
    } else if (std::holds_alternative<event::ReaderGone>(fact)) {
      EndServing(ReaderGoneCause());
    }
  }
  /// Ends the session once its gang has ended.
  virtual void EndServing(const Cause& cause);
  void FinishServing();
  /// The job has ended: writes what is queued, ends the agents and stops the loop.
  void FinishConsole();

  /// Takes the verdict. `last`: of the worker that failed first.
  JobReport BeginReport(LastWords last);

  Loop& loop_;
  Trace& trace_;
  LaunchPlan plan_;
  WorkerGuard guard_;
  WorkerErrors errors_;
  WorkerChannels channels_;
  std::unique_ptr<JobConsole> console_;
  JobObservers observers_;
  StartProgress progress_;
  Verdict verdict_;

  std::unique_ptr<JobClient> client_;
  ServeEnd serve_end_;            // of a client with more than one gang
  bool is_sigint_first_ = false;  // the gang is dismissed that way

 private:
  WorkerChannels::Handlers MakeChannelHandlers();

  // Of JobClient::Owner, what is the same for both.
  void StopGang(Duration grace, bool is_sigint_first) final;
  void SignalWorker(int worker, int signo) final;
  void WriteTo(int worker, std::shared_ptr<const std::string> bytes) final;
  void GiveTo(int worker, int64_t object) final { channels_.Give(worker, object); }
  void DropObject(int64_t object) final { channels_.DropObject(object); }
  void OnceWritten(std::function<void()> done) final;
  size_t QueuedBytes() const final { return channels_.queued_bytes(); }
  void OnClientRoom() final { channels_.GrantWithheld(); }
  void OnClientsGone() final { EndServing({}); }

  const std::string_view worker_word_;
  WarmStarts warm_starts_;
  std::unique_ptr<StdinFeeder> stdin_;
  int stdin_worker_ = -1;
  std::vector<std::string> base_env_;  // without that of a gang's start
};

}  // namespace hvdray

#endif  // HVDRAY_LAUNCHER_ENGINE_JOB_LAUNCHER_H_
