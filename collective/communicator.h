// SPDX-License-Identifier: Apache-2.0
// Collective operations over all ranks of a job. Training programs link this library alone.
#ifndef HVDRAY_COLLECTIVE_COMMUNICATOR_H_
#define HVDRAY_COLLECTIVE_COMMUNICATOR_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>

#include "base/environ.h"
#include "base/result.h"
#include "base/types.h"

namespace hvdray {

enum class DataType : uint8_t { kUint8, kInt32, kInt64, kFloat32, kFloat64 };
enum class ReduceOp : uint8_t { kSum, kProduct, kMin, kMax };

/// Bytes of one element.
size_t SizeOf(DataType dtype);

/// All ranks call the same operations in the same order with the same count, dtype, op and root.
/// Blocks: until this rank's part is done. Threads: one caller at a time per communicator.
/// Errors: kAborted when a peer left (the generation is over: build a new communicator),
/// kDeadlineExceeded when a peer did not come in time.
class Communicator {
 public:
  virtual ~Communicator() = default;
  virtual int rank() const = 0;
  virtual int size() const = 0;

  /// Reduces `count` elements over all ranks; every rank gets the result in `recv`.
  /// send, recv: `count` elements of `dtype` in host memory; may be equal (in place).
  virtual Status AllReduce(const void* send, void* recv, size_t count, DataType dtype,
                           ReduceOp op) = 0;
  /// Copies `count` elements from `root`'s buffer into everybody's.
  virtual Status Broadcast(void* buffer, size_t count, DataType dtype, int root) = 0;
  /// Returns when every rank has called it.
  virtual Status Barrier() = 0;
};

struct CommunicatorOptions {
  int rank = 0;
  int size = 1;
  std::string rendezvous_host = "127.0.0.1";
  uint16_t rendezvous_port = 0;
  std::string interface;  ///< Gloo binds its first address; empty: the one of the host name.
  std::string scope;  ///< Of the store's keys; the same on all ranks, new for each communicator.
  Duration timeout{std::chrono::seconds(30)};  ///< Of the rendezvous and of each operation.
};

/// Reads what hvdray (or horovodrun) gives its workers: HOROVOD_RANK, HOROVOD_SIZE,
/// HOROVOD_GLOO_RENDEZVOUS_ADDR and _PORT, HOROVOD_GLOO_IFACE, HOROVOD_GLOO_TIMEOUT_SECONDS,
/// HVDRAY_GENERATION. Without a rendezvous: one process, as Horovod has it.
/// `name` sets communicators of one process apart. Errors: kSpecInvalid naming the variable.
Result<CommunicatorOptions> CommunicatorOptionsFrom(const Environment& environment,
                                                    const std::string& name);

/// Over TCP between all ranks, meeting through the rendezvous; in one process for size 1. Has the
/// process ignore SIGPIPE where that signal has its default meaning: a lost peer is an error to
/// return.
Result<std::unique_ptr<Communicator>> MakeGlooCommunicator(const CommunicatorOptions& options);

}  // namespace hvdray

#endif  // HVDRAY_COLLECTIVE_COMMUNICATOR_H_
