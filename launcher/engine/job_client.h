// SPDX-License-Identifier: Apache-2.0
// Who wants the gangs of a job: the user of `hvdray run`, or the client of `hvdray serve`.
#ifndef HVDRAY_LAUNCHER_ENGINE_JOB_CLIENT_H_
#define HVDRAY_LAUNCHER_ENGINE_JOB_CLIENT_H_

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "base/fd.h"
#include "base/json.h"
#include "base/status.h"
#include "launcher/engine/control_messages.h"
#include "launcher/job/placement.h"
#include "launcher/report/job_report.h"
#include "wire/message.h"
#include "wire/object.h"

namespace hvdray {

/// What a launcher tells the client of its job. Workers are named as their agents name them: in a
/// gang of fixed size by rank, in an elastic job by a number of their own. Threads: the loop's.
class JobClient {
 public:
  /// The workers, as the client reaches them.
  class Workers {
   public:
    virtual void Signal(int worker, int signo) = 0;
    virtual void Write(int worker, std::shared_ptr<const std::string> bytes) = 0;
    virtual void Give(int worker, int64_t object) = 0;
    /// Once workers have read what names it.
    virtual void DropObject(int64_t object) = 0;
    /// Bytes written that workers have not taken yet.
    virtual size_t QueuedBytes() const = 0;
    /// The client takes data again.
    virtual void OnClientRoom() = 0;

   protected:
    ~Workers() = default;
  };

  /// The hosts, as an object reaches them.
  class ObjectSink {
   public:
    /// To all hosts, in order.
    virtual void PutObject(const wire::ObjectPiece& piece) = 0;
    /// All of an object; hosts that share this machine's memory map it. False: others need its
    /// pieces, too, which PutObject() then gives to them alone.
    virtual bool MapObject(int64_t object, const std::shared_ptr<const UniqueFd>& memory) = 0;
    /// All hosts take pieces now: they are ready, and their links are not full.
    virtual bool HasObjectRoom() = 0;

   protected:
    ~ObjectSink() = default;
  };

  /// What a launcher does for its client.
  class Owner : public ObjectSink {
   public:
    /// Errors: why there can be none; it is refused.
    virtual Status StartGang(const control::Start& start) = 0;
    virtual void StopGang(Duration grace, bool is_sigint_first) = 0;
    /// The hosts of an elastic job, found by the client. Errors: why they are refused.
    virtual Status TakeHosts(const control::Hosts& hosts) = 0;
    /// That worker of an elastic job is told that hosts have changed. Errors: why it can't be.
    virtual Status NotifyWorker(int worker, int64_t timestamp) = 0;
    /// Each host answers by OnWarmed(). Errors: why there is nothing to answer; it is refused.
    virtual Status WarmHosts(const control::Warm& warm) = 0;
    /// Calls `done` once what workers have printed until now is written; maybe at once.
    virtual void OnceWritten(std::function<void()> done) = 0;
    /// No client is left, or will come.
    virtual void OnClientsGone() = 0;

   protected:
    ~Owner() = default;
  };

  virtual ~JobClient() = default;

  /// The job is one gang: it begins at once, the user is shown its start, and the job ends with it.
  /// Else gangs begin when the client says so, one after the other.
  virtual bool is_one_gang() const = 0;
  /// Gets each line of --events; empty: nothing does.
  virtual std::function<void(const Json&)> event_sink() { return {}; }

  // While a gang lives.
  /// No earlier worker is left.
  virtual void OnNoWorkers() {}
  /// A worker is being started: it gets the data of the gang's start.
  virtual void OnWorker(int /*worker*/, const RankInfo& /*place*/) {}
  /// These are its ranks from now on. Workers that it names may still have to come.
  virtual void OnMembers(const std::vector<RankInfo>& /*ranks*/,
                         const std::vector<int>& /*workers*/) {}
  /// That worker takes the place of the one that had its rank.
  virtual void OnMember(int /*worker*/) {}
  virtual void OnWorkerStarted(int /*worker*/, uint32_t /*pid*/) {}
  virtual void OnHello(int /*worker*/, const Json& /*hello*/) {}
  virtual void OnData(int /*worker*/, const Json& /*data*/, ByteView /*piece*/, uint64_t /*at*/,
                      uint64_t /*of*/) {}
  virtual void OnReport(int /*worker*/, uint32_t /*number*/, const Json& /*metrics*/) {}
  /// Workers or hosts took some of what was written.
  virtual void OnTaken() {}
  /// That host can't hold the object.
  virtual void OnObjectProblem(int64_t /*object*/, std::string_view /*host*/, int /*error*/) {}
  /// The result of WarmHosts() on that host. `left`: hosts that have not answered yet.
  virtual void OnWarmed(std::string_view /*host*/, const wire::Warmed& /*warmed*/,
                        size_t /*left*/) {}
  virtual void OnStopped(const JobReport& /*report*/) {}
  /// Its start could not be carried out after all.
  virtual void OnRefused(const Status& /*why*/) {}

  /// How many clients have gone. The bytes of its objects carry it, and so does a problem with one.
  virtual uint32_t gone_clients() const { return 0; }
  /// The client takes data.
  virtual bool HasRoom() const { return true; }
  virtual void Close(int /*exit_code*/) {}
};

/// The user of `hvdray run`, who asks for nothing but the one gang.
class OneGang final : public JobClient {
 public:
  bool is_one_gang() const override { return true; }
};

}  // namespace hvdray

#endif  // HVDRAY_LAUNCHER_ENGINE_JOB_CLIENT_H_
