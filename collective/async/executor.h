// SPDX-License-Identifier: Apache-2.0
// Runs what a plan has: fuses, scales, allocates results, and calls the communicators.
#ifndef HVDRAY_COLLECTIVE_ASYNC_EXECUTOR_H_
#define HVDRAY_COLLECTIVE_ASYNC_EXECUTOR_H_

#include <map>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <vector>

#include "base/result.h"
#include "collective/async/negotiator.h"
#include "collective/async/operation_table.h"
#include "collective/async/timeline.h"
#include "collective/communicator.h"

namespace hvdray {

/// Threads: one caller at a time; Abort() and RanksOf() from any.
class Executor {
 public:
  /// `all`: of all ranks of `options`. The others outlive it.
  Executor(CommunicatorOptions options, std::unique_ptr<Communicator> all, OperationTable& table,
           Timeline& timeline);

  /// Runs a batch on this rank, if it takes part, and finishes its operations. Blocks. Errors: what
  /// ends everything.
  Status Run(const Batch& batch);

  void Abort();

  /// CheckRequest() with what is known here.
  Status Check(const hvdray_request& request) const;
  /// Global ranks of each process set.
  std::map<int, std::vector<int>> Sets() const;
  Communicator& all() { return *sets_.at(0).communicator; }

 private:
  struct ProcessSet {
    std::vector<int> ranks;
    std::unique_ptr<Communicator> communicator;  ///< nullptr: this rank is no member.
  };
  /// What one operation needs here.
  struct Context {
    const PlannedOperation& planned;
    LocalOperation* local;  ///< nullptr: this rank has joined.
    ProcessSet& set;
    size_t following = 0;  ///< In its batch.
  };

  Status Dispatch(const Context& context);
  Status AllReduce(const Context& context);
  Status Fused(const Batch& batch, std::span<LocalOperation* const> locals, ProcessSet& set);
  Status AllGather(const Context& context);
  Status Broadcast(const Context& context);
  Status AllToAll(const Context& context);
  Status ReduceScatter(const Context& context);
  Status OnDevice(const Context& context);
  Status AddSet(const Context& context);
  Status RemoveSet(const Context& context);

  CommunicatorOptions options_;
  OperationTable& table_;
  Timeline& timeline_;
  mutable std::mutex mutex_;  ///< Of the map, which this thread alone changes.
  std::map<int, ProcessSet> sets_;
  bool is_aborted_ = false;
  std::vector<char> buffer_;
};

}  // namespace hvdray

#endif  // HVDRAY_COLLECTIVE_ASYNC_EXECUTOR_H_
