// SPDX-License-Identifier: Apache-2.0
#include "wire/elastic_fields.h"

#include <fmt/format.h>

#include <limits>

namespace hvdray::wire {
namespace {

constexpr size_t kMaxReason = 1024;
constexpr int64_t kMaxUpdateCode = 3;

}  // namespace

std::string JsonOf(const BreakConnections& /*order*/) { return "{}"; }

std::string JsonOf(const ConnectionsBroken& result) {
  return DumpJson({{"shut", result.shut},
                   {"destroyed", result.destroyed},
                   {"refused", result.refused},
                   {"took_us", result.took_us},
                   {"why", result.why},
                   {"hint", result.hint}});
}

std::string JsonOf(const Notify& notice) {
  return fmt::format(R"({{"worker":{},"timestamp":{},"code":{}}})", notice.worker, notice.timestamp,
                     notice.code);
}

std::string JsonOf(const HostLeaving& leaving) {
  return fmt::format(R"({{"in_ms":{}}})", leaving.in_ms);
}

std::string JsonOf(const WorkerArrived& arrived) {
  return fmt::format(R"({{"worker":{}}})", arrived.worker);
}

std::string JsonOf(const StopWorkers& stop) {
  return DumpJson({{"workers", stop.workers}, {"grace_ms", stop.grace_ms}});
}

void ReadFields(FieldReader& /*read*/, BreakConnections& /*order*/) {}

void ReadFields(FieldReader& read, ConnectionsBroken& result) {
  read.Unsigned("shut", result.shut);
  read.Unsigned("destroyed", result.destroyed);
  read.Unsigned("refused", result.refused);
  read.Unsigned("took_us", result.took_us);
  read.Shown("why", result.why, kMaxReason);
  read.Shown("hint", result.hint, kMaxReason);
}

void ReadFields(FieldReader& read, Notify& notice) {
  read.Worker("worker", notice.worker);
  read.Int("timestamp", notice.timestamp, 0, std::numeric_limits<int64_t>::max());
  read.Int("code", notice.code, 0, kMaxUpdateCode);
}

void ReadFields(FieldReader& read, HostLeaving& leaving) { read.Unsigned("in_ms", leaving.in_ms); }

void ReadFields(FieldReader& read, WorkerArrived& arrived) {
  read.Worker("worker", arrived.worker);
}

void ReadFields(FieldReader& read, StopWorkers& stop) {
  read.Each("workers", [&](const Json& element) {
    const bool is_worker = element.is_number_unsigned() && element.get<uint64_t>() <= kMaxWorker;
    if (!is_worker || stop.workers.size() >= kMaxSize) return read.Fault("workers");
    stop.workers.push_back(element.get<int32_t>());
  });
  read.Unsigned("grace_ms", stop.grace_ms);
}

}  // namespace hvdray::wire
