// SPDX-License-Identifier: Apache-2.0
#include "cluster/cloud/aws_errors.h"

#include <gtest/gtest.h>

#include <string>

namespace hvdray {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

AwsFault FaultOfCode(const std::string& code, int status = 400) {
  return ToAwsFault(status, {.code = code, .message = "words"});
}

TEST(AwsErrorsTest, CodesAreClassifiedByWhatHelps) {
  EXPECT_EQ(FaultOfCode("RequestLimitExceeded", 503), AwsFault::kThrottled);
  EXPECT_EQ(FaultOfCode("ThrottlingException"), AwsFault::kThrottled);
  EXPECT_EQ(FaultOfCode("InsufficientInstanceCapacity", 500), AwsFault::kNoCapacity);
  EXPECT_EQ(FaultOfCode("SpotMaxPriceTooLow"), AwsFault::kNoCapacity);
  EXPECT_EQ(FaultOfCode("Unsupported"), AwsFault::kNoCapacity);
  EXPECT_EQ(FaultOfCode("UnsupportedOperation"), AwsFault::kRefused);
  EXPECT_EQ(FaultOfCode("VcpuLimitExceeded"), AwsFault::kQuota);
  EXPECT_EQ(FaultOfCode("InvalidInstanceID.NotFound"), AwsFault::kNotYetVisible);
  EXPECT_EQ(FaultOfCode("InvalidAMIID.Malformed"), AwsFault::kNotFound);
  EXPECT_EQ(FaultOfCode("InvalidPermission.Duplicate"), AwsFault::kAlreadyExists);
  EXPECT_EQ(FaultOfCode("AuthFailure"), AwsFault::kDenied);
  EXPECT_EQ(FaultOfCode("ExpiredTokenException"), AwsFault::kExpired);
  EXPECT_EQ(FaultOfCode("DependencyViolation"), AwsFault::kInUse);
  EXPECT_EQ(FaultOfCode("InvalidParameterValue"), AwsFault::kRefused);
  EXPECT_EQ(FaultOfCode("", 502), AwsFault::kServer);
  EXPECT_EQ(FaultOfCode("", 429), AwsFault::kThrottled);
  EXPECT_EQ(FaultOfCode("", 404), AwsFault::kRefused);
}

TEST(AwsErrorsTest, AProfileMadeAMomentAgoIsWaitedFor) {
  EXPECT_EQ(ToAwsFault(400, {.code = "InvalidParameterValue",
                             .message = "Value (arn:…) for parameter iamInstanceProfile.arn is "
                                        "invalid. Invalid IAM Instance Profile ARN"}),
            AwsFault::kNotYetVisible);
}

TEST(AwsErrorsTest, MessagesHaveAmazonsWordsAndWhereCredentialsAreFrom) {
  const Status quota =
      AwsStatus("RunInstances", 400, {.code = "VcpuLimitExceeded", .message = "limit of 5"}, "x");
  EXPECT_EQ(quota.code(), ErrorCode::kQuotaExceeded);
  EXPECT_EQ(quota.message(), "AWS refused RunInstances: VcpuLimitExceeded: limit of 5");
  EXPECT_NE(quota.hint().find("Service Quotas"), std::string::npos);
  const Status denied = AwsStatus("DescribeSubnets", 401, {.code = "AuthFailure", .message = "no"},
                                  "profile dev of ~/.aws/credentials");
  EXPECT_EQ(denied.code(), ErrorCode::kCloudDenied);
  EXPECT_NE(denied.hint().find("the credentials are from profile dev"), std::string::npos);
  EXPECT_EQ(AwsStatus("X", 502, {}, "").message(), "AWS refused X: HTTP 502");
}

TEST(AwsErrorsTest, DelaysDoubleUpToTheCapWithFullJitter) {
  const AwsRetryPolicy policy{
      .max_attempts = 5, .base = milliseconds(100), .cap = milliseconds(300)};
  const auto delay = [&policy](int attempts, double random) {
    return AwsDelayBeforeNext(policy, AwsFault::kThrottled, attempts, random);
  };
  EXPECT_EQ(delay(1, 0.5), Duration(milliseconds(50)));
  EXPECT_EQ(delay(2, 0.5), Duration(milliseconds(100)));
  EXPECT_EQ(delay(3, 0.5), Duration(milliseconds(150)));
  EXPECT_EQ(delay(4, 0.5), Duration(milliseconds(150)));
  EXPECT_EQ(delay(4, 0), Duration(0));
  EXPECT_EQ(delay(5, 0.5), std::nullopt);
}

TEST(AwsErrorsTest, WhatIsNotVisibleYetIsAskedForTwelveTimesAtAFixedPace) {
  const AwsRetryPolicy policy;
  EXPECT_EQ(AwsDelayBeforeNext(policy, AwsFault::kNotYetVisible, 11, 0.9), Duration(seconds(1)));
  EXPECT_EQ(AwsDelayBeforeNext(policy, AwsFault::kNotYetVisible, 12, 0.9), std::nullopt);
}

TEST(AwsErrorsTest, NothingElseIsRepeated) {
  for (const AwsFault fault :
       {AwsFault::kNone, AwsFault::kNoCapacity, AwsFault::kQuota, AwsFault::kNotFound,
        AwsFault::kAlreadyExists, AwsFault::kInUse, AwsFault::kDenied, AwsFault::kExpired,
        AwsFault::kSpentToken, AwsFault::kRefused}) {
    EXPECT_EQ(AwsDelayBeforeNext({}, fault, 1, 0.5), std::nullopt);
  }
}

TEST(AwsErrorsTest, AMistypedRegionIsMetWithTheNearest) {
  EXPECT_EQ(AwsRegionHint("us-wset-2"), "provider.region: did you mean us-west-2?");
  EXPECT_EQ(AwsRegionHint("us-west-2"),
            "check provider.region, and this machine's network and DNS");
  EXPECT_TRUE(IsAwsRegionName("us-gov-west-1"));
  for (const char* name : {"", "US-WEST-2", "us west", "-a", "a.b", "a/b", "a@b"}) {
    EXPECT_FALSE(IsAwsRegionName(name)) << name;
  }
}

}  // namespace
}  // namespace hvdray
