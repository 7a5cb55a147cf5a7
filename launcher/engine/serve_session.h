// SPDX-License-Identifier: Apache-2.0
// What `hvdray serve` adds to a launcher: a client that starts gangs, one at a time, and talks to
// their workers. docs/serve.md is normative. Decides nothing about workers.
#ifndef HVDRAY_LAUNCHER_ENGINE_SERVE_SESSION_H_
#define HVDRAY_LAUNCHER_ENGINE_SERVE_SESSION_H_

#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/fd.h"
#include "base/loop.h"
#include "launcher/driver/verdict.h"
#include "launcher/engine/control_link.h"
#include "launcher/engine/job_client.h"
#include "launcher/job/placement.h"
#include "launcher/report/job_report.h"
#include "wire/message.h"
#include "wire/object.h"

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

/// The client at a socket. Threads: the loop's. Loop and owner outlive it.
class ServeSession final : public JobClient {
 public:
  /// Errors: kUsage for an unusable socket, kFileUnwritable for the path.
  static Result<std::unique_ptr<ServeSession>> Open(Loop& loop, ServeOptions options, Owner& owner);
  ~ServeSession() override;

  bool is_one_gang() const override { return false; }
  std::function<void(const Json&)> event_sink() override;
  void OnNoWorkers() override;
  void OnWorker(int worker, const RankInfo& place) override;
  void OnMembers(const std::vector<RankInfo>& ranks, const std::vector<int>& workers) override;
  void OnMember(int worker) override;
  void OnWorkerStarted(int worker, uint32_t pid) override;
  void OnHello(int worker, const Json& hello) override;
  void OnData(int worker, const Json& data, ByteView piece, uint64_t at, uint64_t of) override;
  void OnReport(int worker, uint32_t number, const Json& metrics) override;
  void OnTaken() override;
  void OnObjectProblem(int64_t object, std::string_view host, int error) override;
  void OnWarmed(std::string_view host, const wire::Warmed& warmed, size_t left) override;
  void OnStopped(const JobReport& report) override;
  void OnRefused(const Status& why) override;
  uint32_t gone_clients() const override { return gone_clients_; }
  bool HasRoom() const override { return link_ == nullptr || link_->HasRoom(); }
  void Close(int exit_code) override;

 private:
  struct Worker {  // NOLINT(bugprone-exception-escape): its move throws nothing
    RankInfo place;
    uint32_t pid = 0;
    Json python;  // of its hello; null: unknown
    bool is_greeted = false;
  };

  ServeSession(Loop& loop, ServeOptions options, Owner& owner);
  Status Connect(UniqueFd socket);
  void OnClient(UniqueFd socket);
  void OnGone(const Status& why);
  void On(const control::Hello& hello);
  void Take(ControlRequest request);
  void On(control::Start&& start);
  void On(const control::Send& send);
  void On(const control::Signal& signal);
  void On(const control::Stop& stop);
  void On(const control::Put& put);
  void On(const control::Drop& drop);
  void On(const control::Hosts& hosts);
  void On(const control::Notify& notify);
  void On(const control::Warm& warm);
  void On(const control::Flush& flush);
  void OnPiece(ByteView piece, uint64_t left);
  struct Part;
  bool PutNext(Part& part);
  void PutParts();
  Status CheckObjects(const std::vector<int64_t>& objects) const;
  void Give(int worker, const std::vector<int64_t>& objects);
  void DropObjects();
  void On(const control::Credit& /*credit*/) {}  // the link's
  void On(const control::Bye& /*bye*/) {}
  Status CheckGang(int64_t gang) const;
  Result<std::vector<int>> WorkersOf(int64_t gang, const control::Ranks& to) const;
  Json AboutWorker(std::string_view type, int worker) const;
  void Refuse(std::string_view about, const Status& why);
  void TellReady();
  void PaceClient();
  void OnEvent(const Json& line);

  Loop& loop_;
  const ServeOptions options_;
  Owner& owner_;
  std::unique_ptr<ControlListener> listener_;
  std::unique_ptr<ControlLink> link_;
  control::Start start_;                           // of the gang; gang 0: none lives
  std::shared_ptr<const std::string> start_data_;  // null: none
  int64_t last_gang_ = 0;                          // of this client
  std::map<int, Worker> workers_;                  // by number: all that were started
  std::vector<int> members_;                       // their numbers, by rank
  bool is_ready_owed_ = false;                     // the client does not know of these members
  std::set<int64_t> objects_;                      // that hosts keep
  std::set<int64_t> failed_objects_;
  uint32_t gone_clients_ = 0;
  int64_t last_object_ = 0;   // of this client
  uint64_t object_size_ = 0;  // of the last one
  bool is_put_refused_ = false;
  /// Of an object, until hosts have room for it.
  struct Part {
    wire::ObjectPiece piece;
    /// All of it, of which `piece` is the next one, without its bytes. Null: this piece alone.
    std::shared_ptr<const UniqueFd> memory;
  };
  std::deque<Part> parts_;
  std::deque<ControlRequest> waiting_;  // behind them
  bool is_paced_ = false;               // the client is not read
  bool is_greeted_ = false;             // by its client, or the last one
  std::vector<Json> early_events_;
  Watch parting_;  // from a client that has gone
  Watch linger_timer_;
};

}  // namespace hvdray

#endif  // HVDRAY_LAUNCHER_ENGINE_SERVE_SESSION_H_
