// SPDX-License-Identifier: Apache-2.0
// What the server says on the wire, byte by byte.
#include "base/http_server.h"

#include "tests/unit/http/http_client_fixture.h"

namespace hvdray {
namespace {

using HttpServerTest = HttpServerFixture;

constexpr std::string_view kGet = "GET /s/k HTTP/1.1\r\nHost: h\r\nContent-Length: 0\r\n\r\n";

TEST_F(HttpServerTest, AnswersHorovodsGetWithTheExactSpellingItLooksFor) {
  Serve();
  RawClient client = Connect();
  client.Send(kGet);
  RunUntilReceived(client, "/s/k");
  EXPECT_EQ(client.received(), Answer(200, "OK", "/s/k"));
  EXPECT_FALSE(client.is_closed()) << "the client closes first";
}

TEST_F(HttpServerTest, TakesABodyThatComesByteByByte) {
  Serve();
  RawClient client = Connect();
  for (const char c :
       std::string("PUT /s/k HTTP/1.1\r\nHost: h\r\nContent-Length: 5\r\n\r\nhello")) {
    client.Send({&c, 1});
    loop_->Post([this] { loop_->Stop(); });
    loop_->Run();
  }
  RunUntilReceived(client, "hello");
  EXPECT_EQ(client.received(), Answer(200, "OK", "hello"));
}

TEST_F(HttpServerTest, AnswersAnEmptyBodyWithLengthZero) {
  Serve();
  RawClient client = Connect();
  client.Send("PUT /s/k HTTP/1.1\r\nContent-Length: 0\r\n\r\n");
  RunUntilReceived(client, "\r\n\r\n");
  EXPECT_EQ(client.received(), "HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n");
}

TEST_F(HttpServerTest, KeepsABinaryBodyAsItIs) {
  Serve();
  std::string body;
  for (int i = 0; i < 70'000; ++i) body.push_back(static_cast<char>(i * 31));
  RawClient client = Connect();
  client.Send("PUT /s/k HTTP/1.1\r\nContent-Length: 70000\r\n\r\n" + body);
  const std::string expected = Answer(200, "OK", body);
  RunUntil([&] {
    client.Poll();
    return client.received().size() >= expected.size();
  });
  EXPECT_TRUE(client.received() == expected);
}

TEST_F(HttpServerTest, WritesALargeBodyToASlowReaderWhole) {
  Serve();
  const std::string body(size_t{8} << 20, 'x');
  RawClient client(server_->port(), /*receive_buffer=*/4096);
  const std::string request = "PUT /s/k HTTP/1.1\r\nContent-Length: 8388608\r\n\r\n" + body;
  size_t sent = 0;
  RunUntil([&] {
    sent += client.TrySend(std::string_view(request).substr(sent));
    return requests_ == 1;
  });
  EXPECT_FALSE(server_->IsIdle()) << "the answer can't have left yet";
  client.Send(kGet);  // read only after the answer has left
  const std::string expected = Answer(200, "OK", body) + Answer(200, "OK", "/s/k");
  RunUntil([&] {
    client.Poll();
    return client.received().size() >= expected.size();
  });
  EXPECT_TRUE(client.received() == expected);
  EXPECT_TRUE(server_->IsIdle());
}

TEST_F(HttpServerTest, AnswersPipelinedRequestsInTheirOrder) {
  Serve();
  RawClient client = Connect();
  client.Send(
      "GET /a/1 HTTP/1.1\r\n\r\nPUT /a/2 HTTP/1.1\r\nContent-Length: 3\r\n\r\ntwoGET /a/3 "
      "HTTP/1.1\r\n\r\n");
  RunUntilReceived(client, "/a/3");
  EXPECT_EQ(client.received(),
            Answer(200, "OK", "/a/1") + Answer(200, "OK", "two") + Answer(200, "OK", "/a/3"));
}

TEST_F(HttpServerTest, ClosesAfterConnectionClose) {
  Serve();
  RawClient client = Connect();
  client.Send("GET /s/k HTTP/1.1\r\nConnection: close\r\n\r\nGET /not/read HTTP/1.1\r\n\r\n");
  EXPECT_EQ(RunUntilClosed(client), Answer(200, "OK", "/s/k", /*closes=*/true));
  EXPECT_EQ(requests_, 1);
}

TEST_F(HttpServerTest, ClosesAfterAnHttp10RequestUnlessAskedNotTo) {
  Serve();
  RawClient client = Connect();
  client.Send("GET /s/k HTTP/1.0\r\n\r\n");
  EXPECT_EQ(RunUntilClosed(client), Answer(200, "OK", "/s/k", /*closes=*/true));
  RawClient keeping = Connect();
  keeping.Send("GET /s/k HTTP/1.0\r\nConnection: keep-alive\r\n\r\n");
  RunUntilReceived(keeping, "/s/k");
  EXPECT_EQ(keeping.received(),
            "HTTP/1.1 200 OK\r\nContent-Length: 4\r\nConnection: keep-alive\r\n\r\n/s/k");
}

TEST_F(HttpServerTest, AnswersHeadWithoutABody) {
  Serve();
  RawClient client = Connect();
  client.Send("HEAD /s/k HTTP/1.1\r\n\r\n");
  client.Send(kGet);
  RunUntilReceived(client, "\r\n\r\n/s/k");
  EXPECT_EQ(client.received(),
            "HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\n" + Answer(200, "OK", "/s/k"));
}

TEST_F(HttpServerTest, RefusesAHeaderAboveItsLimitAndCloses) {
  Serve();
  RawClient client = Connect();
  client.Send("GET /s/k HTTP/1.1\r\nX: " + std::string(9000, 'x'));
  EXPECT_EQ(RunUntilClosed(client), Answer(413, "Content Too Large", "", /*closes=*/true));
  EXPECT_EQ(requests_, 0);
}

TEST_F(HttpServerTest, RefusesAHugeBodyBeforeItIsSent) {
  Serve();
  RawClient client = Connect();
  client.Send("PUT /s/k HTTP/1.1\r\nContent-Length: 99999999999\r\n\r\n");
  EXPECT_EQ(RunUntilClosed(client), Answer(413, "Content Too Large", "", /*closes=*/true));
}

TEST_F(HttpServerTest, LetsAClientThatSendsFirstReadTheRefusal) {
  HttpServerOptions options;
  options.limits.max_body_bytes = 1000;
  Serve(std::move(options));
  RawClient client = Connect();
  // Larger than the socket buffers: without the server's reading on, the answer would be lost.
  const std::string request =
      "PUT /s/k HTTP/1.1\r\nContent-Length: 9000000\r\n\r\n" + std::string(9'000'000, 'x');
  size_t sent = 0;
  RunUntil([&] {
    sent += client.TrySend(std::string_view(request).substr(sent));
    return sent == request.size();
  });
  client.HalfClose();
  EXPECT_EQ(RunUntilClosed(client), Answer(413, "Content Too Large", "", /*closes=*/true));
}

TEST_F(HttpServerTest, RefusesMalformedRequests) {
  Serve();
  for (const std::string_view bytes :
       {"GET\r\n\r\n", "\x16\x03\x01\n", "GET / HTTP/1.1\r\nContent-Length: x\r\n\r\n"}) {
    RawClient client = Connect();
    client.Send(bytes);
    EXPECT_EQ(RunUntilClosed(client), Answer(400, "Bad Request", "", /*closes=*/true));
  }
  RawClient client = Connect();
  client.Send("PUT /s/k HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n");
  EXPECT_EQ(RunUntilClosed(client), Answer(501, "Not Implemented", "", /*closes=*/true));
}

TEST_F(HttpServerTest, AnswersWhatWasSoundBeforeTheMalformedPart) {
  Serve();
  RawClient client = Connect();
  client.Send(std::string(kGet) + "nonsense\r\n\r\n");
  EXPECT_EQ(RunUntilClosed(client),
            Answer(200, "OK", "/s/k") + Answer(400, "Bad Request", "", /*closes=*/true));
}

TEST_F(HttpServerTest, SaysContinueToAClientThatWaitsForIt) {
  Serve();
  RawClient client = Connect();
  client.Send("PUT /s/k HTTP/1.1\r\nExpect: 100-continue\r\nContent-Length: 2\r\n\r\n");
  RunUntilReceived(client, "100 Continue\r\n\r\n");
  client.Send("ok");
  RunUntilReceived(client, "200 OK");
  EXPECT_EQ(client.received(), "HTTP/1.1 100 Continue\r\n\r\n" + Answer(200, "OK", "ok"));
}

TEST_F(HttpServerTest, TellsASlowSenderSoAndCloses) {
  HttpServerOptions options;
  options.read_timeout = std::chrono::milliseconds(20);
  Serve(std::move(options));
  RawClient in_header = Connect(), in_body = Connect();
  in_header.Send("GET /s");
  in_body.Send("PUT /s/k HTTP/1.1\r\nContent-Length: 10\r\n\r\nabc");
  EXPECT_EQ(RunUntilClosed(in_header), Answer(408, "Request Timeout", "", /*closes=*/true));
  EXPECT_EQ(RunUntilClosed(in_body), Answer(408, "Request Timeout", "", /*closes=*/true));
  EXPECT_EQ(requests_, 0);
}

TEST_F(HttpServerTest, ClosesAnIdleConnectionWithoutAWord) {
  HttpServerOptions options;
  options.idle_timeout = std::chrono::milliseconds(20);
  Serve(std::move(options));
  RawClient client = Connect();
  client.Send(kGet);
  EXPECT_EQ(RunUntilClosed(client), Answer(200, "OK", "/s/k"));
}

TEST_F(HttpServerTest, BoundsTheBodiesOfAllConnectionsTogether) {
  HttpServerOptions options;
  options.max_buffered_bytes = 1000;
  Serve(std::move(options));
  RawClient first = Connect(), second = Connect(), third = Connect();
  first.Send("PUT /s/a HTTP/1.1\r\nContent-Length: 900\r\n\r\n" + std::string(600, 'a'));
  // Its 100 Continue says that the server has seen what the first one sent before it.
  third.Send("PUT /s/c HTTP/1.1\r\nExpect: 100-continue\r\nContent-Length: 9\r\n\r\n");
  RunUntilReceived(third, "Continue");
  second.Send("PUT /s/b HTTP/1.1\r\nContent-Length: 900\r\n\r\n" + std::string(600, 'b'));
  EXPECT_EQ(RunUntilClosed(second), Answer(503, "Service Unavailable", "", /*closes=*/true));
  first.Send(std::string(300, 'a'));
  RunUntilReceived(first, "200 OK");
}

TEST_F(HttpServerTest, HoldsTwoThousandConnectionsAndAnswersThemAll) {
  constexpr size_t kCount = 2000;
  ASSERT_TRUE(RaiseOpenFileLimit(3 * kCount).ok());
  Serve();
  std::vector<RawClient> clients;
  for (size_t i = 0; i < kCount; ++i) {
    clients.emplace_back(server_->port());
    ASSERT_TRUE(clients.back().is_connected()) << i;
    clients.back().Send("GET /hold/" + std::to_string(i) + " HTTP/1.1\r\n\r\n");
  }
  RunUntil([&] { return held_.size() == kCount; });
  EXPECT_EQ(server_->ConnectionCount(), kCount);
  EXPECT_FALSE(server_->IsIdle());
  const auto shared = std::make_shared<const std::string>("value");
  for (HttpExchange& exchange : held_) exchange.Reply(200, shared);
  EXPECT_TRUE(server_->IsIdle());
  for (RawClient& client : clients) {
    client.Poll();
    ASSERT_EQ(client.received(), Answer(200, "OK", "value"));
    client.Close();
  }
  RunUntil([&] { return server_->ConnectionCount() == 0; });
  EXPECT_EQ(gone_, 0);
}

TEST_F(HttpServerTest, TakesAPortOnlyOnce) {
  Serve();
  HttpServerOptions options;
  options.port = server_->port();
  const auto second = HttpServer::Listen(*loop_, options, *this);
  ASSERT_FALSE(second.ok());
  EXPECT_EQ(second.status().code(), ErrorCode::kAddressInUse) << second.status().ToString();
}

TEST_F(HttpServerTest, RefusesAnAddressThatIsNotIpv4) {
  for (const char* address : {"::1", "localhost", "", "1.2.3"}) {
    HttpServerOptions options;
    options.address = address;
    const auto server = HttpServer::Listen(*loop_, options, *this);
    ASSERT_FALSE(server.ok());
    EXPECT_EQ(server.status().code(), ErrorCode::kUsage) << server.status().ToString();
  }
}

}  // namespace
}  // namespace hvdray
