// SPDX-License-Identifier: Apache-2.0
// Machines of a cluster in Amazon's EC2, by its query APIs (docs/adr/0019).
#ifndef HVDRAY_CLUSTER_CLOUD_AWS_PROVIDER_H_
#define HVDRAY_CLUSTER_CLOUD_AWS_PROVIDER_H_

#include <functional>
#include <memory>
#include <string>

#include "base/environ.h"
#include "base/result.h"
#include "cluster/cloud/aws_api.h"
#include "cluster/cloud/provider.h"

namespace hvdray {

/// A provider for a file of type aws. Reads AWS's shared files; opens no connection yet. `note`:
/// called on the caller's thread of a call, with a line for the user when AWS makes it wait; may be
/// empty. Errors: kSpecInvalid, kFileUnreadable.
Result<std::unique_ptr<Provider>> MakeAwsProvider(const ClusterSpec& spec,
                                                  const Environment& environment,
                                                  std::function<void(const std::string&)> note);

/// As above, on another edge: for tests. `cancel`: makes edge.sleep() and edge.send() end.
Result<std::unique_ptr<Provider>> MakeAwsProviderOn(const ClusterSpec& spec,
                                                    const Environment& environment, AwsEdge edge,
                                                    std::function<void()> cancel);

}  // namespace hvdray

#endif  // HVDRAY_CLUSTER_CLOUD_AWS_PROVIDER_H_
