// The dashboard's JSON to plain values and back. Pure: whatever a server sends ends in a value or a
// kProtocolError that says what is wrong with it; a key that is new is no error.
#ifndef HVDRAY_CLUSTER_RAY_RAY_ANSWERS_H_
#define HVDRAY_CLUSTER_RAY_RAY_ANSWERS_H_

#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "base/types.h"
#include "cluster/ray/ray_facts.h"

namespace hvdray {

/// Of GET /api/version.
Result<RayVersion> ParseRayVersion(ByteView body);
/// Of GET /api/v0/nodes; those that are not ALIVE are left out.
Result<std::vector<RayNode>> ParseRayNodes(ByteView body);
/// Of GET /api/cluster_status. Without a report it has no usage: the head has just started, or has
/// autoscaler v2, which writes none.
Result<RayClusterStatus> ParseRayClusterStatus(ByteView body);
/// Of GET /nodes?view=summary, where both versions of the autoscaler say what is in use.
Result<RayNodeSummary> ParseRayNodeSummary(ByteView body);
/// Of GET /api/v0/placement_groups?detail=True.
Result<std::vector<RayPlacementGroup>> ParseRayPlacementGroups(ByteView body);
/// Of GET /api/jobs/ID and GET /api/jobs/.
Result<RayJob> ParseRayJob(ByteView body);
Result<std::vector<RayJob>> ParseRayJobs(ByteView body);
/// The submission id in the answer to POST /api/jobs/.
Result<std::string> ParseSubmission(ByteView body);
/// {"<key>": true|false}
Result<bool> ParseRayFlag(ByteView body, const char* key);

/// The body of POST /api/jobs/.
std::string SubmissionBody(const RayJobRequest& request);

/// How the dashboard writes a key of cluster_status: object_store_memory as objectStoreMemory,
/// node:__internal_head__ as node:InternalHead. Source: Python's str.title() for each part but the
/// first.
std::string RayCamelCase(std::string_view name);

}  // namespace hvdray

#endif  // HVDRAY_CLUSTER_RAY_RAY_ANSWERS_H_
