// SPDX-License-Identifier: Apache-2.0
// Sends the requests of AWS's APIs: signed, over kept connections, through the proxy that the
// environment names.
#ifndef HVDRAY_CLUSTER_CLOUD_AWS_HTTP_H_
#define HVDRAY_CLUSTER_CLOUD_AWS_HTTP_H_

#include <chrono>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <string>

#include "base/environ.h"
#include "base/http_client.h"
#include "base/result.h"
#include "base/types.h"
#include "cluster/cloud/aws_signature.h"

namespace hvdray {

/// One request. No message shows its headers, its body or the signer's keys.
struct AwsRequest {
  std::string method = "POST";  ///< GET, POST or PUT.
  std::string url;
  HttpHeaders headers;
  std::string body;
  std::optional<AwsSigner> signer;
  /// False for addresses of this host or link (instance metadata), which no proxy reaches.
  bool may_use_proxy = true;
  Duration connect_timeout{std::chrono::seconds(10)};
  Duration timeout{std::chrono::seconds(60)};  ///< For all of it.
  size_t max_body_bytes = size_t{32} << 20;    ///< Of the answer.
  bool is_repeatable = true;                   ///< As HttpCall's, which a POST can be.
};

/// Threads: any, several requests at a time.
class AwsHttp {
 public:
  explicit AwsHttp(Environment environment);
  ~AwsHttp();  ///< No request may be running.
  AwsHttp(const AwsHttp&) = delete;
  AwsHttp& operator=(const AwsHttp&) = delete;

  /// Blocks until the whole answer has arrived. Follows no redirects; sends a request again only if
  /// the server closes a kept connection without an answer and `is_repeatable`.
  /// Errors: those of HttpClient::Send(), with the server's name, but kHostRefused (without TLS, a
  /// server of another user on this machine: nothing was sent); kUsage (URL); kSpecInvalid (proxy).
  Result<HttpReply> Send(const AwsRequest& request);

  /// Ends all current calls and all later ones with kCancelled. Threads: any.
  void Cancel();

 private:
  const Environment environment_;
  const HttpChannelMaker tls_;

  std::mutex mutex_;  // guards the rest
  bool is_cancelled_ = false;
  std::multimap<std::string, std::unique_ptr<HttpClient>> idle_;  // by what they connect to
  std::set<HttpClient*> busy_;
};

}  // namespace hvdray

#endif  // HVDRAY_CLUSTER_CLOUD_AWS_HTTP_H_
