// SPDX-License-Identifier: Apache-2.0
// What a client of `hvdray serve` asks: checks it against its gang and its objects, and has the
// launcher do it. docs/serve.md is normative. Decides nothing about workers.
#ifndef HVDRAY_LAUNCHER_ENGINE_CLIENT_REQUESTS_H_
#define HVDRAY_LAUNCHER_ENGINE_CLIENT_REQUESTS_H_

#include <cstdint>
#include <deque>
#include <string_view>
#include <vector>

#include "base/types.h"
#include "launcher/engine/client_gang.h"
#include "launcher/engine/client_objects.h"
#include "launcher/engine/control_messages.h"
#include "launcher/engine/job_client.h"

namespace hvdray {

/// Carries out requests in their order; while bytes of an object wait for room, all but the next
/// Put and the stop of the gang wait behind them. Each request is carried out or refused, unless
/// its client goes before. Owns gang and objects. Threads: the loop's.
class ClientRequests {
 public:
  /// The way back to the client.
  class Session {
   public:
    virtual void Refuse(std::string_view about, const Status& why) = 0;
    /// Something was queued for workers or hosts.
    virtual void PaceClient() = 0;
    /// Says so once all output until now is written.
    virtual void Flush() = 0;

   protected:
    ~Session() = default;
  };

  /// `grace`: of a gang that is stopped without one. The others outlive it.
  ClientRequests(JobClient::Owner& owner, JobClient::Workers& workers, Session& session,
                 Duration grace)
      : owner_(owner), workers_(workers), session_(session), grace_(grace), objects_(owner) {}

  ClientGang& gang() { return gang_; }
  const ClientGang& gang() const { return gang_; }
  /// Bytes of objects wait for room.
  bool is_waiting() const { return objects_.is_waiting(); }

  void Take(ControlRequest request);
  void OnPiece(ByteView piece, uint64_t left);
  /// There may be room for objects: sends what waits, and carries out what waits behind it.
  void OnRoom();
  void OnObjectProblem(int64_t object, std::string_view host, int error);
  /// The start could not be carried out.
  void RefuseStart(const Status& why);
  /// A worker of the gang starts: it gets what came with the gang's start.
  void AddWorker(int worker, const RankInfo& place);
  /// The client has gone: stops its gang, forgets its objects and what it has asked.
  void Drop();

 private:
  void CarryOut(ControlRequest request);
  void On(control::Start&& start);
  void On(const control::Send& send);
  void On(const control::Signal& signal);
  void On(const control::Stop& stop);
  void On(const control::Put& put);
  void On(const control::Drop& drop);
  void On(const control::Hosts& hosts);
  void On(const control::Notify& notify);
  void On(const control::Warm& warm);
  void On(const control::Flush& /*flush*/) { session_.Flush(); }
  /// The session's and the link's: Hello, Credit, Bye.
  template <typename T>
  void On(const T& /*other*/) {}
  void Give(int worker, const std::vector<int64_t>& objects);

  JobClient::Owner& owner_;
  JobClient::Workers& workers_;
  Session& session_;
  const Duration grace_;
  ClientGang gang_;
  ClientObjects objects_;
  std::deque<ControlRequest> waiting_;  // behind objects
};

}  // namespace hvdray

#endif  // HVDRAY_LAUNCHER_ENGINE_CLIENT_REQUESTS_H_
