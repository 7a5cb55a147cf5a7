// SPDX-License-Identifier: Apache-2.0
// Converts the dashboard's JSON to plain values and back, and its failures to errors. Pure. Any
// input yields a value or a kProtocolError that names the fault; unknown keys are ignored.
#ifndef HVDRAY_CLUSTER_RAY_RAY_ANSWERS_H_
#define HVDRAY_CLUSTER_RAY_RAY_ANSWERS_H_

#include <string>
#include <string_view>
#include <vector>

#include "base/http_client.h"
#include "base/result.h"
#include "base/status.h"
#include "base/types.h"
#include "cluster/ray/ray_facts.h"
#include "launcher/job/ray_address.h"

namespace hvdray {

/// For GET /api/version.
Result<RayVersion> ParseRayVersion(ByteView body);
/// For GET /api/v0/nodes. Skips nodes that are not ALIVE.
Result<std::vector<RayNode>> ParseRayNodes(ByteView body);
/// The same for nodes that are DEAD, with detail=True, in the order of their deaths. Skips others.
Result<std::vector<RayLostNode>> ParseRayLostNodes(ByteView body);
/// The names in the answer to GET /api/v0/logs, sorted.
Result<std::vector<std::string>> ParseRayLogNames(ByteView body);
/// For GET /api/cluster_status. Without a report there is no usage: the head has just started, or
/// has autoscaler v2, which writes none.
Result<RayClusterStatus> ParseRayClusterStatus(ByteView body);
/// For GET /nodes?view=summary, which has the usage with both versions of the autoscaler.
Result<RayNodeSummary> ParseRayNodeSummary(ByteView body);
/// For GET /api/v0/placement_groups?detail=True.
Result<std::vector<RayPlacementGroup>> ParseRayPlacementGroups(ByteView body);
/// For GET /api/jobs/ID and GET /api/jobs/.
Result<RayJob> ParseRayJob(ByteView body);
Result<std::vector<RayJob>> ParseRayJobs(ByteView body);
/// For GET /api/jobs/ID/logs.
Result<std::string> ParseRayJobLog(ByteView body);
/// The submission id in the answer to POST /api/jobs/.
Result<std::string> ParseSubmission(ByteView body);
/// For {"<key>": true|false}.
Result<bool> ParseRayFlag(ByteView body, const char* key);

/// The body of POST /api/jobs/.
std::string SubmissionBody(const RayJobRequest& request);

// Turns failed requests into one-line errors, those of DashboardClient.

/// A request: "http://10.0.0.10:8265", "list nodes".
struct RayQuestion {
  std::string url;  ///< RayAddress::Shown()
  std::string attempt;
  bool is_first = false;  ///< No answer has shown yet that this is a Ray dashboard.
};

/// For a request without an answer. `why`: from HttpClient.
Status NoRayAnswer(const RayQuestion& question, const Status& why);

/// For an answer whose status is not 200.
Status RayRefusal(const RayQuestion& question, const HttpReply& reply, const RayToken& token);

/// For an answer of status 200 that is not from Ray. `fault`: from the parser.
Status NotRays(const RayQuestion& question, const HttpReply& reply, const Status& fault);

/// The last line of `body` that contains a word, safe to show: for a Python traceback the one with
/// the error (the dashboard may add a line with only a full stop). Empty: no such line.
std::string LastLine(ByteView body);

/// Masks the token everywhere in `text`, since some servers echo their input.
void MaskToken(std::string& text, const RayToken& token);

}  // namespace hvdray

#endif  // HVDRAY_CLUSTER_RAY_RAY_ANSWERS_H_
