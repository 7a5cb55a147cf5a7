// SPDX-License-Identifier: Apache-2.0
#include "collective/async/check_request.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstring>

#include "base/result.h"
#include "collective/async/request.h"
#include "collective/hvdray.h"

namespace hvdray {
namespace {

constexpr size_t kMostNameBytes = 65535;
constexpr int kMostDimensions = 1024;
constexpr size_t kMostBytes = size_t{1} << 60;

Status WrongRequest(const hvdray_request& request, std::string_view what) {
  return {ErrorCode::kUsage,
          fmt::format("{} '{}': {}", Name(static_cast<RequestKind>(request.kind)),
                      request.name == nullptr ? "" : request.name, what)};
}

// Bytes of the tensor; or why it is none.
Result<size_t> BytesOfTensor(const hvdray_request& request) {
  if (request.type < 0 || request.type > HVDRAY_BOOL) {
    return WrongRequest(request, fmt::format("no type {}", request.type));
  }
  if (request.dimensions < 0 || request.dimensions > kMostDimensions ||
      (request.dimensions > 0 && request.shape == nullptr)) {
    return WrongRequest(request, "no shape");
  }
  size_t bytes = SizeOfType(static_cast<uint8_t>(request.type));
  for (int i = 0; i < request.dimensions; ++i) {
    const int64_t dimension = request.shape[i];
    if (dimension < 0) return WrongRequest(request, "a dimension is negative");
    if (dimension > 0 && bytes > kMostBytes / static_cast<size_t>(dimension)) {
      return WrongRequest(request, "more bytes than memory has");
    }
    bytes *= static_cast<size_t>(dimension);
  }
  return bytes;
}

Status CheckReduction(const hvdray_request& request) {
  if (request.op == HVDRAY_ADASUM) {
    return {ErrorCode::kNotSupported, "Adasum is not supported",
            "it needs MPI, as in a Gloo build of Horovod"};
  }
  if (request.op < HVDRAY_SUM || request.op > HVDRAY_PRODUCT) {
    return WrongRequest(request, fmt::format("no operation {}", request.op));
  }
  if (std::isnan(request.prescale) || std::isnan(request.postscale)) {
    return WrongRequest(request, "a scale is not a number");
  }
  if (request.type == HVDRAY_BOOL &&
      (request.op == HVDRAY_AVERAGE || request.prescale != 1 || request.postscale != 1)) {
    return WrongRequest(request, "bool has no average and no scales");
  }
  return {};
}

Status CheckMemory(const hvdray_request& request, size_t bytes, int rank) {
  if (request.device >= 0) {
    return request.run == nullptr ? WrongRequest(request, "no function to run on the device")
                                  : Status();
  }
  const bool is_root = request.kind == HVDRAY_BROADCAST && request.root == rank;
  const bool reads = request.kind != HVDRAY_BROADCAST || is_root;
  if (reads && bytes > 0 && request.input == nullptr) return WrongRequest(request, "no input");
  const bool is_as_large = request.kind == HVDRAY_ALLREDUCE || request.kind == HVDRAY_BROADCAST;
  if (!is_as_large) {
    return request.output == nullptr && request.allocate == nullptr
               ? WrongRequest(request, "no output, and no function to allocate it")
               : Status();
  }
  if (request.output == nullptr) {
    return bytes > 0 && !is_root ? WrongRequest(request, "no output") : Status();
  }
  const auto in = reinterpret_cast<uintptr_t>(request.input);
  const auto out = reinterpret_cast<uintptr_t>(request.output);
  if (reads && in != out && in < out + bytes && out < in + bytes) {
    return WrongRequest(request, "input and output overlap and are not in place");
  }
  return {};
}

Status CheckRanks(const hvdray_request& request, int size) {
  if (request.ranks == nullptr || request.rank_count == 0) {
    return WrongRequest(request, "a process set without ranks");
  }
  for (size_t i = 0; i < request.rank_count; ++i) {
    if (request.ranks[i] < 0 || request.ranks[i] >= size ||
        (i > 0 && request.ranks[i] <= request.ranks[i - 1])) {
      return WrongRequest(request, fmt::format("not ascending ranks of {}", size));
    }
  }
  return {};
}

}  // namespace

Status CheckRequest(const hvdray_request& request, const std::vector<int>* members, int rank,
                    int size) {
  if (request.kind < HVDRAY_ALLREDUCE || request.kind > HVDRAY_REMOVE_PROCESS_SET) {
    return {ErrorCode::kUsage, fmt::format("no kind of operation {}", request.kind)};
  }
  const bool is_data = request.kind <= HVDRAY_REDUCESCATTER;
  if (request.name == nullptr ? is_data
                              : ::strnlen(request.name, kMostNameBytes + 1) > kMostNameBytes) {
    return {ErrorCode::kUsage, "a name is missing or too long"};
  }
  if (request.kind == HVDRAY_ADD_PROCESS_SET) return CheckRanks(request, size);
  if (members == nullptr) {
    return WrongRequest(request, fmt::format("no process set {}", request.process_set));
  }
  if (request.kind == HVDRAY_REMOVE_PROCESS_SET) {
    return request.process_set == 0 ? WrongRequest(request, "the set of all ranks stays")
                                    : Status();
  }
  const auto is_member = [&](int who) {
    return std::binary_search(members->begin(), members->end(), who);
  };
  if (!is_member(rank)) {
    return WrongRequest(request,
                        fmt::format("rank {} is not in process set {}", rank, request.process_set));
  }
  if (!is_data) return {};
  if (request.kind == HVDRAY_BROADCAST && !is_member(request.root)) {
    return WrongRequest(request, fmt::format("the root, rank {}, is not in process set {}",
                                             request.root, request.process_set));
  }
  HVDRAY_ASSIGN_OR_RETURN(const size_t bytes, BytesOfTensor(request));
  if (request.kind == HVDRAY_ALLREDUCE || request.kind == HVDRAY_REDUCESCATTER) {
    HVDRAY_RETURN_IF_ERROR(CheckReduction(request));
  }
  return CheckMemory(request, bytes, rank);
}

}  // namespace hvdray
