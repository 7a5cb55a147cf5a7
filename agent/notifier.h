// SPDX-License-Identifier: Apache-2.0
// Delivers notices, "the set of hosts has changed", to the workers of this host. Each worker's
// Python process listens for them and has registered its addresses. rendezvous/notice.h has the
// format.
#ifndef HVDRAY_AGENT_NOTIFIER_H_
#define HVDRAY_AGENT_NOTIFIER_H_

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "base/fd.h"
#include "base/loop.h"
#include "base/status.h"
#include "rendezvous/notice.h"
#include "rendezvous/restricted_pickle.h"

namespace hvdray {

/// Most addresses of one worker to try for one notice.
inline constexpr size_t kMaxNoticeTargets = 8;

/// The addresses to try, in order: loopback, this host's `own` addresses, then the rest (a worker
/// may have its own network namespace); each once, at most kMaxNoticeTargets. Pure.
std::vector<WorkerAddresses::Endpoint> NoticeTargets(const WorkerAddresses& addresses,
                                                     const std::vector<std::string>& own);

/// Sends at most one notice at a time to each worker. Threads: the loop's; never blocks.
class Notifier {
 public:
  /// Called once per notice. ok: the worker accepted it. kCancelled: a newer notice replaced it
  /// before it was sent. Any other code: probably lost, such as kDeadlineExceeded, kProtocolError
  /// (the answer is not the worker's), kHostRefused. A worker ignores duplicates, so a lost notice
  /// may be repeated.
  using DoneFn = std::function<void(Status outcome)>;

  /// `limit`: for one notice, over all its addresses. The loop outlives the notifier. Destroying
  /// the notifier drops pending notices without an outcome.
  explicit Notifier(Loop& loop, Duration limit = std::chrono::seconds(2))
      : loop_(loop), limit_(limit) {}

  /// `worker`: any number that identifies the process until Forget(). `addresses`: its latest
  /// registration. While an earlier notice is being sent, the newest one waits and replaces others.
  void Send(int worker, const WorkerAddresses& addresses, const Notice& notice, DoneFn on_done);
  /// The process was reaped: drops its notices without an outcome.
  void Forget(int worker) { workers_.erase(worker); }

 private:
  struct Letter {
    WorkerAddresses addresses;
    Notice notice;
    DoneFn on_done;
  };
  struct Delivery {
    NoticeKey key{};
    std::string frame;
    std::vector<WorkerAddresses::Endpoint> targets;
    DoneFn on_done;
    TimePoint deadline;
    size_t next = 0;  // Index into targets.
    size_t sent = 0;
    std::string received;
    Status why;  // Why the last target failed.
    UniqueFd socket;
    Watch watch;
    Watch limit;
  };
  struct Worker {
    std::unique_ptr<Delivery> delivery;
    std::optional<Letter> waiting;
    std::optional<WorkerAddresses::Endpoint> good;  // Accepted the last notice.
  };

  void Begin(int worker, Letter letter);
  void TryNext(int worker);
  Status Connect(Delivery& delivery, const WorkerAddresses::Endpoint& target);
  void OnWritable(int worker);
  void OnReadable(int worker);
  void GiveUpTarget(int worker, Status why);
  void Finish(int worker, Status outcome);
  void Tell(DoneFn on_done, Status outcome);

  Loop& loop_;
  const Duration limit_;
  std::unordered_map<int, Worker> workers_;
  std::shared_ptr<int> alive_ = std::make_shared<int>();
};

}  // namespace hvdray

#endif  // HVDRAY_AGENT_NOTIFIER_H_
