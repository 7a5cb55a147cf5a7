// SPDX-License-Identifier: Apache-2.0
// Against raw bytes on loopback. Whether AWS takes the signatures is tested with botocore, too, in
// tests/integration/provider_test.py.
#include "cluster/cloud/aws_http.h"

#include <fmt/format.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <unistd.h>

#include <map>
#include <string>
#include <thread>

#include "tests/fakes/scripted_server.h"

namespace hvdray {
namespace {

AwsRequest To(uint16_t port, const std::string& body = "a=b") {
  AwsRequest request;
  request.url = fmt::format("http://127.0.0.1:{}/path", port);
  request.headers = {{"Content-Type", "x/y"}};
  request.body = body;
  request.may_use_proxy = false;
  return request;
}

TEST(AwsHttpTest, AnyStatusIsAReplyAndTheConnectionIsKept) {
  ScriptedServer server({{{ScriptedServer::Answer(503, "busy"), ScriptedServer::Answer(200, "")}}});
  AwsHttp client{Environment()};
  const auto first = client.Send(To(server.port()));
  ASSERT_TRUE(first.ok()) << first.status().ToString();
  EXPECT_EQ(first->status, 503);
  EXPECT_EQ(first->body, "busy");
  AwsRequest get = To(server.port());
  get.method = "GET";
  EXPECT_EQ(client.Send(get)->status, 200);
  const auto& requests = server.Stop();
  ASSERT_EQ(requests.size(), 2U);
  EXPECT_TRUE(requests[0].starts_with("POST /path HTTP/1.1\r\n")) << requests[0];
  EXPECT_TRUE(requests[0].ends_with("\r\n\r\na=b")) << requests[0];
  EXPECT_TRUE(requests[1].starts_with("GET /path HTTP/1.1\r\n")) << requests[1];
}

TEST(AwsHttpTest, ASignedRequestSendsEveryHeaderThatItSigns) {
  ScriptedServer server({{{ScriptedServer::Answer(200, "")}}});
  AwsHttp client{Environment()};
  AwsRequest request = To(server.port());
  request.signer = AwsSigner{.region = "us-west-2",
                             .service = "ec2",
                             .access_key_id = "AKIA",
                             .secret_access_key = Secret("the-secret"),
                             .session_token = Secret("tok+en==")};
  ASSERT_TRUE(client.Send(request).ok());
  const std::string sent = server.Stop().at(0);
  EXPECT_NE(sent.find("/us-west-2/ec2/aws4_request"), std::string::npos) << sent;
  EXPECT_NE(sent.find("SignedHeaders=content-type;host;x-amz-date;x-amz-security-token,"),
            std::string::npos)
      << sent;
  EXPECT_NE(sent.find("tok+en=="), std::string::npos);
  EXPECT_EQ(sent.find("the-secret"), std::string::npos);
}

TEST(AwsHttpTest, AnAnswerThatIsCutOffOrTooLargeIsNone) {
  ScriptedServer server({{{"HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nhalf"}},
                         {{"garbage\r\n\r\n"}},
                         {{ScriptedServer::Answer(200, "123456")}}});
  AwsHttp client{Environment()};
  EXPECT_EQ(client.Send(To(server.port())).status().code(), ErrorCode::kProtocolError);
  EXPECT_EQ(client.Send(To(server.port())).status().code(), ErrorCode::kProtocolError);
  AwsRequest request = To(server.port());
  request.max_body_bytes = 5;
  EXPECT_EQ(client.Send(request).status().message(),
            fmt::format("127.0.0.1:{}: answer larger than 5 bytes", server.port()));
}

TEST(AwsHttpTest, RefusalsAndSilenceHaveTheirOwnCodes) {
  uint16_t closed_port = 0;
  { closed_port = ScriptedServer({}).port(); }
  AwsHttp client{Environment()};
  const Status refused = client.Send(To(closed_port)).status();
  EXPECT_EQ(refused.code(), ErrorCode::kHostUnreachable);
  EXPECT_NE(refused.message().find("refused"), std::string::npos) << refused.message();

  ScriptedServer silent({{{}, /*is_held=*/true}});
  AwsRequest request = To(silent.port());
  request.timeout = std::chrono::milliseconds(50);
  EXPECT_EQ(client.Send(request).status().code(), ErrorCode::kDeadlineExceeded);
}

TEST(AwsHttpTest, WhatCannotBeSentIsRefused) {
  AwsHttp client{Environment()};
  AwsRequest request = To(1);
  for (const char* url : {"file:///etc/passwd", "", "http://", "http://h:0/", "http://h:x/",
                          "https://me:word@h/", "http://[::1/", "http://h/a b"}) {
    request.url = url;
    const Status status = client.Send(request).status();
    EXPECT_EQ(status.code(), ErrorCode::kUsage) << url;
    EXPECT_EQ(status.message().find("word"), std::string::npos) << status.message();
  }
  request = To(1);
  request.headers = {{"A", "b\r\nC: d"}};
  EXPECT_EQ(client.Send(request).status().code(), ErrorCode::kUsage);
}

TEST(AwsHttpTest, CancelEndsARunningCallAndAllLaterOnes) {
  ScriptedServer silent({{{}, /*is_held=*/true}});
  AwsHttp client{Environment()};
  AwsRequest request = To(silent.port());
  request.timeout = std::chrono::hours(1);
  std::thread other([&client] { client.Cancel(); });
  EXPECT_EQ(client.Send(request).status().code(), ErrorCode::kCancelled);
  other.join();
  EXPECT_EQ(client.Send(request).status().code(), ErrorCode::kCancelled);
}

TEST(AwsHttpTest, AServerOfAnotherUserOfThisMachineGetsNothing) {
  if (::geteuid() != 0) GTEST_SKIP() << "only root can give sockets away";
  ScriptedServer server({{{ScriptedServer::Answer(200, "")}}});
  server.GiveTo(65534);
  AwsHttp client{Environment()};
  AwsRequest request = To(server.port());
  request.headers.emplace_back("Authorization", "geheim");
  EXPECT_EQ(client.Send(request).status().code(), ErrorCode::kHostRefused);
  EXPECT_TRUE(server.Stop().empty());
}

TEST(AwsHttpTest, AKeptConnectionThatTheServerClosesIsReplacedForAPostToo) {
  const std::string answer = ScriptedServer::Answer(200, "");
  ScriptedServer server({{{answer, ""}}, {{answer}}});
  AwsHttp client{Environment()};
  EXPECT_TRUE(client.Send(To(server.port())).ok());
  EXPECT_TRUE(client.Send(To(server.port())).ok());
  EXPECT_EQ(server.Stop().size(), 3U);
}

TEST(AwsHttpTest, WhatMayHappenOnceOnlyIsNotSentAgain) {
  const std::string answer = ScriptedServer::Answer(200, "");
  ScriptedServer server({{{answer, ""}}, {{""}}, {{answer}}});
  AwsHttp client{Environment()};
  EXPECT_TRUE(client.Send(To(server.port())).ok());
  AwsRequest once = To(server.port());
  once.is_repeatable = false;
  EXPECT_EQ(client.Send(once).status().code(), ErrorCode::kProtocolError);
  EXPECT_EQ(server.Stop().size(), 2U);
}

/// To a host that only the proxy knows.
AwsRequest Far(const std::string& url) {
  AwsRequest request;
  request.url = url;
  request.headers = {{"Authorization", "geheim"}};
  return request;
}

AwsHttp Through(const ScriptedServer& proxy, const char* variable, const std::string& login = "") {
  return AwsHttp(Environment({{variable, fmt::format("http://{}127.0.0.1:{}", login, proxy.port())},
                              {"NO_PROXY", "near"}}));
}

TEST(AwsHttpTest, AProxyIsAskedForATunnelAndToldNothing) {
  ::signal(SIGPIPE, SIG_IGN);
  ScriptedServer proxy({{{"HTTP/1.1 403 Forbidden\r\n\r\n"}},
                        {{"HTTP/1.1 407 Proxy Authentication Required\r\n\r\n"}},
                        {{"HTTP/1.1 200 Connection established\r\n\r\n"}},
                        {{"220 mail\r\n\r\n"}}});
  AwsHttp client = Through(proxy, "HTTPS_PROXY", "me:pass%20word@");
  const Status refused = client.Send(Far("https://far.example:8443/")).status();
  EXPECT_EQ(refused.code(), ErrorCode::kHandshakeFailed);
  EXPECT_EQ(refused.message(), fmt::format("far.example:8443: the proxy 127.0.0.1:{} refused the "
                                           "tunnel: HTTP 403",
                                           proxy.port()));
  const Status login = client.Send(Far("https://far.example/")).status();
  EXPECT_EQ(login.message(), "far.example: the proxy requires another login");
  EXPECT_EQ(login.ToString().find("pass word"), std::string::npos);
  EXPECT_EQ(client.Send(Far("https://far.example/")).status().code(), ErrorCode::kHandshakeFailed);
  const Status other = client.Send(Far("https://far.example/")).status();
  EXPECT_TRUE(other.message().ends_with("refused the tunnel")) << other.message();
  const auto& asked = proxy.Stop();
  ASSERT_EQ(asked.size(), 4U);
  EXPECT_TRUE(asked[0].starts_with("CONNECT far.example:8443 HTTP/1.1\r\n")) << asked[0];
  EXPECT_NE(asked[0].find("Proxy-Authorization: Basic bWU6cGFzcyB3b3Jk\r\n"), std::string::npos);
  for (const std::string& each : asked) EXPECT_EQ(each.find("geheim"), std::string::npos) << each;
}

TEST(AwsHttpTest, ARequestInClearTextGoesToTheProxyWhole) {
  ScriptedServer proxy({{{ScriptedServer::Answer(200, "far")}}});
  AwsHttp client = Through(proxy, "http_proxy");
  const auto reply = client.Send(Far("http://far.example:81/path"));
  ASSERT_TRUE(reply.ok()) << reply.status().ToString();
  EXPECT_EQ(reply->body, "far");
  EXPECT_TRUE(proxy.Stop().at(0).starts_with("POST http://far.example:81/path HTTP/1.1\r\n"));
}

TEST(AwsHttpTest, WhatNoProxyNamesAndThisLinkIsReachedDirectly) {
  ScriptedServer proxy({});
  AwsHttp client = Through(proxy, "HTTPS_PROXY");
  AwsRequest metadata = Far("https://far.invalid/");
  metadata.may_use_proxy = false;
  EXPECT_EQ(client.Send(metadata).status().message(), "no address for the name far.invalid");
  EXPECT_EQ(client.Send(Far("https://x.near/")).status().code(), ErrorCode::kUnknownHost);
  const std::map<std::string, std::string> values = {{"ALL_PROXY", "socks5://me:geheim@p:1"}};
  AwsHttp socks{Environment(values)};
  const Status status = socks.Send(Far("https://far.example/")).status();
  EXPECT_EQ(status.code(), ErrorCode::kSpecInvalid);
  EXPECT_EQ(status.message(), "ALL_PROXY is not the address of an HTTP proxy");
  EXPECT_TRUE(proxy.Stop().empty());
}

}  // namespace
}  // namespace hvdray
