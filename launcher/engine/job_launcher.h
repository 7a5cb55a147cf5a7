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
#include <vector>

#include "base/loop.h"
#include "launcher/driver/cause.h"
#include "launcher/driver/last_error.h"
#include "launcher/driver/verdict.h"
#include "launcher/engine/elastic_hosts.h"
#include "launcher/engine/job_agents.h"
#include "launcher/engine/job_client.h"
#include "launcher/engine/job_console.h"
#include "launcher/engine/job_observers.h"
#include "launcher/engine/launcher.h"
#include "launcher/engine/serve_session.h"
#include "launcher/engine/warm_starts.h"
#include "launcher/engine/worker_errors.h"
#include "launcher/engine/worker_links.h"
#include "launcher/report/progress.h"

namespace hvdray {

/// The base of FixedLauncher and ElasticLauncher. Workers are identified by the numbers that their
/// agents use: the rank in a job of fixed size, else a number that grows with each start. Threads:
/// the loop's.
class JobLauncher : public Launcher,
                    protected JobClient::Owner,
                    protected JobAgents::Listener,
                    private WorkerLinks::Owner,
                    private JobConsole::Owner {
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
  virtual JobAgents& agents() = 0;
  /// Starts what needs the loop; called by Run().
  virtual void Start() = 0;
  virtual JobReport MakeReport() = 0;
  /// A worker's error, for the driver. `age`: since it appeared; nullopt: unchanged.
  virtual void FeedError(int worker, LastError error, std::optional<Duration> age) = 0;
  /// What the user does, for the driver.
  virtual void FeedUserEvent(UserEvent event) = 0;
  /// The client stops its gang.
  virtual void Dismiss(Duration grace) = 0;
  /// The driver has work to do before a session can end.
  virtual bool HasGang() const = 0;
  /// The session ends; no gang is left.
  virtual void OnServeEnd() {}

  /// Makes the client and the links to the workers; nullopt: the client of `hvdray run`. Errors:
  /// those of ServeSession::Open() and AgentSet::OfferMemory().
  Status OpenClient(std::optional<ServeOptions> serve);
  /// Opens the output and --events, once there is a client. Errors: kFileUnwritable.
  Status OpenConsole();

  /// Handles output, credits and requests to the store, and what an agent may not send; false: the
  /// message is another one.
  bool OnCommon(int agent, wire::Message& message);
  void OnWarmed(const std::string& host, Generation generation, const wire::Warmed& warmed);
  /// Tells how many threads the libraries of these workers start, if hvdray has chosen that.
  void SayThreads(const std::map<int, wire::StartGeneration>& messages);
  /// The progress line, while the driver has nothing to do.
  void OnIdle();

  /// The environment of the client's next gang: that of `hvdray serve`, with `added`.
  /// Errors: kUsage for a variable that only hvdray can set.
  Result<std::vector<std::string>> EnvironmentOf(
      const std::map<std::string, std::string>& added) const;
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
  WorkerErrors errors_;
  std::unique_ptr<WorkerLinks> workers_;  // from OpenClient() on
  std::unique_ptr<JobConsole> console_;
  JobObservers observers_;
  StartProgress progress_;
  Verdict verdict_;

  std::unique_ptr<JobClient> client_;
  ServeEnd serve_end_;            // of a client with more than one gang
  bool is_sigint_first_ = false;  // the gang is dismissed that way

 private:
  // Of JobClient::Owner, what is the same for both.
  void StopGang(Duration grace, bool is_sigint_first) final;
  void PutObject(const wire::ObjectPiece& piece) final;
  bool MapObject(int64_t object, const std::shared_ptr<const UniqueFd>& memory) final;
  bool HasObjectRoom() override { return agents().objects().HasRoom(); }
  void OnceWritten(std::function<void()> done) final;
  void OnClientsGone() final { EndServing({}); }

  // Of JobAgents::Listener.
  void OnOutputRoom() final { client_->OnTaken(); }
  void OnNoise(std::string_view line) final { console_->output().Say(line); }

  // Of WorkerLinks::Owner; OnReport() differs.
  JobClient& client() final { return *client_; }
  void OnOutput(wire::Output& output) final;
  void OnViolation(int worker, const Status& why) final;

  // Of JobConsole::Owner.
  /// A stop signal, or a reader that has gone, ends the session, whatever ends its gang.
  void OnUserEvent(UserEvent event) final;
  void OnConsumed(int worker, uint32_t bytes) final { workers_->OnWritten(worker, bytes); }

  const std::string_view worker_word_;
  WarmStarts warm_starts_;
  std::vector<std::string> base_env_;  // without that of a gang's start
};

/// Of a fixed job, and of an elastic one, which needs `reach` with hosts and source. For OpenJob().
std::unique_ptr<JobLauncher> MakeFixedLauncher(Loop& loop, const JobReach& reach, Trace& trace,
                                               LaunchPlan plan);
std::unique_ptr<JobLauncher> MakeElasticLauncher(Loop& loop, const JobReach& reach, Trace& trace,
                                                 LaunchPlan plan);

}  // namespace hvdray

#endif  // HVDRAY_LAUNCHER_ENGINE_JOB_LAUNCHER_H_
