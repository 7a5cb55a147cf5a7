// SPDX-License-Identifier: Apache-2.0
// Against raw bytes on loopback. Whether signatures are right is tested with botocore, in
// tests/integration/provider_test.py.
#include "base/curl_client.h"

#include <fmt/format.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <string>
#include <thread>

#include "tests/fakes/scripted_server.h"

namespace hvdray {
namespace {

CurlRequest To(uint16_t port, const std::string& body = "a=b") {
  CurlRequest request;
  request.url = fmt::format("http://127.0.0.1:{}/path", port);
  request.headers = {{"Content-Type", "x/y"}};
  request.body = body;
  request.may_use_proxy = false;
  return request;
}

TEST(CurlClientTest, AnyStatusIsAReplyAndTheConnectionIsKept) {
  ScriptedServer server({{{ScriptedServer::Answer(503, "busy"), ScriptedServer::Answer(200, "")}}});
  CurlClient client;
  const auto first = client.Send(To(server.port()));
  ASSERT_TRUE(first.ok()) << first.status().ToString();
  EXPECT_EQ(first->status, 503);
  EXPECT_EQ(first->body, "busy");
  CurlRequest get = To(server.port());
  get.method = "GET";
  EXPECT_EQ(client.Send(get)->status, 200);
  const auto& requests = server.Stop();
  ASSERT_EQ(requests.size(), 2U);
  EXPECT_TRUE(requests[0].starts_with("POST /path HTTP/1.1\r\n")) << requests[0];
  EXPECT_TRUE(requests[0].ends_with("\r\n\r\na=b")) << requests[0];
  EXPECT_TRUE(requests[1].starts_with("GET /path HTTP/1.1\r\n")) << requests[1];
}

TEST(CurlClientTest, ASignedRequestSendsEveryHeaderThatItSigns) {
  ScriptedServer server({{{ScriptedServer::Answer(200, "")}}});
  CurlClient client;
  CurlRequest request = To(server.port());
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

TEST(CurlClientTest, AnAnswerThatIsCutOffOrTooLargeIsNone) {
  ScriptedServer server({{{"HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nhalf"}},
                         {{"garbage\r\n\r\n"}},
                         {{ScriptedServer::Answer(200, "123456")}}});
  CurlClient client;
  EXPECT_EQ(client.Send(To(server.port())).status().code(), ErrorCode::kProtocolError);
  EXPECT_EQ(client.Send(To(server.port())).status().code(), ErrorCode::kProtocolError);
  CurlRequest request = To(server.port());
  request.max_body_bytes = 5;
  EXPECT_EQ(client.Send(request).status().message(),
            fmt::format("127.0.0.1:{}: answer larger than 5 bytes", server.port()));
}

TEST(CurlClientTest, RefusalsAndSilenceHaveTheirOwnCodes) {
  uint16_t closed_port = 0;
  { closed_port = ScriptedServer({}).port(); }
  CurlClient client;
  const Status refused = client.Send(To(closed_port)).status();
  EXPECT_EQ(refused.code(), ErrorCode::kHostUnreachable);
  EXPECT_NE(refused.message().find("refused"), std::string::npos) << refused.message();

  ScriptedServer silent({{{}, /*is_held=*/true}});
  CurlRequest request = To(silent.port());
  request.timeout = std::chrono::milliseconds(50);
  EXPECT_EQ(client.Send(request).status().code(), ErrorCode::kDeadlineExceeded);
}

TEST(CurlClientTest, WhatCannotBeSentIsRefused) {
  CurlClient client;
  CurlRequest request = To(1);
  request.url = "file:///etc/passwd";
  EXPECT_EQ(client.Send(request).status().code(), ErrorCode::kUsage);
  request = To(1);
  request.headers = {{"A", "b\r\nC: d"}};
  EXPECT_EQ(client.Send(request).status().code(), ErrorCode::kUsage);
}

TEST(CurlClientTest, CancelEndsARunningCallAndAllLaterOnes) {
  ScriptedServer silent({{{}, /*is_held=*/true}});
  CurlClient client;
  CurlRequest request = To(silent.port());
  request.timeout = std::chrono::hours(1);
  std::thread other([&client] { client.Cancel(); });
  EXPECT_EQ(client.Send(request).status().code(), ErrorCode::kCancelled);
  other.join();
  EXPECT_EQ(client.Send(request).status().code(), ErrorCode::kCancelled);
}

TEST(CurlClientTest, AServerOfAnotherUserOfThisMachineGetsNothing) {
  if (::geteuid() != 0) GTEST_SKIP() << "only root can give sockets away";
  ScriptedServer server({{{ScriptedServer::Answer(200, "")}}});
  server.GiveTo(65534);
  CurlClient client;
  CurlRequest request = To(server.port());
  request.headers.emplace_back("Authorization", "geheim");
  EXPECT_EQ(client.Send(request).status().code(), ErrorCode::kHostRefused);
  EXPECT_TRUE(server.Stop().empty());
}

}  // namespace
}  // namespace hvdray
