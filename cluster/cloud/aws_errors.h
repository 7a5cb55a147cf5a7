// SPDX-License-Identifier: Apache-2.0
// What AWS's refusals mean: one table from code to kind, what a user is told, and how long to wait
// before trying again. Pure.
#ifndef HVDRAY_CLUSTER_CLOUD_AWS_ERRORS_H_
#define HVDRAY_CLUSTER_CLOUD_AWS_ERRORS_H_

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "base/status.h"
#include "base/types.h"
#include "cluster/cloud/aws_answers.h"

namespace hvdray {

/// Kinds of refusals, by what helps against them.
enum class AwsFault : uint8_t {
  kNone,
  kThrottled,      ///< Too many calls: the same call later.
  kServer,         ///< Amazon's own fault, or no answer: the same call later.
  kNoCapacity,     ///< Not here now: another subnet, another type, fewer instances, later.
  kQuota,          ///< The account's limit: fewer instances; no other subnet helps.
  kNotYetVisible,  ///< Unknown to this server; a moment ago made by another one.
  kNotFound,       ///< Does not exist.
  kAlreadyExists,  ///< Somebody else was faster.
  kInUse,          ///< Something still depends on it.
  kDenied,         ///< Credentials are wrong, or lack a permission.
  kExpired,        ///< Credentials were good once.
  kSpentToken,     ///< The client token belongs to another call, or to machines that have ended.
  kRefused,        ///< Anything else: the request is wrong.
};

/// The kind of an answer with `http_status` of 300 or more.
AwsFault ToAwsFault(int http_status, const AwsError& error);

/// "AWS refused RunInstances: InsufficientInstanceCapacity: We currently do not have …", with a
/// code and a hint that fit.
/// `credential_source`: where they came from.
Status AwsStatus(std::string_view action, int http_status, const AwsError& error,
                 std::string_view credential_source);

/// When a call is repeated by itself. Source: AWS's "exponential backoff and jitter", full jitter.
struct AwsRetryPolicy {
  int max_attempts = 8;  ///< The first one included.
  Duration base{std::chrono::milliseconds(400)};
  Duration cap{std::chrono::seconds(20)};
  int visible_attempts = 12;  ///< For kNotYetVisible, at a fixed pace.
  Duration visible_pace{std::chrono::seconds(1)};
};

/// How long to wait before attempt number `attempts` + 1; nullopt: don't repeat. `attempts`: made
/// so far, from 1. `random`: from 0 to below 1.
std::optional<Duration> AwsDelayBeforeNext(const AwsRetryPolicy& policy, AwsFault fault,
                                           int attempts, double random);

/// "did you mean us-west-2?" for an unknown region, or a list of those that AWS has.
std::string AwsRegionHint(std::string_view region);

/// `region` may be put into a host name: lower-case letters, digits and '-'.
bool IsAwsRegionName(std::string_view region);

}  // namespace hvdray

#endif  // HVDRAY_CLUSTER_CLOUD_AWS_ERRORS_H_
