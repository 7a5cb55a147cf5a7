// SPDX-License-Identifier: Apache-2.0
// What `hvdray serve` adds to a launcher: a client that starts gangs, one at a time, and talks to
// their workers. docs/serve.md is normative. Decides nothing about workers.
#ifndef HVDRAY_LAUNCHER_ENGINE_SERVE_SESSION_H_
#define HVDRAY_LAUNCHER_ENGINE_SERVE_SESSION_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/fd.h"
#include "base/loop.h"
#include "launcher/driver/verdict.h"
#include "launcher/engine/client_requests.h"
#include "launcher/engine/control_link.h"
#include "launcher/engine/job_client.h"
#include "launcher/job/placement.h"
#include "launcher/report/job_report.h"
#include "wire/message.h"

namespace hvdray {

/// Where the client comes from: a connected socket, or else a path to listen at.
struct ServeOptions {
  UniqueFd socket;
  std::string path;
  Duration linger{};  ///< How long hosts are held for another client of `path`.
  Duration grace{};   ///< Of a gang that is stopped without one.
  std::string job_id;
  std::string build;
};

/// Tells the client at the other end of `socket` that there will be no session, and why, with bye.
void RefuseClient(int socket, const Status& why, int exit_code);

/// How a session ends: when asked, with the gang that is running; or with a gang that a signal or
/// the reader has ended.
class ServeEnd {
 public:
  /// Keeps `last`, the verdict of the session, unless it has one that says why; a client that says
  /// bye gives no reason. True once.
  bool Ask(Verdict last) {
    if (verdict_.error.ok()) verdict_ = std::move(last);
    return !std::exchange(is_asked_, true);
  }
  void OnGangEnded(const Verdict& verdict) {
    const ErrorCode code = verdict.error.code();
    if (code != ErrorCode::kInterrupted && code != ErrorCode::kReaderGone) return;
    is_asked_ = true;
    verdict_ = verdict;
  }
  /// True once. The caller ends the session.
  bool Finish() { return !std::exchange(is_finished_, true); }
  /// No other gang begins.
  bool is_asked() const { return is_asked_; }
  bool is_finished() const { return is_finished_; }
  const Verdict& verdict() const { return verdict_; }

 private:
  bool is_asked_ = false;
  bool is_finished_ = false;
  Verdict verdict_;
};

/// The client at a socket, or one after the other. Between two of them nothing lives but the
/// workers of the last one, which are ending. Threads: the loop's. Loop, owner and workers outlive
/// it.
class ServeSession final : public JobClient,
                           private ClientRequests::Session,
                           private ControlLink::Owner {
 public:
  /// Errors: kUsage for an unusable socket, kFileUnwritable for the path.
  static Result<std::unique_ptr<ServeSession>> Open(Loop& loop, ServeOptions options,
                                                    JobClient::Owner& owner, Workers& workers);

  bool is_one_gang() const override { return false; }
  std::function<void(const Json&)> event_sink() override;
  void OnNoWorkers() override { requests_.gang().ClearWorkers(); }
  void OnWorker(int worker, const RankInfo& place) override { requests_.AddWorker(worker, place); }
  void OnMembers(const std::vector<RankInfo>& ranks, const std::vector<int>& workers) override;
  void OnMember(int worker) override { requests_.gang().SetMember(worker); }
  void OnWorkerStarted(int worker, uint32_t pid) override;
  void OnHello(int worker, const Json& hello) override;
  void OnData(int worker, const Json& data, ByteView piece, uint64_t at, uint64_t of) override;
  void OnReport(int worker, uint32_t number, const Json& metrics) override;
  void OnTaken() override;
  void OnObjectProblem(int64_t object, std::string_view host, int error) override;
  void OnWarmed(std::string_view host, const wire::Warmed& warmed, size_t left) override;
  void OnStopped(const JobReport& report) override;
  void OnRefused(const Status& why) override { requests_.RefuseStart(why); }
  uint32_t gone_clients() const override { return gone_clients_; }
  bool HasRoom() const override { return link_ == nullptr || link_->HasRoom(); }
  void Close(int exit_code) override;

 private:
  ServeSession(Loop& loop, ServeOptions options, JobClient::Owner& owner, Workers& workers);
  Status Connect(UniqueFd socket);
  void OnClient(UniqueFd socket);
  void Greet(const control::Hello& hello);
  void TellReady();
  void OnEvent(const Json& line);

  // Of ControlLink::Owner.
  void OnRequest(ControlRequest request) override;
  void OnPiece(ByteView piece, uint64_t left) override { requests_.OnPiece(piece, left); }
  void OnGone(const Status& why) override;
  void OnRoom() override { workers_.OnClientRoom(); }

  // Of ClientRequests::Session.
  void Refuse(std::string_view about, const Status& why) override;
  void PaceClient() override;
  void Flush() override;

  Loop& loop_;
  const ServeOptions options_;
  JobClient::Owner& owner_;
  Workers& workers_;
  ClientRequests requests_;
  std::unique_ptr<ControlListener> listener_;
  std::unique_ptr<ControlLink> link_;  // null: no client
  uint32_t gone_clients_ = 0;
  bool is_paced_ = false;    // the client is not read
  bool is_greeted_ = false;  // by its client, or the last one
  std::vector<Json> early_events_;
  Watch parting_;  // from a client that has gone
  Watch linger_timer_;
};

}  // namespace hvdray

#endif  // HVDRAY_LAUNCHER_ENGINE_SERVE_SESSION_H_
