// SPDX-License-Identifier: Apache-2.0
// What all communicators have in common: the methods and the checks of their arguments.
#include "collective/communicator.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <new>
#include <utility>

#include "collective/reduce_kernels.h"

namespace hvdray {
namespace {

Status Wrong(const Operation& operation, const std::string& what) {
  return {ErrorCode::kUsage, fmt::format("{}: {}", Name(operation.kind), what)};
}

Status CheckCounts(const Operation& operation, int rank, int size) {
  constexpr size_t kMostBytes = size_t{1} << 62;
  constexpr size_t kFew = size_t{1} << 32;  // of any type and number of ranks
  size_t elements = operation.count;
  for (const auto counts : {operation.send_counts, operation.recv_counts}) {
    if (counts.empty()) continue;
    if (counts.size() != static_cast<size_t>(size)) {
      return Wrong(operation, fmt::format("{} counts for {} ranks", counts.size(), size));
    }
    elements = std::max(elements, *std::max_element(counts.begin(), counts.end()));
  }
  if (operation.kind == Collective::kAllToAll) {
    if (operation.send_counts.empty() != operation.recv_counts.empty()) {
      return Wrong(operation, "no counts");
    }
    if (!operation.send_counts.empty()) {
      const size_t sent = operation.send_counts[static_cast<size_t>(rank)];
      const size_t received = operation.recv_counts[static_cast<size_t>(rank)];
      if (sent != received) {
        return Wrong(operation, fmt::format("rank {} sends itself {} elements and receives {}",
                                            rank, sent, received));
      }
    }
  }
  if (elements > kFew &&
      elements > kMostBytes / SizeOf(operation.dtype) / static_cast<size_t>(size)) {
    return Wrong(operation, fmt::format("{} elements are more than memory has", elements));
  }
  return {};
}

Status CheckBuffers(const Operation& operation, int rank, int size) {
  const BufferBytes bytes = BytesOf(operation, rank, size);
  if (bytes.send > 0 && operation.send == nullptr) return Wrong(operation, "no buffer to send");
  if (bytes.recv > 0 && operation.recv == nullptr) return Wrong(operation, "no buffer to receive");
  if (bytes.send == 0 || bytes.recv == 0 || operation.kind == Collective::kBroadcast) return {};
  const auto send = reinterpret_cast<uintptr_t>(operation.send);
  const auto recv = reinterpret_cast<uintptr_t>(operation.recv);
  if (send + bytes.send <= recv || recv + bytes.recv <= send) return {};
  const bool is_piece_received =
      operation.kind == Collective::kReduceScatter || operation.kind == Collective::kScatter;
  const size_t offset = InPlaceOffset(operation, rank);
  const bool is_in_place = is_piece_received ? recv == send + offset : send == recv + offset;
  const bool may_be = operation.kind != Collective::kAllToAll || operation.send_counts.empty();
  if (is_in_place && may_be) return {};
  return Wrong(operation, "the buffers overlap and are not in place");
}

}  // namespace

Status Communicator::Run(const Operation& operation) {
  if (SizeOf(operation.dtype) == 0) return Wrong(operation, "no such data type");
  if (HasRoot(operation.kind) && (operation.root < 0 || operation.root >= size_)) {
    return Wrong(operation, fmt::format("no rank {} of {}", operation.root, size_));
  }
  if ((operation.kind == Collective::kSend || operation.kind == Collective::kRecv) &&
      operation.root == rank_) {
    return Wrong(operation, "a rank cannot exchange with itself");
  }
  if (IsReduction(operation.kind) && FindReduce(operation.dtype, operation.op) == nullptr) {
    return Wrong(operation, fmt::format("{} is not defined for {}", Name(operation.op),
                                        Name(operation.dtype)));
  }
  HVDRAY_RETURN_IF_ERROR(CheckCounts(operation, rank_, size_));
  HVDRAY_RETURN_IF_ERROR(CheckBuffers(operation, rank_, size_));
  return EndingOnLackOfMemory([&] { return Execute(operation); });
}

template <typename Act>
Status Communicator::EndingOnLackOfMemory(const Act& act) {
  try {
    return act();
  } catch (const std::bad_alloc&) {
    Abort();  // the others may be in the middle of it
    return {ErrorCode::kOutOfResources, "no memory for partial results"};
  }
}

Status Communicator::AllReduce(const void* send, void* recv, size_t count, DataType dtype,
                               ReduceOp op) {
  return Run({Collective::kAllReduce, send, recv, count, dtype, op});
}

Status Communicator::Reduce(const void* send, void* recv, size_t count, DataType dtype, ReduceOp op,
                            int root) {
  return Run({Collective::kReduce, send, recv, count, dtype, op, root});
}

Status Communicator::Broadcast(void* buffer, size_t count, DataType dtype, int root) {
  return Run({Collective::kBroadcast, buffer, buffer, count, dtype, ReduceOp::kSum, root});
}

Status Communicator::AllGather(const void* send, void* recv, size_t count, DataType dtype) {
  return Run({Collective::kAllGather, send, recv, count, dtype});
}

Status Communicator::AllGatherV(const void* send, void* recv, std::span<const size_t> counts,
                                DataType dtype) {
  Operation operation{Collective::kAllGather, send, recv, 0, dtype};
  operation.recv_counts = counts;
  if (counts.empty()) return Wrong(operation, "no counts");
  return Run(operation);
}

Status Communicator::ReduceScatter(const void* send, void* recv, size_t count, DataType dtype,
                                   ReduceOp op) {
  return Run({Collective::kReduceScatter, send, recv, count, dtype, op});
}

Status Communicator::AllToAll(const void* send, void* recv, size_t count, DataType dtype) {
  return Run({Collective::kAllToAll, send, recv, count, dtype});
}

Status Communicator::AllToAllV(const void* send, std::span<const size_t> send_counts, void* recv,
                               std::span<const size_t> recv_counts, DataType dtype) {
  Operation operation{Collective::kAllToAll, send, recv, 0, dtype};
  operation.send_counts = send_counts;
  operation.recv_counts = recv_counts;
  if (send_counts.empty() || recv_counts.empty()) return Wrong(operation, "no counts");
  return Run(operation);
}

Status Communicator::Gather(const void* send, void* recv, size_t count, DataType dtype, int root) {
  return Run({Collective::kGather, send, recv, count, dtype, ReduceOp::kSum, root});
}

Status Communicator::Scatter(const void* send, void* recv, size_t count, DataType dtype, int root) {
  return Run({Collective::kScatter, send, recv, count, dtype, ReduceOp::kSum, root});
}

Status Communicator::Barrier() { return Run({Collective::kBarrier}); }

Status Communicator::Send(const void* buffer, size_t count, DataType dtype, int peer) {
  return Run({Collective::kSend, buffer, nullptr, count, dtype, ReduceOp::kSum, peer});
}

Status Communicator::Recv(void* buffer, size_t count, DataType dtype, int peer) {
  return Run({Collective::kRecv, nullptr, buffer, count, dtype, ReduceOp::kSum, peer});
}

Status Communicator::GroupAllReduce(std::span<const Tensor> tensors, DataType dtype, ReduceOp op) {
  constexpr size_t kMostBytes = size_t{64} << 20;
  // Before anything happens, as with one buffer.
  if (SizeOf(dtype) == 0) return {ErrorCode::kUsage, "group_all_reduce: no such data type"};
  if (FindReduce(dtype, op) == nullptr) {
    return {ErrorCode::kUsage,
            fmt::format("group_all_reduce: {} is not defined for {}", Name(op), Name(dtype))};
  }
  for (const Tensor& tensor : tensors) {
    if (tensor.count > 0 && tensor.data == nullptr) {
      return {ErrorCode::kUsage, "group_all_reduce: a tensor has no buffer"};
    }
    HVDRAY_RETURN_IF_ERROR(CheckCounts(
        {Collective::kAllReduce, nullptr, nullptr, tensor.count, dtype, op}, rank_, size_));
  }
  const size_t most = kMostBytes / SizeOf(dtype);
  while (!tensors.empty()) {
    // As many as fit; one that is larger than the buffer goes by itself, without a copy.
    size_t fitting = 0;
    size_t count = 0;
    while (fitting < tensors.size() && tensors[fitting].count <= most - count) {
      count += tensors[fitting++].count;
    }
    if (fitting <= 1) {
      const Tensor& tensor = tensors.front();
      HVDRAY_RETURN_IF_ERROR(AllReduce(tensor.data, tensor.data, tensor.count, dtype, op));
      fitting = 1;
    } else if (count > 0) {
      HVDRAY_RETURN_IF_ERROR(
          EndingOnLackOfMemory([&] { return ExecuteGroup(tensors.first(fitting), dtype, op); }));
    }
    tensors = tensors.subspan(fitting);
  }
  return {};
}

Status Communicator::ExecuteGroup(std::span<const Tensor> tensors, DataType dtype, ReduceOp op) {
  size_t count = 0;
  for (const Tensor& tensor : tensors) count += tensor.count;
  if (fusion_buffer_.size() < count * SizeOf(dtype)) fusion_buffer_.resize(count * SizeOf(dtype));
  char* place = fusion_buffer_.data();
  for (const Tensor& tensor : tensors) {
    const size_t bytes = tensor.count * SizeOf(dtype);
    if (bytes > 0) std::memcpy(place, tensor.data, bytes);
    place += bytes;
  }
  HVDRAY_RETURN_IF_ERROR(AllReduce(fusion_buffer_.data(), fusion_buffer_.data(), count, dtype, op));
  place = fusion_buffer_.data();
  for (const Tensor& tensor : tensors) {
    const size_t bytes = tensor.count * SizeOf(dtype);
    if (bytes > 0) std::memcpy(tensor.data, place, bytes);
    place += bytes;
  }
  return {};
}

}  // namespace hvdray
