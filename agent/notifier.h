// Takes notices to the workers of this host: "the set of hosts has changed". Each worker's Python
// process listens for them and has registered where. The bytes are rendezvous/notice.h's.
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

/// Addresses of one worker that are tried for one notice, at most.
inline constexpr size_t kMaxNoticeTargets = 8;

/// Where to try, in this order: loopback, then `own` addresses of this host, then the others (a
/// worker in a network namespace of its own), each once, at most kMaxNoticeTargets. Pure.
std::vector<WorkerAddresses::Endpoint> NoticeTargets(const WorkerAddresses& addresses,
                                                     const std::vector<std::string>& own);

/// Threads: the loop's; never blocks. At most one notice a worker is on its way at a time.
class Notifier {
 public:
  /// How a notice ended, once, from the loop; may destroy the notifier. ok: the worker has taken
  /// it. kCancelled: a newer one took its place before it left. Else it is lost, as far as we know:
  /// kDeadlineExceeded, kProtocolError (the answer is not the worker's), kHostRefused and the like.
  /// A worker that got one twice drops the second, so a lost one may be repeated.
  using DoneFn = std::function<void(Status outcome)>;

  /// `limit`: for one notice, all addresses together. The loop outlives the notifier; what is on
  /// its way when it is destroyed ends without an outcome.
  explicit Notifier(Loop& loop, Duration limit = std::chrono::seconds(2))
      : loop_(loop), limit_(limit) {}

  /// `worker`: any number that names the process until Forget(). While a notice to it is on its
  /// way the newest of the others waits for its end. `addresses`: what the worker registered last.
  void Send(int worker, const WorkerAddresses& addresses, const Notice& notice, DoneFn on_done);
  /// Its process has been reaped: a notice that has not ended yet ends without an outcome.
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
    size_t next = 0;  // of targets
    size_t sent = 0;
    std::string received;
    Status why;  // the last target did not take it
    UniqueFd socket;
    Watch watch;
    Watch limit;
  };
  struct Worker {
    std::unique_ptr<Delivery> delivery;
    std::optional<Letter> waiting;
    std::optional<WorkerAddresses::Endpoint> good;  // took the last notice
  };

  void Begin(int worker, Letter letter);
  void TryNext(int worker);
  Status Connect(Delivery& delivery, const WorkerAddresses::Endpoint& target);
  void OnWritable(int worker);
  void OnReadable(int worker);
  void GiveUpTarget(int worker, Status why);
  void Finish(int worker, Status outcome);
  void Tell(DoneFn on_done, Status outcome);
  void TellDue();

  Loop& loop_;
  const Duration limit_;
  std::unordered_map<int, Worker> workers_;
  std::vector<std::pair<DoneFn, Status>> due_;
  Watch due_timer_;
  std::shared_ptr<int> alive_ = std::make_shared<int>();
};

}  // namespace hvdray

#endif  // HVDRAY_AGENT_NOTIFIER_H_
