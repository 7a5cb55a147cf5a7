// SPDX-License-Identifier: Apache-2.0
// Operations that go on while the program does something else.
#ifndef HVDRAY_COLLECTIVE_WORK_QUEUE_H_
#define HVDRAY_COLLECTIVE_WORK_QUEUE_H_

#include <functional>
#include <memory>

#include "base/status.h"
#include "collective/communicator.h"

namespace hvdray {

/// A started operation: its handle. Cheap to copy. Threads: any.
class Work {
 public:
  bool IsDone() const;
  /// Blocks until it is done. May be called again.
  Status Wait() const;

 private:
  friend class WorkQueue;
  struct State;
  explicit Work(std::shared_ptr<State> state) : state_(std::move(state)) {}
  std::shared_ptr<State> state_;
};

/// Runs operations of one communicator, one after the other, in a thread of its own. All ranks
/// start the same ones in the same order. Until they are done, nobody else uses the communicator
/// (but Abort(), which ends those that are started), and their buffers stay as they are.
///
///   WorkQueue queue(*communicator);
///   Work work = queue.Start([&](Communicator& c) {
///     return c.AllReduce(g.data(), g.data(), g.size(), DataType::kFloat32, ReduceOp::kAverage);
///   });
///   …
///   Status status = work.Wait();
///
/// Threads: one caller at a time.
class WorkQueue {
 public:
  /// The communicator outlives the queue.
  explicit WorkQueue(Communicator& communicator);
  /// Waits until all that was started is done.
  ~WorkQueue();
  WorkQueue(const WorkQueue&) = delete;
  WorkQueue& operator=(const WorkQueue&) = delete;

  /// `operation` runs in the queue's thread. Doesn't block.
  Work Start(std::function<Status(Communicator&)> operation);

 private:
  struct Shared;
  std::unique_ptr<Shared> shared_;
};

}  // namespace hvdray

#endif  // HVDRAY_COLLECTIVE_WORK_QUEUE_H_
