// SPDX-License-Identifier: Apache-2.0
// AWS Signature Version 4: the headers that prove who a request is from. Pure.
#ifndef HVDRAY_CLUSTER_CLOUD_AWS_SIGNATURE_H_
#define HVDRAY_CLUSTER_CLOUD_AWS_SIGNATURE_H_

#include <chrono>
#include <string>
#include <string_view>

#include "base/http_client.h"
#include "base/secret.h"
#include "base/types.h"
#include "base/url.h"

namespace hvdray {

using WallTime = std::chrono::system_clock::time_point;

/// Whose signature a request carries, and for which service.
struct AwsSigner {
  std::string region;   ///< "us-west-2"
  std::string service;  ///< "ec2", as the scope of the signature names it.
  std::string access_key_id;
  Secret secret_access_key;
  Secret session_token;  ///< Empty: long-term credentials.
};

/// `headers` with Host, X-Amz-Date, X-Amz-Security-Token and Authorization, which signs them all.
/// `url`: without a query. Source: AWS's IAM user guide, "Create a signed AWS API request".
HttpHeaders SignAwsRequest(const AwsSigner& signer, std::string_view method, const Url& url,
                           HttpHeaders headers, ByteView body, WallTime now);

}  // namespace hvdray

#endif  // HVDRAY_CLUSTER_CLOUD_AWS_SIGNATURE_H_
