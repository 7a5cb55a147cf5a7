// SPDX-License-Identifier: Apache-2.0
// Collective operations over all ranks of a job. Training programs link this library alone.
#ifndef HVDRAY_COLLECTIVE_COMMUNICATOR_H_
#define HVDRAY_COLLECTIVE_COMMUNICATOR_H_

#include <cstddef>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "base/environ.h"
#include "base/result.h"
#include "base/types.h"
#include "collective/algorithm_table.h"
#include "collective/operation.h"

namespace hvdray {

/// One of the tensors of GroupAllReduce(), in place.
struct Tensor {
  void* data = nullptr;
  size_t count = 0;
};

/// All ranks call the same operations in the same order with the same kind, count, dtype, op and
/// root (but send and recv, which concern two of them). Where they don't, the calls end within the
/// timeout with an error or with meaningless values, but touch no memory outside their buffers.
/// HVDRAY_CHECK_COLLECTIVES=1 compares all calls first, with all counts, and names two that differ
/// (kUsage on every rank, on both for send and recv); nothing has run then. Send() waits for its
/// Recv() in that mode.
///
/// Buffers are host memory of any alignment; over NCCL the memory of the rank's GPU, aligned to an
/// element. They are the same (in place, said with each method) or
/// don't overlap: kUsage. A count of 0 does nothing. docs/collective.md has the algorithms of each
/// backend with their costs and sources.
///
/// Blocks: until this rank's part is done. Threads: one caller at a time; Abort() from any thread.
/// Errors: kUsage before anything happens (but a buffer that the GPU can't reach ends an NCCL
/// communicator); kAborted when a peer has died or left or has called Abort(), kDeadlineExceeded
/// when one did not come within the timeout, kOutOfResources when this rank has no memory for
/// partial results. After these three every further call of every rank fails with kAborted: build a
/// new communicator.
///
/// The same input gives the same bits on every rank and in every run of the same ranks.
class Communicator {
 public:
  virtual ~Communicator() = default;
  Communicator(const Communicator&) = delete;
  Communicator& operator=(const Communicator&) = delete;

  int rank() const { return rank_; }
  int size() const { return size_; }
  /// How ranks reach each other: "single", "shm", "gloo", "hierarchical", "nccl".
  virtual std::string_view backend() const = 0;
  /// CUDA's number of the GPU whose memory it is for; -1: for host memory.
  virtual int device() const { return -1; }
  /// Of the same ranks, for host memory: itself, but over NCCL. Use only one of the two at a time.
  virtual Communicator& HostSide() { return *this; }
  /// How many parties exchange over the network: ranks, or machines where ranks share memory.
  virtual int network_size() const { return size_; }

  /// Reduces `count` elements over all ranks; every rank gets the result. In place: send == recv.
  Status AllReduce(const void* send, void* recv, size_t count, DataType dtype, ReduceOp op);
  /// As AllReduce(), but only `root` gets the result; `recv` is used there only.
  Status Reduce(const void* send, void* recv, size_t count, DataType dtype, ReduceOp op, int root);
  /// Copies `count` elements from `root`'s buffer into everybody's.
  Status Broadcast(void* buffer, size_t count, DataType dtype, int root);
  /// Everybody gets the `count` elements of each rank, in the order of ranks.
  /// In place: send == recv + rank * count.
  Status AllGather(const void* send, void* recv, size_t count, DataType dtype);
  /// As AllGather() with counts[i] elements of rank i, the same counts on all ranks.
  /// In place: send is where this rank's part of recv begins.
  Status AllGatherV(const void* send, void* recv, std::span<const size_t> counts, DataType dtype);
  /// Reduces size * count elements; rank i gets the i-th `count`. In place: recv == send +
  /// rank * count.
  Status ReduceScatter(const void* send, void* recv, size_t count, DataType dtype, ReduceOp op);
  /// Sends the j-th `count` elements to rank j, and gets as many from each. In place: send == recv.
  Status AllToAll(const void* send, void* recv, size_t count, DataType dtype);
  /// As AllToAll() with send_counts[j] elements for rank j, recv_counts[i] from rank i, each packed
  /// one after the other. Never in place. send_counts[j] is what rank j has as recv_counts[rank].
  Status AllToAllV(const void* send, std::span<const size_t> send_counts, void* recv,
                   std::span<const size_t> recv_counts, DataType dtype);
  /// `root` gets the `count` elements of each rank; `recv` is used there only. In place on root:
  /// send == recv + rank * count.
  Status Gather(const void* send, void* recv, size_t count, DataType dtype, int root);
  /// Rank i gets the i-th `count` elements of `root`'s send, which is used there only. In place on
  /// root: recv == send + rank * count.
  Status Scatter(const void* send, void* recv, size_t count, DataType dtype, int root);
  /// Returns when every rank has called it.
  Status Barrier();
  /// Returns when the buffer may be used again, which may be before `peer` receives or only then.
  Status Send(const void* buffer, size_t count, DataType dtype, int peer);
  /// Gets what `peer` sends next to this rank: the same count and dtype.
  Status Recv(void* buffer, size_t count, DataType dtype, int peer);

  /// All-reduces many tensors as few: they are packed into a buffer of this communicator (at most
  /// 64 MiB at once), reduced and unpacked: two copies of each byte instead of one operation each.
  /// They don't overlap (not checked).
  Status GroupAllReduce(std::span<const Tensor> tensors, DataType dtype, ReduceOp op);

  /// Runs any of the above.
  Status Run(const Operation& operation);

  /// Where calls only put their work into the program's stream (CommunicatorOptions::stream): waits
  /// until all of it is done, and tells what has gone wrong. Elsewhere nothing is left to wait for.
  virtual Status Synchronize() { return {}; }

  /// Operations have the `timeout` of the options until all ranks have called this, and then their
  /// `operation_timeout`, if there is one.
  virtual void EndMeeting() {}

  /// Ends the operations of all ranks, now and for ever, with kAborted.
  virtual void Abort() = 0;

  /// For the operations after it: all ranks call it between the same two, with the same table.
  virtual void UseTable(const AlgorithmTable& table) = 0;

 protected:
  Communicator(int rank, int size) : rank_(rank), size_(size) {}

 private:
  friend class CheckingCommunicator;

  /// `operation` is valid.
  virtual Status Execute(const Operation& operation) = 0;
  /// All-reduces tensors that together have at most 64 MiB, each with a buffer.
  virtual Status ExecuteGroup(std::span<const Tensor> tensors, DataType dtype, ReduceOp op);
  template <typename Act>
  Status EndingOnLackOfMemory(const Act& act);

  int rank_;
  int size_;
  std::vector<char> fusion_buffer_;
};

enum class Backend : uint8_t {
  kAuto,          ///< kShm if all ranks share memory, kHierarchical if some do, else kGloo.
  kShm,           ///< Memory that all ranks map. Errors: kNotSupported naming a rank that can't.
  kGloo,          ///< TCP between all ranks.
  kHierarchical,  ///< Memory between ranks that share some, TCP between the others.
  kNccl,  ///< Of GPUs' memory. Errors: kNotSupported naming a rank without a GPU of its own,
          ///< or because this library was built without NCCL.
};

struct CommunicatorOptions {
  int rank = 0;
  int size = 1;
  std::string rendezvous_host = "127.0.0.1";
  uint16_t rendezvous_port = 0;
  std::string interface;  ///< Gloo binds its first address; empty: the one of the host name.
  std::string scope;  ///< Of the store's keys; the same on all ranks, new for each communicator.
  Duration timeout{std::chrono::seconds(30)};  ///< Of the rendezvous and of each operation.
  Duration operation_timeout{};                ///< After EndMeeting(); 0: as `timeout`.
  /// Asked while ranks are waited for at the rendezvous: its error ends that.
  std::function<Status()> check;
  Backend backend = Backend::kAuto;
  bool is_checking = false;  ///< Compares all calls of all ranks: slow.
  AlgorithmTable table;      ///< Rank 0's is everybody's.
  /// The following are for kNccl. CUDA's number of the GPU, modulo those that the process sees.
  int device = 0;
  /// A cudaStream_t of that device, which outlives the communicator: calls but Barrier() return
  /// when their work is in it, and Synchronize() waits. nullptr: they block, and what the default
  /// stream has begun before them is done first.
  void* stream = nullptr;
};

/// Reads what hvdray (or horovodrun) gives its workers: HOROVOD_RANK, HOROVOD_SIZE,
/// HOROVOD_GLOO_RENDEZVOUS_ADDR and _PORT, HOROVOD_GLOO_IFACE, HOROVOD_GLOO_TIMEOUT_SECONDS,
/// HOROVOD_LOCAL_RANK (the device), HVDRAY_GENERATION; and HVDRAY_COLLECTIVE (auto, shm, gloo,
/// hierarchical, nccl), HVDRAY_CHECK_COLLECTIVES (0, 1). Without a rendezvous: one process, as
/// Horovod has it. `name` sets communicators of one process apart. Errors: kSpecInvalid naming the
/// variable.
Result<CommunicatorOptions> CommunicatorOptionsFrom(const Environment& environment,
                                                    const std::string& name);

/// Meets the other ranks through the rendezvous; all of them call it. Blocks.
/// Has the process ignore SIGPIPE where that signal has its default meaning and Gloo is used: a
/// lost peer is an error to return.
/// Errors: kDeadlineExceeded naming a rank that did not come, kHostUnreachable (no rendezvous),
/// kNotSupported (the backend is not possible here), kOutOfResources, kAborted, kSystem.
Result<std::unique_ptr<Communicator>> MakeCommunicator(const CommunicatorOptions& options);

/// A communicator of some ranks of `options`, in the order of `members`, which is the same on all
/// of them; only they call it. Its scope is made of the members: make one of the same members
/// twice in one scope only after the first is gone on all ranks. Errors: as MakeCommunicator();
/// kUsage when this rank is not among them, or one is there twice.
Result<std::unique_ptr<Communicator>> MakeSubCommunicator(const CommunicatorOptions& options,
                                                          std::span<const int> members);

}  // namespace hvdray

#endif  // HVDRAY_COLLECTIVE_COMMUNICATOR_H_
