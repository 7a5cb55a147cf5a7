// SPDX-License-Identifier: Apache-2.0
#include "collective/operation.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <numeric>

namespace hvdray {
namespace {

size_t Total(std::span<const size_t> counts) {
  return std::accumulate(counts.begin(), counts.end(), size_t{0});
}

}  // namespace

bool HasRoot(Collective kind) {
  switch (kind) {
    case Collective::kReduce:
    case Collective::kBroadcast:
    case Collective::kGather:
    case Collective::kScatter:
    case Collective::kSend:
    case Collective::kRecv:
      return true;
    case Collective::kAllReduce:
    case Collective::kAllGather:
    case Collective::kReduceScatter:
    case Collective::kAllToAll:
    case Collective::kBarrier:
      return false;
  }
  return false;
}

bool IsReduction(Collective kind) {
  return kind == Collective::kAllReduce || kind == Collective::kReduce ||
         kind == Collective::kReduceScatter;
}

size_t SizeOf(DataType dtype) {
  switch (dtype) {
    case DataType::kInt8:
    case DataType::kUint8:
      return 1;
    case DataType::kInt16:
    case DataType::kFloat16:
    case DataType::kBfloat16:
      return 2;
    case DataType::kInt32:
    case DataType::kFloat32:
      return 4;
    case DataType::kInt64:
    case DataType::kFloat64:
      return 8;
  }
  return 0;
}

std::string_view Name(DataType dtype) {
  switch (dtype) {
    case DataType::kInt8:
      return "int8";
    case DataType::kInt16:
      return "int16";
    case DataType::kInt32:
      return "int32";
    case DataType::kInt64:
      return "int64";
    case DataType::kUint8:
      return "uint8";
    case DataType::kFloat16:
      return "float16";
    case DataType::kBfloat16:
      return "bfloat16";
    case DataType::kFloat32:
      return "float32";
    case DataType::kFloat64:
      return "float64";
  }
  return "?";
}

std::string_view Name(ReduceOp op) {
  switch (op) {
    case ReduceOp::kSum:
      return "sum";
    case ReduceOp::kAverage:
      return "average";
    case ReduceOp::kMin:
      return "min";
    case ReduceOp::kMax:
      return "max";
    case ReduceOp::kProduct:
      return "product";
    case ReduceOp::kBitAnd:
      return "bit_and";
    case ReduceOp::kBitOr:
      return "bit_or";
    case ReduceOp::kBitXor:
      return "bit_xor";
  }
  return "?";
}

std::string_view Name(Collective kind) {
  switch (kind) {
    case Collective::kAllReduce:
      return "all_reduce";
    case Collective::kReduce:
      return "reduce";
    case Collective::kBroadcast:
      return "broadcast";
    case Collective::kAllGather:
      return "all_gather";
    case Collective::kReduceScatter:
      return "reduce_scatter";
    case Collective::kAllToAll:
      return "all_to_all";
    case Collective::kGather:
      return "gather";
    case Collective::kScatter:
      return "scatter";
    case Collective::kBarrier:
      return "barrier";
    case Collective::kSend:
      return "send";
    case Collective::kRecv:
      return "recv";
  }
  return "?";
}

BufferBytes BytesOf(const Operation& operation, int rank, int size) {
  const size_t one = operation.count * SizeOf(operation.dtype);
  const size_t all = one * static_cast<size_t>(size);
  const bool is_root = operation.root == rank;
  switch (operation.kind) {
    case Collective::kAllReduce:
      return {one, one};
    case Collective::kReduce:
      return {one, is_root ? one : 0};
    case Collective::kBroadcast:
      return {is_root ? one : 0, is_root ? 0 : one};
    case Collective::kAllGather:
      if (operation.recv_counts.empty()) return {one, all};
      return {operation.recv_counts[static_cast<size_t>(rank)] * SizeOf(operation.dtype),
              Total(operation.recv_counts) * SizeOf(operation.dtype)};
    case Collective::kReduceScatter:
      return {all, one};
    case Collective::kAllToAll:
      if (operation.send_counts.empty()) return {all, all};
      return {Total(operation.send_counts) * SizeOf(operation.dtype),
              Total(operation.recv_counts) * SizeOf(operation.dtype)};
    case Collective::kGather:
      return {one, is_root ? all : 0};
    case Collective::kScatter:
      return {is_root ? all : 0, one};
    case Collective::kSend:
      return {one, 0};
    case Collective::kRecv:
      return {0, one};
    case Collective::kBarrier:
      return {};
  }
  return {};
}

size_t InPlaceOffset(const Operation& operation, int rank) {
  switch (operation.kind) {
    case Collective::kAllGather:
      if (!operation.recv_counts.empty()) {
        return Total(operation.recv_counts.first(static_cast<size_t>(rank))) *
               SizeOf(operation.dtype);
      }
      [[fallthrough]];
    case Collective::kReduceScatter:
    case Collective::kGather:
    case Collective::kScatter:
      return static_cast<size_t>(rank) * operation.count * SizeOf(operation.dtype);
    case Collective::kAllReduce:
    case Collective::kReduce:
    case Collective::kBroadcast:
    case Collective::kAllToAll:
    case Collective::kBarrier:
    case Collective::kSend:
    case Collective::kRecv:
      return 0;
  }
  return 0;
}

std::string Describe(const Operation& operation) {
  std::string text(Name(operation.kind));
  if (operation.kind == Collective::kBarrier) return text;
  text += operation.recv_counts.empty()
              ? fmt::format(" of {} {}", operation.count, Name(operation.dtype))
              : fmt::format(" of [{}] {}", fmt::join(operation.recv_counts, ", "),
                            Name(operation.dtype));
  if (IsReduction(operation.kind)) text += fmt::format(" ({})", Name(operation.op));
  if (HasRoot(operation.kind)) text += fmt::format(", root {}", operation.root);
  return text;
}

}  // namespace hvdray
