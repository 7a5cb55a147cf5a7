// SPDX-License-Identifier: Apache-2.0
// async.h over AsyncCore: no exception leaves, an error becomes its number and a line.
#include <algorithm>
#include <chrono>
#include <memory>
#include <span>
#include <string>
#include <utility>

#include "base/environ.h"
#include "base/text.h"
#include "collective/async/async.h"
#include "collective/async/async_handle.h"
#include "collective/c_error.h"

namespace hvdray {
namespace {

static_assert(static_cast<int>(RequestKind::kReduceScatter) == HVDRAY_REDUCESCATTER);
static_assert(static_cast<int>(RequestKind::kRemoveProcessSet) == HVDRAY_REMOVE_PROCESS_SET);
static_assert(kBoolType == HVDRAY_BOOL);

Status CheckHere(const hvdray_async* async) {
  if (async != nullptr && async->core->IsHere()) return {};
  return {ErrorCode::kUsage, "not initialized in this process"};
}

// Calls act() in the process that has made it.
template <typename Act>
int Here(const hvdray_async* async, const Act& act) {
  return ReportedToC([&]() -> Status {
    HVDRAY_RETURN_IF_ERROR(CheckHere(async));
    return act();
  });
}

int NumberOr(const Environment& environment, const char* name, int fallback) {
  return ParseInteger<int>(environment.GetOr(name, "")).value_or(fallback);
}

hvdray_place PlaceFrom(const Environment& environment, const AsyncCore& core) {
  hvdray_place place{};
  place.rank = core.rank();
  place.size = core.size();
  const bool is_alone = core.size() == 1;
  const auto number = [&](const char* name, int fallback) {
    return is_alone ? fallback : NumberOr(environment, name, fallback);
  };
  place.local_rank = number("HOROVOD_LOCAL_RANK", 0);
  place.local_size = number("HOROVOD_LOCAL_SIZE", 1);
  place.cross_rank = number("HOROVOD_CROSS_RANK", 0);
  place.cross_size = number("HOROVOD_CROSS_SIZE", 1);
  return place;
}

Status NoHandle(int64_t handle) {
  return {ErrorCode::kUsage, "no operation has the handle " + std::to_string(handle)};
}

}  // namespace
}  // namespace hvdray

using hvdray::ErrorCode;
using hvdray::Here;
using hvdray::Status;

int hvdray_async_init(const char* name, hvdray_async** async) {
  return hvdray::ReportedToC([&]() -> Status {
    const hvdray::Environment environment = hvdray::Environment::FromProcess();
    HVDRAY_ASSIGN_OR_RETURN(
        hvdray::CommunicatorOptions options,
        hvdray::CommunicatorOptionsFrom(environment, name != nullptr ? name : ""));
    options.scope += "_async";
    HVDRAY_ASSIGN_OR_RETURN(const hvdray::AsyncSettings settings,
                            hvdray::AsyncSettingsFrom(environment));
    auto made = std::make_unique<hvdray_async>();
    HVDRAY_ASSIGN_OR_RETURN(
        made->core, hvdray::AsyncCore::Make(std::move(options), settings,
                                            environment.GetOr("TORCHELASTIC_ERROR_FILE", "")));
    made->place = hvdray::PlaceFrom(environment, *made->core);
    const std::string timeline = environment.GetOr("HOROVOD_TIMELINE", "");
    if (!timeline.empty() && timeline != "DYNAMIC" && made->place.rank == 0) {
      const std::string marks = environment.GetOr("HOROVOD_TIMELINE_MARK_CYCLES", "0");
      HVDRAY_RETURN_IF_ERROR(
          made->core->timeline().Start(timeline, marks != "0" && !marks.empty()));
    }
    *async = made.release();
    return {};
  });
}

void hvdray_async_shutdown(hvdray_async* async) {
  if (hvdray::CheckHere(async).ok()) async->core->Shutdown();
}

void hvdray_async_shutdown_because(hvdray_async* async, const char* why) {
  if (hvdray::CheckHere(async).ok()) async->core->Shutdown(why != nullptr ? why : "");
}

void hvdray_async_fail(hvdray_async* async, const char* why) {
  if (hvdray::CheckHere(async).ok()) {
    async->core->Shutdown(why != nullptr ? why : "", hvdray::Leave::kFailed);
  }
}

void hvdray_async_free(hvdray_async* async) {
  if (!hvdray::CheckHere(async).ok()) return;
  const std::unique_ptr<hvdray_async> owned(async);
}

int hvdray_async_status(const hvdray_async* async) {
  return Here(async, [&] { return async->core->table().CheckOpen(); });
}

int hvdray_async_await_end(hvdray_async* async) {
  return Here(async, [&] { return async->core->table().AwaitEnd(); });
}

void hvdray_async_place(const hvdray_async* async, hvdray_place* place) { *place = async->place; }

int hvdray_async_process_set_ranks(const hvdray_async* async, int process_set, int* ranks,
                                   size_t capacity) {
  if (!hvdray::CheckHere(async).ok()) return -1;
  const auto sets = async->core->ProcessSets();
  const auto set = sets.find(process_set);
  if (set == sets.end()) return -1;
  std::copy_n(set->second.begin(), std::min(capacity, set->second.size()), ranks);
  return static_cast<int>(set->second.size());
}

int hvdray_async_process_sets(const hvdray_async* async, int* ids, size_t capacity) {
  if (!hvdray::CheckHere(async).ok()) return -1;
  const auto sets = async->core->ProcessSets();
  size_t written = 0;
  for (const auto& [id, ranks] : sets) {
    if (written < capacity) ids[written++] = id;
  }
  return static_cast<int>(sets.size());
}

int hvdray_async_submit(hvdray_async* async, const hvdray_request* requests, size_t count,
                        int64_t* handles) {
  return Here(async, [&] { return async->core->Submit(std::span(requests, count), handles); });
}

int hvdray_async_poll(const hvdray_async* async, int64_t handle) {
  return hvdray::CheckHere(async).ok() ? async->core->table().Poll(handle) : -1;
}

int hvdray_async_wait(hvdray_async* async, int64_t handle) {
  return Here(async, [&]() -> Status {
    const hvdray::LocalOperationPtr operation = async->core->table().Wait(handle);
    return operation == nullptr ? hvdray::NoHandle(handle) : *operation->status;
  });
}

int hvdray_async_wait_for(hvdray_async* async, int64_t handle, int milliseconds) {
  if (hvdray::CheckHere(async).ok() &&
      !async->core->table().WaitFor(handle, std::chrono::milliseconds(milliseconds))) {
    return -1;
  }
  return hvdray_async_wait(async, handle);
}

size_t hvdray_async_missing(hvdray_async* async, int64_t handle, int* ranks, size_t capacity) {
  if (!hvdray::CheckHere(async).ok()) return 0;
  const std::vector<int> missing = async->core->Missing(handle);
  std::copy_n(missing.begin(), std::min(capacity, missing.size()), ranks);
  return missing.size();
}

int hvdray_async_result(const hvdray_async* async, int64_t handle, hvdray_result* result) {
  return Here(async, [&]() -> Status {
    hvdray::OperationTable& table = async->core->table();
    const hvdray::LocalOperationPtr operation =
        table.Poll(handle) == 1 ? table.Wait(handle) : nullptr;
    if (operation == nullptr || !operation->status->ok()) return hvdray::NoHandle(handle);
    *result = {static_cast<int>(operation->shape.size()),
               operation->shape.data(),
               operation->received.data(),
               operation->received.size(),
               operation->last_rank,
               operation->process_set,
               operation->sequence};
    return {};
  });
}

void hvdray_async_release(hvdray_async* async, int64_t handle) {
  if (hvdray::CheckHere(async).ok()) async->core->table().Release(handle);
}

size_t hvdray_async_reap(hvdray_async* async, int64_t* handles, size_t capacity) {
  if (!hvdray::CheckHere(async).ok()) return 0;
  return async->core->table().Reap(std::span(handles, capacity));
}

int hvdray_async_timeline_start(hvdray_async* async, const char* path, int mark_cycles) {
  return Here(async, [&]() -> Status {
    if (async->place.rank != 0) return {};
    return async->core->timeline().Start(path, mark_cycles != 0);
  });
}

int hvdray_async_timeline_stop(hvdray_async* async) {
  return Here(async, [&] { return async->core->timeline().Stop(); });
}
