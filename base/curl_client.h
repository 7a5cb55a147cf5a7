// SPDX-License-Identifier: Apache-2.0
// The adapter of libcurl, for the calls of a cloud: HTTPS with AWS's request signatures, proxies as
// the environment names them. libcurl is loaded by the first request, not linked: linking it would
// cost every start of hvdray 6 ms.
#ifndef HVDRAY_BASE_CURL_CLIENT_H_
#define HVDRAY_BASE_CURL_CLIENT_H_

#include <chrono>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/result.h"
#include "base/secret.h"
#include "base/types.h"

namespace hvdray {

/// Whose signature a request carries (AWS Signature Version 4), and for which service.
struct AwsSigner {
  std::string region;   ///< "us-west-2"
  std::string service;  ///< "ec2", as the scope of the signature names it.
  std::string access_key_id;
  Secret secret_access_key;
  Secret session_token;  ///< Empty: long-term credentials.
};

/// One request. No message shows its headers, its body or the signer's keys.
struct CurlRequest {
  std::string method = "POST";  ///< GET, POST or PUT.
  std::string url;
  std::vector<std::pair<std::string, std::string>> headers;  ///< May be secrets.
  std::string body;                                          ///< Sent with POST and PUT.
  std::optional<AwsSigner> signer;
  /// False for addresses of this host or link (instance metadata), which no proxy reaches.
  bool may_use_proxy = true;
  Duration connect_timeout{std::chrono::seconds(10)};
  Duration timeout{std::chrono::seconds(60)};  ///< For all of it.
  size_t max_body_bytes = size_t{32} << 20;    ///< Of the answer.
};

/// The whole answer of a server.
struct CurlReply {
  int status = 0;  ///< As received: 400 and 503 are replies, not errors.
  std::string body;
};

/// Keeps connections open between requests. Threads: any, several requests at a time.
class CurlClient {
 public:
  CurlClient();
  ~CurlClient();  ///< No request may be running.
  CurlClient(const CurlClient&) = delete;
  CurlClient& operator=(const CurlClient&) = delete;

  /// Blocks until the whole answer has arrived. Follows no redirects and repeats nothing. No
  /// message shows a header, the body or a key.
  /// Errors: kHostRefused (without TLS, a server of another user on this machine: nothing was
  /// sent), kUnknownHost, kHostUnreachable (refused, no route), kConnectTimeout, kHostKeyRejected
  /// (certificate), kHandshakeFailed (not TLS), kDeadlineExceeded, kProtocolError (not HTTP, cut
  /// off, body too large), kCancelled, kUsage (URL), kNotSupported (no libcurl on this machine, or
  /// one without signatures).
  Result<CurlReply> Send(const CurlRequest& request);

  /// Ends all current calls and all later ones with kCancelled. Threads: any.
  void Cancel();

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace hvdray

#endif  // HVDRAY_BASE_CURL_CLIENT_H_
