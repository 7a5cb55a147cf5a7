// SPDX-License-Identifier: Apache-2.0
#include "cluster/cloud/aws_errors.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "base/text.h"

namespace hvdray {
namespace {

struct FaultRow {
  std::string_view code;  ///< Ends in '*': the start of a code.
  AwsFault fault;
  std::string_view hint = {};
};

constexpr std::string_view kQuotaHint =
    "raise the quota at Service Quotas, or lower max_workers; quotas belong to a region";
constexpr std::string_view kClockHint =
    "check this machine's clock: a signature is good for minutes";
constexpr std::string_view kKeyHint =
    "check the access key; `aws sts get-caller-identity` tests it";

/// Read from the top. Source: EC2 API reference, error codes; IAM and STS common errors.
constexpr FaultRow kFaults[] = {
    {"RequestLimitExceeded", AwsFault::kThrottled},
    {"Throttl*", AwsFault::kThrottled},
    {"TooManyRequestsException", AwsFault::kThrottled},
    {"RequestThrottled*", AwsFault::kThrottled},
    {"SlowDown", AwsFault::kThrottled},
    {"EC2ThrottledException", AwsFault::kThrottled},
    {"BandwidthLimitExceeded", AwsFault::kThrottled},

    {"InsufficientInstanceCapacity", AwsFault::kNoCapacity,
     "wait, or allow more availability zones or another InstanceType"},
    {"InsufficientHostCapacity", AwsFault::kNoCapacity, "wait, or allow more availability zones"},
    {"InsufficientReservedInstanceCapacity", AwsFault::kNoCapacity},
    {"InsufficientCapacity*", AwsFault::kNoCapacity},
    {"InsufficientAddressCapacity", AwsFault::kNoCapacity},
    {"InsufficientFreeAddressesInSubnet", AwsFault::kNoCapacity,
     "use a larger subnet, or several of them"},
    {"SpotMaxPriceTooLow", AwsFault::kNoCapacity,
     "raise SpotOptions.MaxPrice, or leave it out to pay at most the on-demand price"},
    {"Unsupported", AwsFault::kNoCapacity,
     "this zone does not have the InstanceType: allow other availability zones"},
    {"ReservationCapacityExceeded", AwsFault::kNoCapacity},

    {"VcpuLimitExceeded", AwsFault::kQuota, kQuotaHint},
    {"InstanceLimitExceeded", AwsFault::kQuota, kQuotaHint},
    {"MaxSpotInstanceCountExceeded", AwsFault::kQuota, kQuotaHint},
    {"SpotInstanceCountLimitExceeded", AwsFault::kQuota, kQuotaHint},
    {"VolumeLimitExceeded", AwsFault::kQuota, kQuotaHint},
    {"MaxIOPSLimitExceeded", AwsFault::kQuota, kQuotaHint},
    {"SecurityGroupLimitExceeded", AwsFault::kQuota, kQuotaHint},
    {"KeyPairLimitExceeded", AwsFault::kQuota, kQuotaHint},
    {"LimitExceeded", AwsFault::kQuota, kQuotaHint},
    {"PendingVerification", AwsFault::kQuota, "Amazon is still verifying this account or region"},

    {"InvalidInstanceID.NotFound", AwsFault::kNotYetVisible, "it may be gone already"},
    {"InvalidGroup.NotFound", AwsFault::kNotYetVisible},
    {"InvalidGroupId.NotFound", AwsFault::kNotYetVisible},
    {"InvalidSecurityGroupID.NotFound", AwsFault::kNotYetVisible},
    {"IncorrectInstanceState", AwsFault::kNotYetVisible},

    {"NoSuchEntity", AwsFault::kNotFound},
    {"ParameterNotFound", AwsFault::kNotFound},
    {"InvalidAMIID.*", AwsFault::kNotFound,
     "image ids belong to a region: look it up in this one, or leave ImageId out"},
    {"InvalidSubnetID.NotFound", AwsFault::kNotFound, "subnet ids belong to a region and account"},
    {"InvalidKeyPair.NotFound", AwsFault::kNotFound,
     "key pairs belong to a region: check KeyName and provider.region"},
    {"InvalidLaunchTemplate*", AwsFault::kNotFound},

    {"InvalidKeyPair.Duplicate", AwsFault::kAlreadyExists},
    {"InvalidGroup.Duplicate", AwsFault::kAlreadyExists},
    {"InvalidPermission.Duplicate", AwsFault::kAlreadyExists},
    {"EntityAlreadyExists", AwsFault::kAlreadyExists},

    {"DependencyViolation", AwsFault::kInUse, "something still uses it"},
    {"InvalidGroup.InUse", AwsFault::kInUse, "an instance or another group still uses it"},
    {"DeleteConflict", AwsFault::kInUse, "something was added to it by hand: remove that first"},

    {"RequestExpired", AwsFault::kExpired, kClockHint},
    {"ExpiredToken*", AwsFault::kExpired, "log in again: session credentials last for hours"},
    {"SignatureDoesNotMatch", AwsFault::kDenied,
     "check the secret access key, and this machine's clock"},
    {"AuthFailure", AwsFault::kDenied, kKeyHint},
    {"InvalidClientTokenId", AwsFault::kDenied, kKeyHint},
    {"UnrecognizedClientException", AwsFault::kDenied, kKeyHint},
    {"InvalidAccessKeyId", AwsFault::kDenied, kKeyHint},
    {"MissingAuthenticationToken", AwsFault::kDenied, kKeyHint},
    {"IncompleteSignature", AwsFault::kDenied, kKeyHint},
    {"UnauthorizedOperation", AwsFault::kDenied,
     "give this user the permission: AmazonEC2FullAccess has all that EC2 needs"},
    {"AccessDenied*", AwsFault::kDenied, "give this user the permission that the message names"},
    {"OptInRequired", AwsFault::kDenied,
     "enable the region for this account, or subscribe the image"},
    {"Blocked", AwsFault::kDenied, "this account is blocked: see Amazon's mail"},

    {"IdempotentParameterMismatch", AwsFault::kSpentToken},
    {"IdempotentInstanceTerminated", AwsFault::kSpentToken},

    {"InternalError", AwsFault::kServer},
    {"InternalFailure", AwsFault::kServer},
    {"ServiceUnavailable", AwsFault::kServer},
    {"ServiceFailure", AwsFault::kServer},
    {"Unavailable", AwsFault::kServer},
    {"RequestTimeout*", AwsFault::kServer},
};

const FaultRow* RowOf(std::string_view code) {
  for (const FaultRow& row : kFaults) {
    const bool is_start = row.code.ends_with('*');
    if (is_start ? code.starts_with(row.code.substr(0, row.code.size() - 1)) : code == row.code) {
      return &row;
    }
  }
  return nullptr;
}

/// A profile made a moment ago that EC2 does not know yet; its code is that of any wrong value.
bool IsFreshProfile(const AwsError& error) {
  return error.code == "InvalidParameterValue" &&
         Lower(error.message).find("iaminstanceprofile") != std::string::npos;
}

ErrorCode CodeOf(AwsFault fault) {
  switch (fault) {
    case AwsFault::kNone:
    case AwsFault::kThrottled:
    case AwsFault::kServer:
    case AwsFault::kNotYetVisible:
    case AwsFault::kNotFound:
    case AwsFault::kAlreadyExists:
    case AwsFault::kInUse:
    case AwsFault::kSpentToken:
    case AwsFault::kRefused:
      return ErrorCode::kCloudFailed;
    case AwsFault::kNoCapacity:
      return ErrorCode::kNoCapacity;
    case AwsFault::kQuota:
      return ErrorCode::kQuotaExceeded;
    case AwsFault::kDenied:
    case AwsFault::kExpired:
      return ErrorCode::kCloudDenied;
  }
  return ErrorCode::kCloudFailed;
}

constexpr std::string_view kRegions[] = {
    "us-east-1",    "us-east-2",      "us-west-1",      "us-west-2",      "af-south-1",
    "ap-east-1",    "ap-northeast-1", "ap-northeast-2", "ap-northeast-3", "ap-south-1",
    "ap-south-2",   "ap-southeast-1", "ap-southeast-2", "ap-southeast-3", "ap-southeast-4",
    "ca-central-1", "ca-west-1",      "cn-north-1",     "cn-northwest-1", "eu-central-1",
    "eu-central-2", "eu-north-1",     "eu-south-1",     "eu-south-2",     "eu-west-1",
    "eu-west-2",    "eu-west-3",      "il-central-1",   "me-central-1",   "me-south-1",
    "mx-central-1", "sa-east-1",      "us-gov-east-1",  "us-gov-west-1"};

}  // namespace

AwsFault ToAwsFault(int http_status, const AwsError& error) {
  if (const FaultRow* row = RowOf(error.code)) return row->fault;
  if (IsFreshProfile(error)) return AwsFault::kNotYetVisible;
  constexpr int kTooManyRequests = 429, kServerErrors = 500;
  if (http_status == kTooManyRequests) return AwsFault::kThrottled;
  return http_status >= kServerErrors ? AwsFault::kServer : AwsFault::kRefused;
}

Status AwsStatus(std::string_view action, int http_status, const AwsError& error,
                 std::string_view credential_source) {
  const AwsFault fault = ToAwsFault(http_status, error);
  const FaultRow* row = RowOf(error.code);
  std::string hint(row == nullptr ? "" : row->hint);
  if ((fault == AwsFault::kDenied || fault == AwsFault::kExpired) && !credential_source.empty()) {
    hint = fmt::format("{}{}the credentials are from {}", hint, hint.empty() ? "" : "; ",
                       credential_source);
  }
  if (fault == AwsFault::kThrottled) hint = "other programs of this account call AWS, too: wait";
  std::string words = error.code.empty() ? fmt::format("HTTP {}", http_status) : error.code;
  if (!error.message.empty()) words = fmt::format("{}: {}", words, error.message);
  return {CodeOf(fault), fmt::format("AWS refused {}: {}", action, words), std::move(hint)};
}

std::optional<Duration> AwsDelayBeforeNext(const AwsRetryPolicy& policy, AwsFault fault,
                                           int attempts, double random) {
  if (fault == AwsFault::kNotYetVisible) {
    if (attempts >= policy.visible_attempts) return std::nullopt;
    return policy.visible_pace;
  }
  const bool helps = fault == AwsFault::kThrottled || fault == AwsFault::kServer;
  if (!helps || attempts >= policy.max_attempts) return std::nullopt;
  const Seconds ceiling =
      std::min<Seconds>(policy.cap, Seconds(policy.base) * std::exp2(attempts - 1));
  return std::chrono::duration_cast<Duration>(ceiling * random);
}

std::string AwsRegionHint(std::string_view region) {
  const std::string nearest = Nearest(region.substr(0, 40), kRegions);
  return nearest.empty() || nearest == region
             ? "check provider.region, and this machine's network and DNS"
             : fmt::format("provider.region: did you mean {}?", nearest);
}

bool IsAwsRegionName(std::string_view region) {
  constexpr size_t kMaxBytes = 40;
  return !region.empty() && region.size() <= kMaxBytes && region[0] != '-' &&
         std::ranges::all_of(region, [](char c) {
           return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '-';
         });
}

}  // namespace hvdray
