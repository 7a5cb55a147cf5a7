// SPDX-License-Identifier: Apache-2.0
// Recordings of simulated jobs, for the tests of record and replay.
#ifndef HVDRAY_TESTS_UNIT_DRIVER_RECORDING_H_
#define HVDRAY_TESTS_UNIT_DRIVER_RECORDING_H_

#include <string>
#include <vector>

#include "launcher/driver/elastic_replay.h"
#include "tests/fakes/elastic_sim.h"

namespace hvdray {

/// As RecordWriter would have written it.
inline std::vector<std::string> RecordingOf(const ElasticSim& sim, uint64_t seed) {
  std::vector<std::string> lines = {EncodeHeader({.build = "hvdray 0.0.0 (simulator)",
                                                  .job_id = "simulated",
                                                  .policy = sim.policy(),
                                                  .jitter_seed = seed})};
  for (const auto& [when, fact] : sim.facts()) {
    lines.push_back(EncodeEvent(fact, when - TimePoint{}));
  }
  if (sim.has_finished()) {
    lines.push_back(EncodeEnd(EndOf(sim.verdict(), sim.driver().Snapshot(), sim.elapsed())));
  }
  return lines;
}

inline std::string Joined(const std::vector<std::string>& lines) {
  std::string text;
  for (const std::string& line : lines) text += line + "\n";
  return text;
}

inline Result<ReplayResult> Replayed(const std::vector<std::string>& lines) {
  ElasticReplay replay("job.record");
  for (const std::string& line : lines) {
    const Result<bool> goes_on = replay.Feed(line, ElasticReplay::Line::kWhole);
    if (!goes_on.ok()) return goes_on.status();
    if (!*goes_on) break;
  }
  return replay.Finish();
}

}  // namespace hvdray

#endif  // HVDRAY_TESTS_UNIT_DRIVER_RECORDING_H_
