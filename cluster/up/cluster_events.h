// SPDX-License-Identifier: Apache-2.0
// --events FILE of `hvdray up` and `hvdray down`: one JSON object per line, written as things
// happen; schema in docs/cluster.md, "Events". Observes only; never blocks the loop.
#ifndef HVDRAY_CLUSTER_UP_CLUSTER_EVENTS_H_
#define HVDRAY_CLUSTER_UP_CLUSTER_EVENTS_H_

#include <chrono>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "base/loop.h"
#include "base/result.h"
#include "cluster/up/cluster_driver.h"
#include "cluster/up/cluster_report.h"

namespace hvdray {

inline constexpr std::string_view kClusterEventsSchema = "hvdray.cluster_events/1";

class LineFile;

/// Settings of such a log; the first line is made from them.
struct ClusterEventsOptions {
  std::string path;
  std::string option = "--events";  ///< Names the path in messages.
  ClusterCall call;
  std::vector<NodeRow> nodes;  ///< In the driver's order; their addresses and roles.
  /// Called once, maybe from within a call: the file can't be written whole (kOutputLost). Must not
  /// destroy the log.
  std::function<void(Status)> on_damaged;
};

/// Owns the file. Threads: the loop's.
class ClusterEvents {
 public:
  /// Opens (a named pipe: waits for its reader), truncates, and writes the first line. Call before
  /// anything is started. Errors: kFileUnwritable.
  static Result<std::unique_ptr<ClusterEvents>> Open(Loop& loop, ClusterEventsOptions options);
  ~ClusterEvents();

  /// Call for every fact and effect, in order. Tick, Done and what is printed give no line.
  void OnFact(const ClusterEvent& fact, TimePoint now);
  void OnEffect(const ClusterEffect& effect, TimePoint now);
  void OnSignal(int signo, TimePoint now);
  /// The last line.
  void OnEnd(int exit_code, const Status& error, TimePoint now);

 private:
  ClusterEvents(ClusterEventsOptions options, std::unique_ptr<LineFile> file);
  Json Line(std::string_view event, TimePoint now) const;
  Json NodeLine(std::string_view event, int node, TimePoint now) const;
  Json Described(const ClusterNote& note, TimePoint now) const;
  Json PlanLine(const cluster_note::Planned& planned, TimePoint now) const;
  void Write(const Json& line);

  const ClusterEventsOptions options_;
  const std::unique_ptr<LineFile> file_;
};

}  // namespace hvdray

#endif  // HVDRAY_CLUSTER_UP_CLUSTER_EVENTS_H_
