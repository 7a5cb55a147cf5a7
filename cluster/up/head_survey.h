// SPDX-License-Identifier: Apache-2.0
// What the head of a cluster that runs says of itself and its nodes.
#ifndef HVDRAY_CLUSTER_UP_HEAD_SURVEY_H_
#define HVDRAY_CLUSTER_UP_HEAD_SURVEY_H_

#include <string>

#include "base/result.h"
#include "cluster/up/node_script.h"
#include "launcher/job/job_spec.h"

namespace hvdray {

/// Whether the host's name in its cluster, or the one that is dialled, is this machine's. May block
/// in name lookup.
bool IsThisMachineCalled(const HostSlots& host, const JobSpec& spec);

/// Whether it is reached without SSH. Not in a cloud, whose network may have our address, too.
bool IsHeadHere(const HostSlots& head, const JobSpec& spec);

/// Asks `head` over SSH, or here if it is this machine, what runs there of the cluster `name`.
/// Changes nothing there. Blocks. Errors: those of RunOverSshForOutput(), kHostUnreachable with
/// what the head said.
Result<NodeSurvey> SurveyHead(const HostSlots& head, const std::string& name, const JobSpec& spec);

/// Where the head's dashboard listens; the usual place, if the head does not say. Errors:
/// kNotSupported for a Ray that has none; kRayUnreachable where another cluster's is at that place.
Result<RayDashboard> FindDashboard(const HostSlots& head, const std::string& name,
                                   const JobSpec& spec);

}  // namespace hvdray

#endif  // HVDRAY_CLUSTER_UP_HEAD_SURVEY_H_
