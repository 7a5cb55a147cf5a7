// SPDX-License-Identifier: Apache-2.0
#include "agent/survivors.h"

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <limits>
#include <string>
#include <utility>
#include <vector>

#include "base/log.h"

namespace hvdray {

void Survivors::Break(Generation generation) {
  // Pending address lookups first: later answers would lead to connections that the breaker misses.
  relay_.EndMeshes(generation);
  const std::vector<LivingWorker> living = gangs_.LivingOf(generation);
  wire::ConnectionsBroken answer;
  if (const std::string& problem = relay_.mesh().problem(); !problem.empty()) {
    answer.refused = static_cast<uint32_t>(living.size());
    answer.why = problem;
    Log(LogLevel::kDebug, "agent", "connections of generation {} stay: {}", generation, problem);
    return link_.Send({generation, std::move(answer)});
  }
  const ConnectionBreaker::Outcome result =
      breaker_.Break(living, relay_.mesh().Addresses(), relay_.mesh().Listening());
  answer.shut = result.shut;
  answer.destroyed = result.destroyed;
  answer.refused = result.refused;
  const auto took = std::chrono::duration_cast<std::chrono::microseconds>(result.took).count();
  answer.took_us =
      static_cast<uint32_t>(std::min<int64_t>(took, std::numeric_limits<uint32_t>::max()));
  answer.why = result.why;
  answer.hint = result.hint;
  link_.Send({generation, std::move(answer)});
}

void Survivors::Send(const wire::Notify& notice) {
  const WorkerAddresses* addresses = relay_.AddressesOf(notice.worker);
  if (addresses == nullptr) return;
  notifier_.Send(notice.worker, *addresses, {notice.timestamp, notice.code},
                 [worker = notice.worker](const Status& outcome) {
                   const bool is_news = outcome.ok() || outcome.code() == ErrorCode::kCancelled;
                   Log(is_news ? LogLevel::kDebug : LogLevel::kInfo, "agent",
                       "worker={}: notice {}", worker,
                       outcome.ok() ? std::string("taken") : outcome.message());
                 });
}

}  // namespace hvdray
