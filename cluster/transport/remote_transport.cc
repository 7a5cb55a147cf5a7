// SPDX-License-Identifier: Apache-2.0
#include "cluster/transport/remote_transport.h"

#include <fmt/format.h>

#include <cmath>
#include <deque>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <utility>

#include "base/gzip.h"
#include "base/log.h"
#include "base/text.h"
#include "cluster/transport/agent_bootstrap.h"

namespace hvdray {
namespace {

using DoneFn = std::function<void(Result<AgentStart>)>;

// How a process ended tells more than a closed stream; wait this long for it.
constexpr Duration kExitReasonWait = std::chrono::seconds(1);

// A host whose shell has not become an agent yet.
struct Pending {
  std::string host;
  DoneFn done;
  std::unique_ptr<StagedStream> stream;
  std::unique_ptr<AgentProcess> process;
  std::optional<Status> how;
  bool is_closed = false;
  bool has_answered = false;  // the shell there has run
  bool has_asked = false;     // for the agent
  int retries = 0;
  Watch reason_timer;
  Watch retry_timer;
  Watch answer_timer;
};

class RemoteTransport : public Transport {
 public:
  RemoteTransport(Loop& loop, BlockingPool& pool, RemoteShell& shell, RemoteStderr& errors,
                  RemoteTransportOptions options)
      : loop_(loop),
        pool_(pool),
        shell_(shell),
        errors_(errors),
        options_(std::move(options)),
        random_(options_.retry.seed),
        command_(BootstrapCommand({options_.builds.stage_id(), options_.directory,
                                   options_.installed_path, options_.agent_arguments})) {}

  void Start(const std::string& host, DoneFn done) override {
    const int id = next_id_++;
    pending_[id].host = host;
    pending_[id].done = std::move(done);
    waiting_.push_back(id);
    StartWaiting();
  }

  void Close() override {
    is_closed_ = true;
    waiting_.clear();
    pending_.clear();
    shell_.Close();
  }

 private:
  void StartWaiting() {
    while (!waiting_.empty() && starting_count_ < options_.max_starting) {
      const int id = waiting_.front();
      waiting_.pop_front();
      ++starting_count_;
      RunShell(id);
    }
  }

  void RunShell(int id) {
    shell_.Run(pending_[id].host, command_, [this, id](Result<AgentStart> start) {
      if (is_closed_) return;
      if (!start.ok()) return RetryOrFinish(id, std::move(start).status());
      OnShell(id, std::move(*start));
    });
  }

  void OnShell(int id, AgentStart start) {
    Pending& pending = pending_[id];
    pending.process = std::move(start.process);
    pending.stream = std::make_unique<StagedStream>(loop_, std::move(start.stream));
    pending.process->OnExit([this, id](Status how) {
      Pending& host = pending_[id];
      host.how = std::move(how);
      if (host.is_closed) FinishClosed(id);
    });
    StagedStream::ScanHandlers handlers;
    handlers.on_line = [this, id](const BootstrapLine& line) { OnLine(id, line); };
    handlers.on_closed = [this, id](const Status& why) { OnClosed(id, why); };
    pending.stream->Scan(std::move(handlers));
    if (options_.answer_limit == Duration::zero()) return;
    const bool is_child = pending.process->pid() != 0;
    pending.answer_timer = loop_.After(options_.answer_limit, [this, id, is_child] {
      // It may still be on its way to the host.
      if (is_child && !errors_.HasLoggedIn(pending_[id].host)) return;
      Finish(id, Status(ErrorCode::kConnectTimeout,
                        fmt::format("its shell did not run our command within {}",
                                    SecondsText(options_.answer_limit)),
                        HintForSilence(pending_[id].host)));
    });
  }

  void OnLine(int id, const BootstrapLine& line) {
    Pending& pending = pending_[id];
    pending.has_answered = true;
    if (line.kind != BootstrapLine::Kind::kNoise) pending.answer_timer.Cancel();
    if (line.kind == BootstrapLine::Kind::kNeedsAgent) return Stage(id, line);
    if (line.kind == BootstrapLine::Kind::kFailed) {
      return Finish(id, Status(ErrorCode::kAgentStartFailed, line.why,
                               "choose another directory on the hosts: --remote-dir DIR"));
    }
    if (line.kind != BootstrapLine::Kind::kAgentSpeaks) return;
    errors_.MarkRunning(pending.host);
    AgentStart start;
    start.stream = std::move(pending.stream);
    start.process = std::move(pending.process);
    Finish(id, std::move(start));
  }

  // An agent takes megabytes: a host that asks repeatedly must not fill our memory.
  void Stage(int id, const BootstrapLine& needs) {
    if (std::exchange(pending_[id].has_asked, true)) {
      return Finish(id, Status(ErrorCode::kProtocolError, "the host asked for the agent twice",
                               "check what the shell's start-up files print there"));
    }
    auto build = options_.builds.For(needs.system, needs.machine);
    if (!build.ok()) return Finish(id, std::move(build).status());
    Log(LogLevel::kInfo, "host " + pending_[id].host, "copying {} to {}", (*build)->path,
        needs.directory);
    Packed& packed = packed_[needs.machine];
    packed.waiting.push_back(id);
    if (!packed.bytes.empty()) return SendPacked(needs.machine, **build);
    if (packed.waiting.size() > 1) return;
    pool_.Run<Result<std::string>>(
        [build = *build] { return Gzip(build->bytes); },
        [this, machine = needs.machine, build = *build](Result<std::string> bytes) {
          if (bytes.ok()) {
            packed_[machine].bytes = std::move(*bytes);
            return SendPacked(machine, *build);
          }
          for (const int waiting : std::exchange(packed_[machine].waiting, {})) {
            Finish(waiting, bytes.status());
          }
        });
  }

  void SendPacked(const std::string& machine, const AgentBuild& build) {
    const std::string& bytes = packed_[machine].bytes;
    for (const int id : std::exchange(packed_[machine].waiting, {})) {
      const auto found = pending_.find(id);
      if (found == pending_.end() || found->second.stream == nullptr) continue;
      found->second.stream->Write(StageAnswer(build.sha256, bytes.size()));
      found->second.stream->Write(bytes);
    }
  }

  void OnClosed(int id, const Status& why) {
    Pending& pending = pending_[id];
    if (why.code() == ErrorCode::kProtocolError) return Finish(id, why);
    pending.is_closed = true;
    if (pending.how) return FinishClosed(id);
    pending.reason_timer = loop_.After(kExitReasonWait, [this, id] { FinishClosed(id); });
  }

  void FinishClosed(int id) {
    Pending& pending = pending_[id];
    pending.answer_timer.Cancel();
    RetryOrFinish(id, shell_.Explain(pending.host, pending.how.value_or(Status()),
                                     errors_.LinesOf(pending.host)));
  }

  // A busy host keeps its start slot while it waits: when a jump host is full, starting another
  // host in its place only adds load.
  void RetryOrFinish(int id, const Status& why) {
    Pending& pending = pending_[id];
    if (why.code() != ErrorCode::kHostBusy || pending.has_answered) return Finish(id, why);
    const int most = options_.retry.max_retries;
    if (pending.retries >= most) {
      const int tries = pending.retries + 1;
      const std::string times = tries == 1 ? "" : fmt::format(" ({} tries)", tries);
      return Finish(id, Status(why.code(), why.message() + times, why.hint()));
    }
    const Duration pause = RetryPause(options_.retry, pending.retries++, random_);
    Log(LogLevel::kInfo, "host " + pending.host, "busy, retry {} of {} in {:.2f} s: {}",
        pending.retries, most, Seconds(pause).count(), why.message());
    pending.reason_timer.Cancel();
    pending.is_closed = false;
    pending.retry_timer = loop_.After(pause, [this, id] {
      Pending& host = pending_[id];
      host.stream.reset();
      host.process.reset();
      host.how.reset();
      errors_.Forget(host.host);
      RunShell(id);
    });
  }

  void Finish(int id, Result<AgentStart> result) {
    const auto found = pending_.find(id);
    if (found == pending_.end()) return;
    const DoneFn done = std::move(found->second.done);
    if (!result.ok()) {
      result = std::move(result).status().WithContext(
          fmt::format("start agent on {}", found->second.host));
    }
    pending_.erase(found);
    --starting_count_;
    StartWaiting();
    done(std::move(result));
  }

  struct Packed {
    std::string bytes;
    std::vector<int> waiting;
  };

  Loop& loop_;
  BlockingPool& pool_;
  RemoteShell& shell_;
  RemoteStderr& errors_;
  const RemoteTransportOptions options_;
  std::mt19937_64 random_;
  const std::string command_;
  std::map<int, Pending> pending_;
  std::map<std::string, Packed> packed_;
  std::deque<int> waiting_;
  int starting_count_ = 0;
  int next_id_ = 0;
  bool is_closed_ = false;
};

}  // namespace

std::unique_ptr<Transport> MakeRemoteTransport(Loop& loop, BlockingPool& pool, RemoteShell& shell,
                                               RemoteStderr& errors,
                                               RemoteTransportOptions options) {
  return std::make_unique<RemoteTransport>(loop, pool, shell, errors, std::move(options));
}

Duration RetryPause(const RetryPolicy& policy, int retries, std::mt19937_64& random) {
  const double span = Seconds(policy.longest) / Seconds(policy.shortest);
  const double part = std::uniform_real_distribution<double>(0, 1)(random);
  const double factor = std::pow(span, 1.0 / policy.max_retries);
  const double low = std::pow(factor, retries);
  const double pause = low + part * (low * factor - low);
  return std::chrono::duration_cast<Duration>(Seconds(policy.shortest) * pause);
}

}  // namespace hvdray
