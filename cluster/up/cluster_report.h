// SPDX-License-Identifier: Apache-2.0
// --report FILE of `hvdray up` and `hvdray down`, and the table that ends `up`: what became of each
// node and what it cost. The report is JSON with a versioned schema (docs/cluster.md, "Report"). No
// secrets and no output of commands.
#ifndef HVDRAY_CLUSTER_UP_CLUSTER_REPORT_H_
#define HVDRAY_CLUSTER_UP_CLUSTER_REPORT_H_

#include <chrono>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/json.h"
#include "base/status.h"
#include "cluster/up/cluster_driver.h"

namespace hvdray {

inline constexpr std::string_view kClusterReportSchema = "hvdray.cluster_report/1";

/// The command that is told about.
struct ClusterCall {
  std::string command;  ///< "up", "down"
  std::string name;     ///< The cluster's.
  std::string file;     ///< As the user named it.
  std::string build;    ///< "hvdray 0.1.0 (abc1234)"
  TimePoint began{};    ///< When hvdray was called; base of all offsets.
  std::chrono::system_clock::time_point began_wall{};
};

/// All that a report contains.
struct ClusterReport {
  ClusterCall call;
  int exit_code = 0;
  Status error;  ///< Why it is not 0.
  TimePoint ended{};
  std::vector<NodeRow> nodes;
};

/// The report's object, schema kClusterReportSchema.
Json ToJson(const ClusterReport& report);

/// Replaces `path` atomically. Blocks. Errors: kOutputLost.
Status WriteClusterReport(const std::string& path, const ClusterReport& report);

/// Of the nodes that failed, the first one's error, unless it only followed from another's; with
/// the node's address. Ok: none failed.
Status FirstFailure(std::span<const NodeRow> rows);

/// The table, with a line for each node.
std::string RowsText(std::span<const NodeRow> rows);

// Shared with the events.

/// "waiting for the head" as "waiting_for_the_head".
std::string KeyOf(std::string_view words);
/// {"address", "role"}
Json NodeNameJson(const NodeRow& row);
/// {"kind", "number", "count", "hash", "exit_code", "error", "duration_s", "files", "bytes"}; the
/// last two are null for a step that copies nothing.
Json StepJson(const StepOutcome& outcome);

}  // namespace hvdray

#endif  // HVDRAY_CLUSTER_UP_CLUSTER_REPORT_H_
