// SPDX-License-Identifier: Apache-2.0
#include "collective/async/executor.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <numeric>
#include <utility>

#include "collective/async/check_request.h"
#include "collective/reduce_kernels.h"

namespace hvdray {
namespace {

// A bool is a byte that is 0 or 1, of which min is "and" and max is "or".
DataType TypeOf(const Request& request) {
  return request.type == kBoolType ? DataType::kUint8 : static_cast<DataType>(request.type);
}

ReduceOp OpOf(const Request& request) {
  const auto op = static_cast<ReduceOp>(request.op);
  if (request.type != kBoolType) return op;
  return op == ReduceOp::kMin || op == ReduceOp::kProduct ? ReduceOp::kMin : ReduceOp::kMax;
}

// Elements of what is below the first dimension.
size_t RowElements(const Request& request) {
  size_t elements = 1;
  for (size_t i = 1; i < request.shape.size(); ++i) {
    elements *= static_cast<size_t>(request.shape[i]);
  }
  return elements;
}

void CopyScaled(void* dst, const void* src, const Request& request, double factor) {
  if (request.Bytes() == 0) return;
  if (factor != 1) {
    Scale(dst, src, request.Elements(), TypeOf(request), factor);
  } else if (dst != src) {
    std::memcpy(dst, src, request.Bytes());
  }
}

// Has the program say where the result goes.
Status Allocate(LocalOperation& local, std::vector<int64_t> shape) {
  local.shape = std::move(shape);
  if (local.output != nullptr) return {};
  size_t bytes = SizeOfType(local.request.type);
  for (const int64_t dimension : local.shape) bytes *= static_cast<size_t>(dimension);
  if (local.allocate != nullptr) {
    local.output =
        local.allocate(local.context, local.shape.data(), static_cast<int>(local.shape.size()));
  }
  if (local.output != nullptr || bytes == 0) return {};
  return {ErrorCode::kOutOfResources,
          fmt::format("{} '{}': no memory for a result of {} bytes", Name(local.request.kind),
                      local.request.name, bytes)};
}

std::vector<int64_t> WithRows(const Request& request, int64_t rows) {
  std::vector<int64_t> shape = request.shape;
  shape[0] = rows;
  return shape;
}

// The first dimension of each member's part.
std::vector<int64_t> Scattered(int64_t rows, size_t members) {
  const auto count = static_cast<int64_t>(members);
  std::vector<int64_t> parts(members, rows / count);
  for (size_t i = 0; i < static_cast<size_t>(rows % count); ++i) ++parts[i];
  return parts;
}

std::vector<size_t> TimesElements(std::span<const int64_t> rows, size_t elements) {
  std::vector<size_t> counts;
  counts.reserve(rows.size());
  for (const int64_t each : rows) counts.push_back(static_cast<size_t>(each) * elements);
  return counts;
}

bool AllEqual(std::span<const size_t> counts) {
  return std::all_of(counts.begin(), counts.end(),
                     [&](size_t count) { return count == counts.front(); });
}

}  // namespace

Executor::Executor(CommunicatorOptions options, std::unique_ptr<Communicator> all,
                   OperationTable& table, Timeline& timeline)
    : options_(std::move(options)), table_(table), timeline_(timeline) {
  ProcessSet set;
  set.ranks.resize(static_cast<size_t>(options_.size));
  std::iota(set.ranks.begin(), set.ranks.end(), 0);
  set.communicator = std::move(all);
  sets_[0] = std::move(set);
}

Status Executor::Run(const Batch& batch) {
  std::vector<LocalOperation*> locals;
  std::vector<LocalOperation*> present;
  for (const PlannedOperation& planned : batch) {
    const auto* own = static_cast<const LocalName*>(planned.own);
    locals.push_back(own == nullptr ? nullptr : own->in_flight.get());
    if (locals.back() != nullptr) present.push_back(locals.back());
  }
  const PlannedOperation& first = batch.front();
  if (!first.error.ok()) {
    table_.Finish(present, first.error);
    return {};
  }
  ProcessSet& set = sets_.at(first.request->process_set);
  if (set.communicator == nullptr) return {};
  for (const PlannedOperation& planned : batch) timeline_.Begin(*planned.request);
  Status status;
  if (batch.size() > 1 && !first.request->is_on_device) {
    status = Fused(batch, locals, set);
  } else {
    for (size_t i = 0; i < batch.size() && status.ok(); ++i) {
      status = Dispatch({batch[i], locals[i], set, batch.size() - 1 - i});
    }
  }
  for (const PlannedOperation& planned : batch) timeline_.End(*planned.request);
  if (status.ok()) table_.Finish(present, status);
  return status;
}

Status Executor::Dispatch(const Context& context) {
  const Request& request = *context.planned.request;
  LocalOperation* local = context.local;
  if (local != nullptr) local->shape = local->request.shape;
  if (request.is_on_device && request.kind != RequestKind::kJoin) return OnDevice(context);
  switch (request.kind) {
    case RequestKind::kAllReduce:
      return AllReduce(context);
    case RequestKind::kAllGather:
      return AllGather(context);
    case RequestKind::kBroadcast:
      return Broadcast(context);
    case RequestKind::kAllToAll:
      return AllToAll(context);
    case RequestKind::kReduceScatter:
      return ReduceScatter(context);
    case RequestKind::kBarrier:
      return {};  // all have come
    case RequestKind::kJoin:
      local->last_rank = context.planned.last_rank;
      local->sequence = context.planned.sequence;
      return {};
    case RequestKind::kAddProcessSet:
      return AddSet(context);
    case RequestKind::kRemoveProcessSet:
      return RemoveSet(context);
  }
  return {};
}

Status Executor::AllReduce(const Context& context) {
  const Request& request = *context.planned.request;
  Communicator& ranks = *context.set.communicator;
  const size_t count = request.Elements();
  if (context.local == nullptr) {
    buffer_.assign(request.Bytes(), 0);
    return ranks.AllReduce(buffer_.data(), buffer_.data(), count, TypeOf(request), OpOf(request));
  }
  const void* send = context.local->input;
  void* recv = context.local->output;
  if (request.prescale != 1) {
    CopyScaled(recv, send, request, request.prescale);
    send = recv;
  }
  HVDRAY_RETURN_IF_ERROR(ranks.AllReduce(send, recv, count, TypeOf(request), OpOf(request)));
  CopyScaled(recv, recv, request, request.postscale);
  return {};
}

Status Executor::Fused(const Batch& batch, std::span<LocalOperation* const> locals,
                       ProcessSet& set) {
  size_t bytes = 0;
  for (const PlannedOperation& planned : batch) bytes += planned.request->Bytes();
  if (buffer_.size() < bytes) buffer_.resize(bytes);
  const Request& first = *batch.front().request;
  const auto for_each = [&](std::string_view part, const auto& act) {
    char* place = buffer_.data();
    for (size_t i = 0; i < batch.size(); ++i) {
      const Request& request = *batch[i].request;
      if (!part.empty()) timeline_.BeginPart(request, part);
      act(place, request, locals[i]);
      if (!part.empty()) timeline_.EndPart(request);
      place += request.Bytes();
    }
  };
  for_each("MEMCPY_IN_FUSION_BUFFER",
           [](char* place, const Request& request, LocalOperation* local) {
             if (local != nullptr) {
               local->shape = request.shape;
               CopyScaled(place, local->input, request, request.prescale);
             } else if (request.Bytes() > 0) {
               std::memset(place, 0, request.Bytes());
             }
           });
  const bool is_shown = timeline_.is_on();
  for (size_t i = 0; is_shown && i < batch.size(); ++i) {
    timeline_.BeginPart(*batch[i].request, "HVDRAY_ALLREDUCE");
  }
  Status status = set.communicator->AllReduce(
      buffer_.data(), buffer_.data(), bytes / SizeOfType(first.type), TypeOf(first), OpOf(first));
  for (size_t i = 0; is_shown && i < batch.size(); ++i) timeline_.EndPart(*batch[i].request);
  if (!status.ok()) return status;
  for_each("MEMCPY_OUT_FUSION_BUFFER",
           [](char* place, const Request& request, LocalOperation* local) {
             if (local != nullptr) CopyScaled(local->output, place, request, request.postscale);
           });
  return {};
}

Status Executor::AllGather(const Context& context) {
  LocalOperation& local = *context.local;
  const std::vector<int64_t>& rows = context.planned.rows;
  HVDRAY_RETURN_IF_ERROR(Allocate(
      local, WithRows(local.request, std::accumulate(rows.begin(), rows.end(), int64_t{0}))));
  const std::vector<size_t> counts = TimesElements(rows, RowElements(local.request));
  Communicator& ranks = *context.set.communicator;
  const DataType type = TypeOf(local.request);
  return AllEqual(counts) ? ranks.AllGather(local.input, local.output, counts[0], type)
                          : ranks.AllGatherV(local.input, local.output, counts, type);
}

Status Executor::Broadcast(const Context& context) {
  LocalOperation& local = *context.local;
  const std::vector<int>& ranks = context.set.ranks;
  const Request& request = local.request;
  const auto root =
      static_cast<int>(std::find(ranks.begin(), ranks.end(), request.root) - ranks.begin());
  void* buffer = local.output;
  if (request.root == options_.rank) {
    if (local.output != nullptr) CopyScaled(local.output, local.input, request, 1);
    buffer = const_cast<void*>(local.input);  // NOLINT: the root's is only read
  }
  return context.set.communicator->Broadcast(buffer, request.Elements(), TypeOf(request), root);
}

Status Executor::AllToAll(const Context& context) {
  LocalOperation& local = *context.local;
  const std::vector<int64_t>& rows = context.planned.rows;
  Communicator& ranks = *context.set.communicator;
  const auto members = static_cast<size_t>(ranks.size());
  const auto me = static_cast<size_t>(ranks.rank());
  for (size_t i = 0; i < members; ++i) local.received.push_back(rows[i * members + me]);
  HVDRAY_RETURN_IF_ERROR(Allocate(
      local, WithRows(local.request,
                      std::accumulate(local.received.begin(), local.received.end(), int64_t{0}))));
  const size_t elements = RowElements(local.request);
  const DataType type = TypeOf(local.request);
  // All ranks take the same way.
  if (std::all_of(rows.begin(), rows.end(), [&](int64_t each) { return each == rows[0]; })) {
    return ranks.AllToAll(local.input, local.output, static_cast<size_t>(rows[0]) * elements, type);
  }
  const std::vector<size_t> send =
      TimesElements(std::span(rows).subspan(me * members, members), elements);
  const std::vector<size_t> recv = TimesElements(local.received, elements);
  return ranks.AllToAllV(local.input, send, local.output, recv, type);
}

Status Executor::ReduceScatter(const Context& context) {
  LocalOperation& local = *context.local;
  const Request& request = local.request;
  Communicator& ranks = *context.set.communicator;
  const auto members = static_cast<size_t>(ranks.size());
  const auto me = static_cast<size_t>(ranks.rank());
  const std::vector<int64_t> parts = Scattered(request.shape[0], members);
  HVDRAY_RETURN_IF_ERROR(Allocate(local, WithRows(request, parts[me])));
  const std::vector<size_t> counts = TimesElements(parts, RowElements(request));
  const DataType type = TypeOf(request);
  const size_t own_bytes = counts[me] * SizeOf(type);
  if (counts.front() == counts.back() && request.prescale == 1) {
    HVDRAY_RETURN_IF_ERROR(
        ranks.ReduceScatter(local.input, local.output, counts[0], type, OpOf(request)));
  } else {
    // Parts of one size, the largest: the buffer has a place for each, and one for the result.
    const size_t part_bytes = counts.front() * SizeOf(type);
    buffer_.assign(part_bytes * (members + 1), 0);
    const char* from = static_cast<const char*>(local.input);
    for (size_t i = 0; i < members; ++i) {
      char* place = buffer_.data() + i * part_bytes;
      if (counts[i] > 0) Scale(place, from, counts[i], type, request.prescale);
      from += counts[i] * SizeOf(type);
    }
    char* result = buffer_.data() + members * part_bytes;
    HVDRAY_RETURN_IF_ERROR(
        ranks.ReduceScatter(buffer_.data(), result, counts.front(), type, OpOf(request)));
    if (own_bytes > 0) std::memcpy(local.output, result, own_bytes);
  }
  if (request.postscale != 1 && own_bytes > 0) {
    Scale(local.output, local.output, counts[me], type, request.postscale);
  }
  return {};
}

Status Executor::OnDevice(const Context& context) {
  const PlannedOperation& planned = context.planned;
  const Request& request = *planned.request;
  const auto members = context.set.ranks.size();
  const auto me = static_cast<size_t>(context.set.communicator->rank());
  LocalOperation* local = context.local;
  // Its join stands in for the operation that this rank doesn't have.
  if (local == nullptr) local = table_.Find(request.process_set, std::string(kJoinName));
  std::vector<int64_t> rows = planned.rows;
  if (request.kind == RequestKind::kAllToAll) {
    for (size_t i = 0; i < members; ++i) local->received.push_back(rows[i * members + me]);
    rows = local->received;
    local->shape = WithRows(request, std::accumulate(rows.begin(), rows.end(), int64_t{0}));
  } else if (request.kind == RequestKind::kAllGather) {
    local->shape = WithRows(request, std::accumulate(rows.begin(), rows.end(), int64_t{0}));
  } else if (request.kind == RequestKind::kReduceScatter) {
    rows = Scattered(request.shape[0], members);
    local->shape = WithRows(request, rows[me]);
  }
  const Request& own = context.local == nullptr ? request : context.local->request;
  const hvdray_call call{static_cast<int>(request.kind),
                         request.process_set,
                         request.type,
                         request.op,
                         request.root,
                         context.local == nullptr ? 1 : 0,
                         static_cast<int>(own.shape.size()),
                         own.shape.data(),
                         request.prescale,
                         request.postscale,
                         rows.data(),
                         rows.size(),
                         static_cast<int>(context.following)};
  if (local->run != nullptr && local->run(local->context, &call) == 0) return {};
  return {ErrorCode::kAborted, fmt::format("{} '{}' failed on the device of rank {}",
                                           Name(request.kind), request.name, options_.rank)};
}

Status Executor::AddSet(const Context& context) {
  ProcessSet added;
  added.ranks.assign(context.planned.request->numbers.begin(),
                     context.planned.request->numbers.end());
  const int id = context.planned.process_set;
  if (std::find(added.ranks.begin(), added.ranks.end(), options_.rank) != added.ranks.end()) {
    CommunicatorOptions options = options_;
    options.scope += fmt::format("_set{}", id);
    HVDRAY_ASSIGN_OR_RETURN(added.communicator, MakeSubCommunicator(options, added.ranks));
    added.communicator->EndMeeting();
  }
  context.local->process_set = id;
  const std::lock_guard lock(mutex_);
  if (is_aborted_ && added.communicator != nullptr) added.communicator->Abort();
  sets_[id] = std::move(added);
  return {};
}

Status Executor::RemoveSet(const Context& context) {
  context.local->process_set = context.planned.process_set;
  ProcessSet removed;
  const std::lock_guard lock(mutex_);
  removed = std::move(sets_.at(context.planned.process_set));
  sets_.erase(context.planned.process_set);
  return {};
}

void Executor::Abort() {
  const std::lock_guard lock(mutex_);
  is_aborted_ = true;
  for (auto& [id, set] : sets_) {
    if (set.communicator != nullptr) set.communicator->Abort();
  }
}

Status Executor::Check(const hvdray_request& request) const {
  const std::lock_guard lock(mutex_);
  const auto set = sets_.find(request.process_set);
  return CheckRequest(request, set == sets_.end() ? nullptr : &set->second.ranks, options_.rank,
                      options_.size);
}

std::map<int, std::vector<int>> Executor::Sets() const {
  const std::lock_guard lock(mutex_);
  std::map<int, std::vector<int>> sets;
  for (const auto& [id, set] : sets_) sets[id] = set.ranks;
  return sets;
}

}  // namespace hvdray
