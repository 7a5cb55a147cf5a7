// SPDX-License-Identifier: Apache-2.0
// This rank's operations, from submit until their handles are forgotten.
#ifndef HVDRAY_COLLECTIVE_ASYNC_OPERATION_TABLE_H_
#define HVDRAY_COLLECTIVE_ASYNC_OPERATION_TABLE_H_

#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <deque>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <unordered_map>
#include <vector>

#include "base/result.h"
#include "base/types.h"
#include "collective/async/async.h"
#include "collective/async/request.h"

namespace hvdray {

struct LocalOperation;
using LocalOperationPtr = std::shared_ptr<LocalOperation>;

/// What is kept of a name, as it is likely to come again.
struct LocalName : OwnRequest {
  LocalOperationPtr in_flight;
};

/// One operation of this rank. The library's thread alone writes the results, before it is done.
struct LocalOperation {
  int64_t handle = 0;
  Request request;
  std::string encoded;        ///< The request, until it is added.
  LocalName* name = nullptr;  ///< The table's.
  uint32_t round = 0;         ///< That takes it along.
  const void* input = nullptr;
  void* output = nullptr;
  void* context = nullptr;
  void* (*allocate)(void* context, const int64_t* shape, int dimensions) = nullptr;
  int (*run)(void* context, const hvdray_call* call) = nullptr;

  std::vector<int64_t> shape;
  std::vector<int64_t> received;
  int last_rank = -1;
  int process_set = 0;
  int64_t sequence = 0;
  // Guarded by the table:
  std::optional<Status> status;  ///< Set when it is done.
  int waiting = 0;               ///< Threads.
};

/// Threads: any.
class OperationTable {
 public:
  /// What a round takes along.
  struct Drained {
    std::vector<OwnRequest*> requests;  ///< Of the operations, until these have ended.
    bool is_closed = false;
    std::string why;  ///< As Close() has it, and this.
    Leave leave = Leave::kInOrder;
  };

  /// pause: AwaitBurst() takes a program that adds nothing for so long to be done.
  explicit OperationTable(Duration pause = std::chrono::microseconds(50)) : pause_(pause) {}

  /// Gives them handles and queues them; all or none. Returns the round that will take them along.
  /// is_urgent: AwaitBurst() waits for no others. Errors: kUsage for a name in flight; what Close()
  /// said.
  Result<uint32_t> Add(std::span<const LocalOperationPtr> operations, bool is_urgent);
  /// Blocks, about a millisecond at most, while the program is likely to add more: until as many
  /// are queued as the round before took, somebody waits for one of them, or no more come.
  void AwaitBurst();
  /// Takes the queue along with `round`.
  Drained Drain(uint32_t round);
  /// This rank's operation of that name in flight; nullptr: there is none.
  LocalOperation* Find(int process_set, const std::string& name);
  /// They have ended. The same status for all.
  void Finish(std::span<LocalOperation* const> operations, const Status& status);

  /// Nothing is added any more: Add() returns `status`. Returns the round that knows of it.
  /// `why`, `leave`: for the other ranks.
  uint32_t Close(const Status& status, std::string why, Leave leave);
  /// Closes, and ends all that is in flight. has_left: as Plan has it.
  void EndAll(const Status& status, bool has_left = false);
  Status CheckOpen() const;
  /// Blocks until it is closed; why it is, with kCancelled if a rank has left in order.
  Status AwaitEnd();

  /// 1, 0, or -1 for no such handle.
  int Poll(int64_t handle) const;
  /// nullptr: no such handle, or it is done.
  LocalOperationPtr InFlight(int64_t handle) const;
  /// Blocks until it is done. nullptr: no such handle.
  LocalOperationPtr Wait(int64_t handle);
  /// False: it is not done after so long.
  bool WaitFor(int64_t handle, Duration longest);
  void Release(int64_t handle);
  size_t Reap(std::span<int64_t> handles);

 private:
  static constexpr size_t kMostNames = 4096;
  /// The name's place, made if need be.
  LocalName& Name(int process_set, const std::string& name);
  void ForgetNames();
  void Hurry(const LocalOperation& operation);

  const Duration pause_;
  mutable std::mutex mutex_;
  std::condition_variable done_;
  std::condition_variable burst_;    ///< For AwaitBurst().
  std::condition_variable closing_;  ///< For AwaitEnd().
  std::unordered_map<int64_t, LocalOperationPtr> by_handle_;
  std::unordered_map<std::string, LocalName> names_;  ///< Of set 0; others are behind them.
  size_t most_names_ = kMostNames;                    ///< Then those not in flight are forgotten.
  std::vector<OwnRequest*> queue_;
  std::deque<int64_t> ended_;  ///< Not yet reaped.
  bool is_urgent_ = false;     ///< What is queued.
  size_t usual_burst_ = 0;     ///< What rounds take along of late.
  uint32_t drained_round_ = 0;
  Status closed_;
  std::string why_;
  Leave leave_ = Leave::kInOrder;
  bool has_left_ = false;
};

}  // namespace hvdray

#endif  // HVDRAY_COLLECTIVE_ASYNC_OPERATION_TABLE_H_
