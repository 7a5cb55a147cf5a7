// SPDX-License-Identifier: Apache-2.0
#include "cluster/cloud/aws_http.h"

#include <fmt/format.h>

#include <utility>

#include "base/http_tls.h"

namespace hvdray {
namespace {

Status WithPlace(Status why, const Url& url) {
  switch (why.code()) {
    case ErrorCode::kAuthenticationFailed:
      return {ErrorCode::kHostRefused,
              "the server on this machine is a process of another user: it gets no secret"};
    case ErrorCode::kUnknownHost:  // names it already
    case ErrorCode::kCancelled:
    case ErrorCode::kUsage:
      return why;
    default:
      return std::move(why).WithContext(url.Place());
  }
}

}  // namespace

AwsHttp::AwsHttp(Environment environment)
    : environment_(std::move(environment)), tls_(MakeHttpTls({})) {}
AwsHttp::~AwsHttp() = default;

Result<HttpReply> AwsHttp::Send(const AwsRequest& request) {
  const std::optional<Url> url = ParseUrl(request.url);
  if (!url) {
    const size_t place = request.url.rfind('@') + 1;  // what is before it may be a password
    return Status(ErrorCode::kUsage, fmt::format("{}: not a valid URL", request.url.substr(place)),
                  "http[s]://HOST[:PORT], without a user or password");
  }
  HttpClientOptions options{.host = url->host,
                            .port = url->port,
                            .headers = {{"User-Agent", "hvdray"}, {"Host", url->Place()}},
                            .local_peer = HttpLocalPeer::kOwnerOnly,
                            .timeout = request.timeout,
                            .connect_timeout = request.connect_timeout,
                            .max_body_bytes = request.max_body_bytes};
  if (url->is_tls) options.tls = tls_;
  if (request.may_use_proxy) {
    const auto find = [&](std::initializer_list<const char*> variables) {
      return FindHttpProxy(url->host, url->port, variables, environment_);
    };
    // Not HTTP_PROXY, which a client of a web server can set (CGI): as curl and Python have it.
    HVDRAY_ASSIGN_OR_RETURN(
        options.proxy, url->is_tls ? find({"https_proxy", "HTTPS_PROXY", "all_proxy", "ALL_PROXY"})
                                   : find({"http_proxy", "all_proxy", "ALL_PROXY"}));
  }
  HttpCall call{.method = request.method,
                .path = url->target,
                .body = request.body,
                .headers = request.headers,
                .is_repeatable = request.is_repeatable};
  if (request.signer) {
    call.headers = SignAwsRequest(*request.signer, request.method, *url, request.headers,
                                  request.body, std::chrono::system_clock::now());
  }
  const std::string key =
      fmt::format("{} {} {} {} {} {}", url->is_tls, url->Place(), request.may_use_proxy,
                  request.connect_timeout.count(), request.timeout.count(), request.max_body_bytes);
  const bool has_proxy = options.proxy.has_value();
  std::unique_ptr<HttpClient> client;
  {
    const std::lock_guard lock(mutex_);
    if (is_cancelled_) return Status(ErrorCode::kCancelled, "cancelled");
    const auto found = idle_.find(key);
    client = found == idle_.end() ? std::make_unique<HttpClient>(std::move(options))
                                  : std::move(idle_.extract(found).mapped());
    busy_.insert(client.get());
  }
  Result<HttpReply> reply = client->Send(call);
  {
    const std::lock_guard lock(mutex_);
    busy_.erase(client.get());
    idle_.emplace(key, std::move(client));
  }
  if (!reply.ok()) return WithPlace(std::move(reply).status(), *url);
  if (has_proxy && reply->status == 407) {
    return Status(ErrorCode::kProtocolError,
                  fmt::format("{}: the proxy requires another login", url->Place()),
                  "HTTPS_PROXY=http://USER:PASSWORD@HOST:PORT, or no_proxy for this host");
  }
  return reply;
}

void AwsHttp::Cancel() {
  const std::lock_guard lock(mutex_);
  is_cancelled_ = true;
  for (HttpClient* client : busy_) client->Cancel();
}

}  // namespace hvdray
