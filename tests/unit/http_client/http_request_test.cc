// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/socket.h>
#include <unistd.h>

#include <future>
#include <string>
#include <thread>

#include "base/http_client.h"
#include "base/unix_socket.h"
#include "tests/fakes/scripted_server.h"
#include "tests/fakes/temp_directory.h"

namespace hvdray {
namespace {

using namespace std::chrono_literals;

class HttpRequestTest : public testing::Test {
 protected:
  HttpRequestTest() { ::signal(SIGPIPE, SIG_IGN); }

  static HttpClientOptions To(const ScriptedServer& server, Duration timeout = 60s) {
    return {.host = "127.0.0.1",
            .port = server.port(),
            .headers = {{"User-Agent", "hvdray/1"}, {"X-Team", "vision"}},
            .timeout = timeout};
  }
};

TEST_F(HttpRequestTest, ARequestHasOurHeadersAndItsBody) {
  ScriptedServer server({{.answers = {ScriptedServer::Answer(201, "done")}}});
  HttpClient client(To(server));
  const auto reply = client.Send(
      {.method = "PUT", .path = "/p?q=%20", .body = "bytes", .headers = {{"Content-Type", "a/b"}}});
  ASSERT_TRUE(reply.ok()) << reply.status().ToString();
  EXPECT_EQ(reply->status, 201);
  EXPECT_EQ(reply->body, "done");
  const std::string request = server.Stop().at(0);
  EXPECT_TRUE(request.starts_with("PUT /p?q=%20 HTTP/1.1\r\n")) << request;
  for (const char* line : {"User-Agent: hvdray/1\r\n", "X-Team: vision\r\n",
                           "Content-Type: a/b\r\n", "Accept-Encoding: identity\r\n"}) {
    EXPECT_NE(request.find(line), std::string::npos) << line << request;
  }
  EXPECT_EQ(request.find("httplib"), std::string::npos);
  EXPECT_TRUE(request.ends_with("\r\n\r\nbytes"));
}

TEST_F(HttpRequestTest, ALargeBodyArrivesWhole) {
  std::string body(size_t{20} << 20, 'a');
  for (size_t i = 0; i < body.size(); i += 997) body[i] = static_cast<char>(i);
  ScriptedServer server({{.answers = {ScriptedServer::Answer(200, "")}}});
  HttpClient client(To(server));
  ASSERT_TRUE(client.Send({.method = "PUT", .path = "/", .body = body}).ok());
  EXPECT_TRUE(server.Stop().at(0).ends_with(body));
}

TEST_F(HttpRequestTest, AConnectionIsKeptAndMadeAnewWhenTheServerClosedIt) {
  const std::string answer = ScriptedServer::Answer(200, "x");
  ScriptedServer server({{.answers = {answer, answer}}, {.answers = {answer}}});
  HttpClient client(To(server));
  for (int i = 0; i < 3; ++i) {
    EXPECT_TRUE(client.Send({.method = "GET", .path = "/"}).ok()) << i;
  }
  EXPECT_EQ(server.Stop().size(), 3U);
}

TEST_F(HttpRequestTest, APostIsNeverSentTwice) {
  const std::string answer = ScriptedServer::Answer(200, "x");
  ScriptedServer server({{.answers = {answer, ""}}, {.answers = {""}}, {.answers = {answer}}});
  HttpClient client(To(server));
  ASSERT_TRUE(client.Send({.method = "GET", .path = "/"}).ok());
  const auto post = client.Send({.method = "POST", .path = "/", .body = "x"});
  EXPECT_EQ(post.status().code(), ErrorCode::kProtocolError);
  EXPECT_EQ(server.Stop().size(), 2U);
}

TEST_F(HttpRequestTest, PiecesComeAsTheyAreSentUntilEnough) {
  ScriptedServer server({{.answers = {ScriptedServer::Pieces("one") + ScriptedServer::Chunk("two")},
                          .is_held = true}});
  HttpClient client(To(server));
  std::string taken;
  const auto reply = client.Stream("/log", [&](ByteView piece) {
    taken += piece;
    return taken.size() < 6;
  });
  ASSERT_TRUE(reply.ok()) << reply.status().ToString();
  EXPECT_EQ(reply->status, 200);
  EXPECT_EQ(taken, "onetwo");
}

TEST_F(HttpRequestTest, AStreamThatEndsIsToldFromOneThatIsCut) {
  ScriptedServer server({{.answers = {ScriptedServer::Pieces("one") + "0\r\n\r\n"}},
                         {.answers = {ScriptedServer::Pieces("one")}}});
  HttpClient client(To(server));
  const auto take = [](ByteView) { return true; };
  EXPECT_TRUE(client.Stream("/", take).ok());
  EXPECT_EQ(client.Stream("/", take).status().code(), ErrorCode::kProtocolError);
}

TEST_F(HttpRequestTest, AnErrorInsteadOfAStreamIsKeptAsABody) {
  ScriptedServer server({{.answers = {ScriptedServer::Answer(500, "no such file")}}});
  HttpClient client(To(server));
  const auto reply = client.Stream("/", [](ByteView) -> bool {
    ADD_FAILURE() << "an error is no piece";
    return false;
  });
  ASSERT_TRUE(reply.ok());
  EXPECT_EQ(reply->status, 500);
  EXPECT_EQ(reply->body, "no such file");
}

TEST_F(HttpRequestTest, AFileWhoseRestDoesNotComeIsGivenUp) {
  ScriptedServer server({{.answers = {ScriptedServer::Pieces("one") + ScriptedServer::Chunk("two")},
                          .is_held = true}});
  HttpClientOptions options = To(server);
  options.timeout = std::chrono::milliseconds(500);
  HttpClient client(std::move(options));
  std::string taken;
  const auto reply = client.Fetch("/", [&](ByteView piece) {
    taken += piece;
    // Longer than the timeout: this end's slowness is not the server's.
    std::promise<void>().get_future().wait_for(std::chrono::milliseconds(600));
    return true;
  });
  EXPECT_EQ(reply.status().code(), ErrorCode::kDeadlineExceeded);
  EXPECT_EQ(taken, "onetwo");
}

TEST_F(HttpRequestTest, CancelEndsAStreamThatIsSilent) {
  ScriptedServer server({{.answers = {ScriptedServer::Pieces("one")}, .is_held = true}});
  HttpClient client(To(server));
  std::promise<void> began;
  std::thread canceller([&] {
    began.get_future().wait();
    client.Cancel();
  });
  const auto reply = client.Stream("/", [&](ByteView) {
    began.set_value();
    return true;
  });
  canceller.join();
  EXPECT_EQ(reply.status().code(), ErrorCode::kCancelled);
  EXPECT_EQ(client.Send({.method = "GET", .path = "/"}).status().code(), ErrorCode::kCancelled);
}

TEST_F(HttpRequestTest, TheLimitHoldsForTheWholeAnswer) {
  ScriptedServer server(
      {{.answers = {"HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nx"}, .is_held = true}});
  HttpClient client(To(server, 50ms));
  const auto reply = client.Send({.method = "GET", .path = "/"});
  EXPECT_EQ(reply.status().code(), ErrorCode::kDeadlineExceeded) << reply.status().ToString();
}

TEST_F(HttpRequestTest, WhatCouldSmuggleARequestInIsRefused) {
  ScriptedServer server({});
  HttpClient client(To(server));
  for (const char* path : {"", "x", "/a b", "/a\r\nX: y"}) {
    EXPECT_EQ(client.Send({.method = "GET", .path = path}).status().code(), ErrorCode::kUsage);
  }
  HttpClientOptions options = To(server);
  options.headers.emplace_back("X", "a\r\nY: geheim");
  HttpClient other(options);
  const Status status = other.Send({.method = "GET", .path = "/"}).status();
  EXPECT_EQ(status.code(), ErrorCode::kUsage);
  EXPECT_EQ(status.ToString().find("geheim"), std::string::npos);
}

constexpr uid_t kNobody = 65534;

TEST_F(HttpRequestTest, SecretsGoToAServerOfOurs) {
  ScriptedServer server({{.answers = {ScriptedServer::Answer(200, "")}}});
  HttpClientOptions options = To(server);
  options.secrets = {{"Authorization", "Bearer geheim"}};
  const auto reply = HttpClient(options).Send({.method = "GET", .path = "/"});
  ASSERT_TRUE(reply.ok()) << reply.status().ToString();
  EXPECT_TRUE(reply->has_had_secrets);
  EXPECT_NE(server.Stop().at(0).find("Authorization: Bearer geheim\r\n"), std::string::npos);
}

TEST_F(HttpRequestTest, AServerOfAnotherUserGetsNoSecretAndNoBody) {
  if (::geteuid() != 0) GTEST_SKIP() << "only root can give sockets away";
  const std::string answer = ScriptedServer::Answer(200, "");
  ScriptedServer server({{}, {.answers = {answer, answer}}, {}, {.answers = {answer}}});
  server.GiveTo(kNobody);
  HttpClientOptions options = To(server);
  options.secrets = {{"Authorization", "Bearer geheim"}};
  const auto refused = HttpClient(options).Send({.method = "GET", .path = "/with-secret"});
  EXPECT_EQ(refused.status().code(), ErrorCode::kAuthenticationFailed);
  EXPECT_NE(refused.status().message().find("65534"), std::string::npos);

  HttpClient plain(To(server));
  EXPECT_TRUE(plain.Send({.method = "GET", .path = "/question"}).ok());
  const auto package = plain.Send({.method = "PUT", .path = "/package", .body = "key"});
  EXPECT_EQ(package.status().code(), ErrorCode::kAuthenticationFailed);

  options.local_peer = HttpLocalPeer::kAny;
  EXPECT_TRUE(HttpClient(options).Send({.method = "PUT", .path = "/x", .body = "key"}).ok());
  const auto& requests = server.Stop();
  ASSERT_EQ(requests.size(), 2u);
  EXPECT_TRUE(requests[0].starts_with("GET /question "));
  EXPECT_NE(requests[1].find("geheim"), std::string::npos);
}

TEST_F(HttpRequestTest, AUnixSocketLeadsToTheServer) {
  TempDirectory directory;
  const std::string path = directory.path() + "/socket";
  const auto address = UnixAddress(path);
  ASSERT_TRUE(address.ok());
  const UniqueFd listener(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
  ASSERT_EQ(::bind(listener.get(), reinterpret_cast<const sockaddr*>(&*address), sizeof *address),
            0);
  ASSERT_EQ(::listen(listener.get(), 4), 0);
  std::string request;
  std::thread serving([&] {
    const UniqueFd peer(::accept4(listener.get(), nullptr, nullptr, SOCK_CLOEXEC));
    char bytes[4096];
    while (request.find("\r\n\r\n") == std::string::npos) {
      const ssize_t n = ::read(peer.get(), bytes, sizeof bytes);
      if (n <= 0) return;
      request.append(bytes, static_cast<size_t>(n));
    }
    const std::string answer = ScriptedServer::Answer(200, "through");
    (void)!::send(peer.get(), answer.data(), answer.size(), MSG_NOSIGNAL);
  });
  HttpClient client({.host = "127.0.0.1",
                     .port = 8265,
                     .socket_path = path,
                     .secrets = {{"Authorization", "Bearer geheim"}}});
  const auto reply = client.Send({.method = "GET", .path = "/"});
  ::shutdown(listener.get(), SHUT_RDWR);
  serving.join();
  ASSERT_TRUE(reply.ok()) << reply.status().ToString();
  EXPECT_EQ(reply->body, "through");
  EXPECT_NE(request.find("Host: 127.0.0.1:8265\r\n"), std::string::npos);
  EXPECT_NE(request.find("Bearer geheim\r\n"), std::string::npos);

  const auto gone = client.Send({.method = "GET", .path = "/"});
  EXPECT_EQ(gone.status().code(), ErrorCode::kHostUnreachable) << gone.status().ToString();
}

}  // namespace
}  // namespace hvdray
