// SPDX-License-Identifier: Apache-2.0
#include "base/http_client.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <signal.h>
#include <sys/socket.h>
#include <unistd.h>

#include <string>
#include <thread>
#include <vector>

#include "base/fd.h"
#include "tests/fakes/fault_catalogue.h"
#include "tests/fakes/scripted_server.h"

namespace hvdray {
namespace {

const auto* const kCatalogue = FaultCatalogue::Install("tests/golden/messages/http_client.txt");

using namespace std::chrono_literals;

UniqueFd Listener(uint16_t* port) {
  UniqueFd fd(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t size = sizeof address;
  EXPECT_EQ(::bind(fd.get(), reinterpret_cast<sockaddr*>(&address), size), 0);
  EXPECT_EQ(::listen(fd.get(), 16), 0);
  EXPECT_EQ(::getsockname(fd.get(), reinterpret_cast<sockaddr*>(&address), &size), 0);
  *port = ntohs(address.sin_port);
  return fd;
}

using Script = ConnectionScript;

std::string Answer(const std::string& status, const std::string& body) {
  return "HTTP/1.1 " + status + "\r\nContent-Length: " + std::to_string(body.size()) + "\r\n\r\n" +
         body;
}

std::string WithoutPort(const Status& status, const ScriptedServer& server) {
  std::string message = status.message();
  const std::string port = std::to_string(server.port());
  const size_t at = message.find(port);
  return at == std::string::npos ? message : message.replace(at, port.size(), "PORT");
}

TEST(HttpClientTest, KeepsOneConnectionForAllVerbs) {
  const std::string bytes("a\0\xff\r\n\r\nb", 9);
  ScriptedServer server({{{Answer("200 OK", ""), Answer("200 OK", bytes),
                           Answer("404 Not Found", "no"), Answer("200 OK", "")}}});
  HttpClient client("127.0.0.1", server.port());
  const Result<HttpReply> put = client.Put("/scope/key?x=%20", bytes);
  ASSERT_TRUE(put.ok()) << put.status().ToString();
  EXPECT_EQ(put->status, 200);
  const Result<HttpReply> get = client.Get("/scope/key");
  ASSERT_TRUE(get.ok()) << get.status().ToString();
  EXPECT_EQ(get->body, bytes);
  const Result<HttpReply> missing = client.Get("/scope/none");
  ASSERT_TRUE(missing.ok()) << missing.status().ToString();
  EXPECT_EQ(missing->status, 404);
  EXPECT_EQ(missing->body, "no");
  const Result<HttpReply> gone = client.Delete("/scope/key");
  ASSERT_TRUE(gone.ok()) << gone.status().ToString();
  const std::vector<std::string> requests = server.Stop();
  ASSERT_EQ(requests.size(), 4U);
  EXPECT_TRUE(requests[0].starts_with("PUT /scope/key?x=%20 HTTP/1.1\r\n")) << requests[0];
  EXPECT_TRUE(requests[0].ends_with(bytes));
  EXPECT_TRUE(requests[1].starts_with("GET /scope/key HTTP/1.1\r\n")) << requests[1];
  EXPECT_TRUE(requests[3].starts_with("DELETE /scope/key HTTP/1.1\r\n")) << requests[3];
}

TEST(HttpClientTest, ConnectsAnewWhenTheServerClosedTheKeptConnection) {
  ScriptedServer server(
      {{{Answer("200 OK", "1")}}, {{Answer("200 OK", "2")}}, {{Answer("200 OK", "3")}}});
  HttpClient client("127.0.0.1", server.port());
  for (const char* wanted : {"1", "2", "3"}) {
    const Result<HttpReply> reply = client.Get("/k");
    ASSERT_TRUE(reply.ok()) << reply.status().ToString();
    EXPECT_EQ(reply->body, wanted);
  }
}

TEST(HttpClientTest, RepeatsARequestThatAKeptConnectionSwallowed) {
  // The empty answer: read the request, then close.
  ScriptedServer server({{{Answer("200 OK", "1"), ""}}, {{Answer("200 OK", "2")}}});
  HttpClient client("127.0.0.1", server.port());
  ASSERT_TRUE(client.Get("/a").ok());
  const Result<HttpReply> reply = client.Put("/b", "v");
  ASSERT_TRUE(reply.ok()) << reply.status().ToString();
  EXPECT_EQ(reply->body, "2");
  EXPECT_EQ(server.Stop().size(), 3U);
}

TEST(HttpClientTest, ABodyWithoutALengthEndsWithTheConnection) {
  // As Python's http.server answers, which Horovod's own rendezvous is made of.
  ScriptedServer server({{{"HTTP/1.0 200 OK\r\nServer: x\r\n\r\nbody"}},
                         {{"HTTP/1.0 404 Not Found\r\n\r\n"}},
                         {{"HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: 1\r\n\r\nz"}}});
  HttpClient client("127.0.0.1", server.port());
  const Result<HttpReply> first = client.Get("/a");
  ASSERT_TRUE(first.ok()) << first.status().ToString();
  EXPECT_EQ(first->body, "body");
  const Result<HttpReply> second = client.Get("/a");
  ASSERT_TRUE(second.ok()) << second.status().ToString();
  EXPECT_EQ(second->status, 404);
  EXPECT_EQ(second->body, "");
  const Result<HttpReply> third = client.Get("/a");
  ASSERT_TRUE(third.ok()) << third.status().ToString();
  EXPECT_EQ(third->body, "z");
}

TEST(HttpClientTest, ANewConnectionThatIsClosedWithoutAnAnswerIsAnError) {
  ScriptedServer server({{{""}}, {{""}}});
  HttpClient client("127.0.0.1", server.port());
  const Result<HttpReply> reply = client.Get("/a");
  ASSERT_FALSE(reply.ok());
  EXPECT_EQ(reply.status().code(), ErrorCode::kProtocolError);
  ExpectSays(WithoutPort(reply.status(), server), {"GET /a: ", "127.0.0.1:PORT", "closed"});
}

TEST(HttpClientTest, WhatIsNotHttpIsAnError) {
  for (const std::string answer : {"garbage\r\n\r\n", "\r\n", "HTTP/1.1 \r\n\r\n",
                                   "HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\nshort",
                                   "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"
                                   "5\r\nshort\r"}) {
    ScriptedServer server({{{answer}}});
    HttpClient client("127.0.0.1", server.port());
    const Result<HttpReply> reply = client.Get("/a");
    ASSERT_FALSE(reply.ok()) << answer;
    EXPECT_EQ(reply.status().code(), ErrorCode::kProtocolError) << answer;
  }
}

TEST(HttpClientTest, NobodyListeningIsHostUnreachable) {
  uint16_t port = 0;
  Listener(&port).Reset();
  HttpClient client("127.0.0.1", port);
  EXPECT_EQ(client.Get("/a").status().code(), ErrorCode::kHostUnreachable);
}

TEST(HttpClientTest, AHostThatSwallowsConnectionsMeetsTheDeadlineAndCancel) {
  uint16_t port = 0;
  const UniqueFd listener = Listener(&port);
  ASSERT_EQ(::listen(listener.get(), 0), 0);
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_port = htons(port);
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  const UniqueFd first(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  ASSERT_EQ(::connect(first.get(), reinterpret_cast<sockaddr*>(&address), sizeof address), 0);
  const Status late = HttpClient("127.0.0.1", port, 50ms).Get("/a").status();
  EXPECT_EQ(late.code(), ErrorCode::kConnectTimeout);
  EXPECT_NE(late.message().find("no answer within 0.05 s"), std::string::npos) << late.message();
  HttpClient client("127.0.0.1", port, 1h);
  std::thread canceller([&client] { client.Cancel(); });
  EXPECT_EQ(client.Get("/a").status().code(), ErrorCode::kCancelled);
  canceller.join();
}

TEST(HttpClientTest, AHeadWithoutEndIsGivenUp) {
  std::string head = "HTTP/1.1 200 OK\r\n";
  while (head.size() < size_t{2} << 20) head += "X: " + std::string(8000, 'x') + "\r\n";
  ScriptedServer server({{{head}, /*is_held=*/true}});
  HttpClient client("127.0.0.1", server.port(), 1h);
  EXPECT_EQ(client.Get("/a").status().code(), ErrorCode::kProtocolError);
}

TEST(HttpClientTest, ALineWithoutEndIsGivenUp) {
  const std::string ok = "HTTP/1.1 200 OK\r\n";
  // The library matches status lines by recursion: this one would need 320 MB of stack.
  for (const std::string& begin :
       {std::string("HTTP/1.1 200 "), std::string("HTTP/1.1 100 \r\nx\r\nHTTP/1.1 200 "),
        ok + "X: ", ok + "Transfer-Encoding: chunked\r\n\r\n5;"}) {
    ScriptedServer server({{{begin + std::string(1'000'000, 'x')}, /*is_held=*/true}});
    HttpClient client("127.0.0.1", server.port(), 1h);
    EXPECT_EQ(client.Get("/a").status().code(), ErrorCode::kProtocolError) << begin;
  }
}

TEST(HttpClientTest, ASilentServerMeetsTheDeadline) {
  ScriptedServer server({{{}, /*is_held=*/true}});
  HttpClient client("127.0.0.1", server.port(), 50ms);
  const Result<HttpReply> reply = client.Get("/a");
  ASSERT_FALSE(reply.ok());
  EXPECT_EQ(reply.status().code(), ErrorCode::kDeadlineExceeded);
  EXPECT_NE(reply.status().message().find("within 0.05 s"), std::string::npos)
      << reply.status().message();
}

TEST(HttpClientTest, ABodyThatStopsMidwayMeetsTheDeadline) {
  ScriptedServer server({{{"HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\nabc"}, /*is_held=*/true}});
  HttpClient client("127.0.0.1", server.port(), 50ms);
  EXPECT_EQ(client.Get("/a").status().code(), ErrorCode::kDeadlineExceeded);
}

TEST(HttpClientTest, BodiesAboveTheLimitAreRefused) {
  constexpr size_t kLimit = size_t{16} << 20;
  ScriptedServer server({{{Answer("200 OK", std::string(kLimit, 'x'))}},
                         {{Answer("200 OK", std::string(kLimit + 1, 'x'))}},
                         {{"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n1000001\r\n" +
                           std::string(kLimit + 1, 'x') + "\r\n0\r\n\r\n"}}});
  HttpClient client("127.0.0.1", server.port(), 60s);
  EXPECT_TRUE(client.Get("/a").ok());
  for (int i = 0; i < 2; ++i) {
    const Result<HttpReply> reply = client.Get("/a");
    ASSERT_FALSE(reply.ok());
    ExpectSays(WithoutPort(reply.status(), server), {"GET /a: ", "PORT", "16777216 bytes"});
  }
}

TEST(HttpClientTest, PathsThatWouldSmuggleARequestAreRefused) {
  HttpClient client("127.0.0.1", 1);
  for (const std::string path : {"", "a", "/a b", "/a\r\nX: y", "/a\n", "/a\t", "/a\x7f"}) {
    EXPECT_EQ(client.Get(path).status().code(), ErrorCode::kUsage) << path;
  }
  EXPECT_EQ(client.Put(std::string("/a\0b", 4), "").status().code(), ErrorCode::kUsage);
}

TEST(HttpClientTest, ABrokenPipeEndsTheRequestAndNotTheProcess) {
  ASSERT_NE(::signal(SIGPIPE, SIG_DFL), SIG_ERR);
  // The server closes without reading all, so that a large body meets a reset connection.
  ScriptedServer server({{{Answer("200 OK", "")}}, {{}}, {{}}, {{}}, {{}}});
  HttpClient client("127.0.0.1", server.port(), 60s);
  ASSERT_TRUE(client.Get("/a").ok());
  EXPECT_FALSE(client.Put("/a", std::string(50'000'000, 'x')).ok());
  sigset_t pending;
  ASSERT_EQ(::sigpending(&pending), 0);
  EXPECT_EQ(sigismember(&pending, SIGPIPE), 0);
}

TEST(HttpClientTest, ItsSocketIsCloseOnExec) {
  ScriptedServer server({{{Answer("200 OK", "")}, /*is_held=*/true}});
  const auto leaky = [] {
    std::vector<int> fds;
    for (int fd = 3; fd < 256; ++fd) {
      const int flags = ::fcntl(fd, F_GETFD);
      if (flags >= 0 && (flags & FD_CLOEXEC) == 0) fds.push_back(fd);
    }
    return fds;
  };
  const std::vector<int> before = leaky();
  HttpClient client("127.0.0.1", server.port());
  ASSERT_TRUE(client.Get("/a").ok());
  EXPECT_EQ(leaky(), before);
}

TEST(HttpClientTest, AMovedClientGoesOn) {
  ScriptedServer server({{{Answer("200 OK", "1"), Answer("200 OK", "2")}}});
  HttpClient first("localhost", server.port());
  ASSERT_TRUE(first.Get("/a").ok());
  HttpClient second = std::move(first);
  const Result<HttpReply> reply = second.Get("/a");
  ASSERT_TRUE(reply.ok()) << reply.status().ToString();
  EXPECT_EQ(reply->body, "2");
}

}  // namespace
}  // namespace hvdray
