// SPDX-License-Identifier: Apache-2.0
// What is behind async.h: operations in, and a thread that negotiates and runs them.
#ifndef HVDRAY_COLLECTIVE_ASYNC_CORE_H_
#define HVDRAY_COLLECTIVE_ASYNC_CORE_H_

#include <sched.h>
#include <unistd.h>

#include <condition_variable>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <thread>
#include <vector>

#include "base/environ.h"
#include "base/result.h"
#include "base/types.h"
#include "collective/async/async.h"
#include "collective/async/executor.h"
#include "collective/async/negotiator.h"
#include "collective/async/operation_table.h"
#include "collective/async/rounds.h"
#include "collective/async/stall_record.h"
#include "collective/async/timeline.h"
#include "collective/communicator.h"

namespace hvdray {

/// The same on all ranks: rank 0's are everybody's. Plain bytes.
struct AsyncSettings {
  uint64_t small_bytes = uint64_t{256} << 10;
  uint64_t fusion_bytes = uint64_t{64} << 20;
  int64_t cycle_ns = 0;           ///< From a submit to its round; 0: at once.
  int64_t stall_ns = 0;           ///< After so long a warning; 0: never.
  int64_t stall_shutdown_ns = 0;  ///< After so long the end; 0: never.
  uint8_t fuses_groups = 1;
};

/// Errors: kSpecInvalid naming the variable.
Result<AsyncSettings> AsyncSettingsFrom(const Environment& environment);

/// Threads: any; Shutdown() ends once.
class AsyncCore {
 public:
  /// Meets all ranks. Blocks. Errors: as MakeCommunicator().
  /// `error_file`: as StallRecord has it.
  static Result<std::unique_ptr<AsyncCore>> Make(CommunicatorOptions options,
                                                 AsyncSettings settings,
                                                 std::string error_file = {});
  ~AsyncCore() { Shutdown(); }
  AsyncCore(const AsyncCore&) = delete;
  AsyncCore& operator=(const AsyncCore&) = delete;

  /// As hvdray_async_submit().
  Status Submit(std::span<const hvdray_request> requests, int64_t* handles);
  /// Leaves with all ranks; those that do not come within a few seconds are left. `why`: for their
  /// errors.
  void Shutdown(const std::string& why = {}, Leave leave = Leave::kInOrder);

  /// As hvdray_async_missing().
  std::vector<int> Missing(int64_t handle);

  OperationTable& table() { return table_; }
  Timeline& timeline() { return timeline_; }
  std::map<int, std::vector<int>> ProcessSets() const { return executor_->Sets(); }
  int rank() const { return options_.rank; }
  int size() const { return options_.size; }
  /// Whether this is the process that made it, and not a child of fork().
  bool IsHere() const { return ::getpid() == pid_; }

 private:
  AsyncCore(CommunicatorOptions options, AsyncSettings settings, std::string error_file);
  Status ShareProcessors(Communicator& all);
  void Run();
  Status Loop();
  Status WhyEnded(Status status);
  /// The end of all rounds, if it comes within this time.
  Status AwaitDeath(Duration longest);
  Status RunRound(uint32_t round, bool has_stalled);
  void WarnOfStalls(TimePoint now);
  bool HasStalled(TimePoint now);
  void RecordStall(TimePoint now, Duration longest);
  TimePoint NextCheck() const;

  const CommunicatorOptions options_;
  AsyncSettings settings_;
  const pid_t pid_ = ::getpid();
  OperationTable table_;
  Timeline timeline_;
  std::unique_ptr<Rounds> rounds_;
  std::unique_ptr<Executor> executor_;
  // Of the thread.
  uint32_t round_ = 1;  ///< The next.
  std::unique_ptr<Negotiator> negotiator_;
  std::mutex round_mutex_;  ///< While the negotiator changes, and while another thread reads it.
  TimePoint last_warning_{};
  StallRecord stall_;
  bool has_left_ = false;    ///< With all ranks, after a plan.
  bool is_orderly_ = false;  ///< As Plan::has_left.
  cpu_set_t processors_{};   ///< Of the process.
  cpu_set_t share_{};        ///< Of them this thread's; empty: all.

  std::mutex mutex_;
  std::condition_variable ended_;
  bool has_ended_ = false;  ///< The thread has nothing more to do.
  std::mutex shutdown_mutex_;
  std::thread thread_;
};

}  // namespace hvdray

#endif  // HVDRAY_COLLECTIVE_ASYNC_CORE_H_
