// SPDX-License-Identifier: Apache-2.0
// One collective operation as data: its kind, types and buffers. Pure. Threads: any.
#ifndef HVDRAY_COLLECTIVE_OPERATION_H_
#define HVDRAY_COLLECTIVE_OPERATION_H_

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>

namespace hvdray {

enum class DataType : uint8_t {
  kInt8,
  kInt16,
  kInt32,
  kInt64,
  kUint8,
  kFloat16,   ///< IEEE 754 binary16.
  kBfloat16,  ///< The upper half of a float32.
  kFloat32,
  kFloat64,
};

/// Integers wrap. Each result is rounded once from a sum in float32 for the 16-bit floats where
/// ranks share memory, once a step on a network. A NaN of any rank makes the result a NaN. NCCL has
/// no bitwise operations and no int16 (kNotSupported), and need not keep a NaN from min and max.
enum class ReduceOp : uint8_t {
  kSum,
  kAverage,  ///< The sum divided by the number of ranks; for integers rounded towards zero.
  kMin,
  kMax,
  kProduct,
  kBitAnd,  ///< The bitwise ones are for integers only.
  kBitOr,
  kBitXor,
};

/// Bytes of one element.
size_t SizeOf(DataType dtype);
/// "float32", "bfloat16", …
std::string_view Name(DataType dtype);
/// "sum", "bit_and", …
std::string_view Name(ReduceOp op);

enum class Collective : uint8_t {
  kAllReduce,
  kReduce,
  kBroadcast,
  kAllGather,
  kReduceScatter,
  kAllToAll,
  kGather,
  kScatter,
  kBarrier,
  kSend,
  kRecv,
};

/// "all_reduce", "send", …
std::string_view Name(Collective kind);
/// Whether it has a ReduceOp.
bool IsReduction(Collective kind);
/// Whether it has a root, or a peer.
bool HasRoot(Collective kind);

/// One call, as data: Communicator's methods fill it. Borrows the buffers.
struct Operation {
  Collective kind = Collective::kBarrier;
  const void* send = nullptr;
  void* recv = nullptr;
  size_t count = 0;  ///< Elements, as the method of that name counts them.
  DataType dtype = DataType::kUint8;
  ReduceOp op = ReduceOp::kSum;
  int root = 0;                         ///< The peer of kSend and kRecv.
  std::span<const size_t> send_counts;  ///< Elements for each rank; empty: `count` for each.
  std::span<const size_t> recv_counts;  ///< Elements from each rank; empty: `count` from each.
};

/// Bytes that a rank passes in and gets out, from its own view: 0 where it has no such buffer.
struct BufferBytes {
  size_t send = 0;
  size_t recv = 0;
};
BufferBytes BytesOf(const Operation& operation, int rank, int size);

/// Where in `recv` (in `send` for kReduceScatter and kScatter) an operation in place has its other
/// buffer, in bytes.
size_t InPlaceOffset(const Operation& operation, int rank);

/// "all_reduce of 10 float32 (sum)", "broadcast of 3 int8, root 2".
std::string Describe(const Operation& operation);

}  // namespace hvdray

#endif  // HVDRAY_COLLECTIVE_OPERATION_H_
