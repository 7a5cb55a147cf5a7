// SPDX-License-Identifier: Apache-2.0
// One call of an AWS query API: endpoint, signature, repetition, answer. Decides nothing about a
// cluster.
#ifndef HVDRAY_CLUSTER_CLOUD_AWS_API_H_
#define HVDRAY_CLUSTER_CLOUD_AWS_API_H_

#include <atomic>
#include <functional>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/environ.h"
#include "base/result.h"
#include "base/xml.h"
#include "cluster/cloud/aws_credentials.h"
#include "cluster/cloud/aws_errors.h"
#include "cluster/cloud/aws_query.h"

namespace hvdray {

/// All that the calls touch outside of themselves; tests have their own.
struct AwsEdge {
  AwsSend send;
  AwsRun run;  ///< Ends when the calls are cancelled.
  /// Waits; false: cancelled meanwhile.
  std::function<bool(Duration)> sleep;
  std::function<double()> random;      ///< From 0 to below 1.
  std::function<TimePoint()> now;      ///< Monotonic: how long ago a machine was made.
  std::function<WallTime()> wall_now;  ///< For the end of credentials.
  /// One line for the user while a call takes longer: throttled, waiting, trying elsewhere.
  std::function<void(const std::string& line)> note;
};

/// The services that are called: machines, roles, identities, parameters.
enum class AwsService : uint8_t { kEc2, kIam, kSts, kSsm };

/// Where a service answers, and whose scope signs for it.
struct AwsEndpoint {
  std::string url, region, service;
};

/// AWS_ENDPOINT_URL_EC2 and the like, else AWS_ENDPOINT_URL, else Amazon's for the region.
AwsEndpoint ToAwsEndpoint(AwsService service, const std::string& region,
                          const Environment& environment);

/// What a call gave: an answer, or a refusal of a kind.
struct AwsAnswer {
  XmlElement root;  ///< Empty unless ok().
  AwsFault fault = AwsFault::kNone;
  Status status;           ///< Why not, in words. Not ok without a fault: nothing was answered.
  std::string error_code;  ///< AWS's.

  bool ok() const { return status.ok(); }
};

/// Whether a call that got no answer may be made again.
enum class AwsRepeat : uint8_t { kAlways, kOnlyIfRefused };

/// Threads: any, several calls at a time.
class AwsApi {
 public:
  AwsApi(AwsAccountFacts account, std::string region, Environment environment, AwsEdge edge,
         AwsRetryPolicy policy = {});

  /// POSTs a form with `action` and signs it; repeats it by AwsDelayBeforeNext().
  AwsAnswer Call(AwsService service, std::string_view action, const AwsForm& form,
                 AwsRepeat repeat = AwsRepeat::kAlways);

  /// All pages of a Describe… call, each given to `take`.
  AwsAnswer CallPages(std::string_view action, const AwsForm& form,
                      const std::function<void(const XmlElement& page)>& take);

  /// The value of a parameter of SSM, whose API speaks JSON. nullopt: there is none, or these
  /// credentials may not read it. Errors: as Call().
  Result<std::optional<std::string>> Parameter(const std::string& name);

  /// Where the credentials come from, for messages. Errors: as PlanAwsCredentials() and
  /// FetchAwsCredentials().
  Result<std::string> CredentialSource();

  /// The same account, elsewhere.
  AwsApi InRegion(std::string region) const {
    return AwsApi(account_, std::move(region), environment_, edge_, policy_);
  }

  const std::string& region() const { return region_; }
  const AwsEdge& edge() const { return edge_; }

 private:
  Result<AwsSigner> MakeSigner(const AwsEndpoint& endpoint, std::string& source);
  Result<AwsCredentials> FindCredentials();
  Result<AwsCredentials> AssumeRole(const AwsCredentialPlan& plan);
  void ForgetCredentials();
  AwsAnswer CallOnce(const AwsEndpoint& endpoint, std::string_view action, const std::string& body,
                     AwsRepeat repeat);
  bool PauseBefore(const AwsAnswer& answer, std::string_view action, int attempts);

  const AwsAccountFacts account_;
  const std::string region_;
  const Environment environment_;
  const AwsEdge edge_;
  const AwsRetryPolicy policy_;

  std::mutex mutex_;  // guards the rest, also while credentials are fetched
  std::optional<AwsCredentials> credentials_;
  bool can_renew_ = false;  // they came from a service, not from a file
};

}  // namespace hvdray

#endif  // HVDRAY_CLUSTER_CLOUD_AWS_API_H_
