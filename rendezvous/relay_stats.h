// SPDX-License-Identifier: Apache-2.0
// Counters of one relay, for reports and benchmarks.
#ifndef HVDRAY_RENDEZVOUS_RELAY_STATS_H_
#define HVDRAY_RENDEZVOUS_RELAY_STATS_H_

#include <cstdint>

namespace hvdray {

/// Counts since the relay's start.
struct RelayStats {
  uint64_t requests = 0;           ///< Well-formed requests.
  uint64_t served_from_cache = 0;  ///< Answered 200 at once, without the store.
  uint64_t held_too_long = 0;      ///< GETs answered 404 after the hold.
  uint64_t upstream_questions = 0;
  uint64_t upstream_bytes = 0;    ///< Bytes of values, in both directions.
  uint64_t refused_peers = 0;     ///< Connections of other users.
  uint64_t refused_slots = 0;     ///< Requests in the name of another worker.
  uint64_t refused_requests = 0;  ///< Malformed requests.
  uint64_t stale_requests = 0;    ///< From workers whose generation is behind the store's.
  uint64_t over_limit = 0;        ///< Answered 503: the worker had too many held requests.
  uint64_t dropped_answers = 0;   ///< Without a waiting request, or of an older generation.
  bool operator==(const RelayStats&) const = default;
};

/// The counters' names on the wire and in the report.
struct RelayCounter {
  const char* name;
  uint64_t RelayStats::*field;
};
/// All counters, in the order of the report.
inline constexpr RelayCounter kRelayCounters[] = {
    {"requests", &RelayStats::requests},
    {"served_from_cache", &RelayStats::served_from_cache},
    {"held_too_long", &RelayStats::held_too_long},
    {"upstream_questions", &RelayStats::upstream_questions},
    {"upstream_bytes", &RelayStats::upstream_bytes},
    {"refused_peers", &RelayStats::refused_peers},
    {"refused_slots", &RelayStats::refused_slots},
    {"refused_requests", &RelayStats::refused_requests},
    {"stale_requests", &RelayStats::stale_requests},
    {"over_limit", &RelayStats::over_limit},
    {"dropped_answers", &RelayStats::dropped_answers},
};

}  // namespace hvdray

#endif  // HVDRAY_RENDEZVOUS_RELAY_STATS_H_
