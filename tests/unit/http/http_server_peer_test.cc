// SPDX-License-Identifier: Apache-2.0
// Peers that come, stay and go: admission, held requests, limits, and handlers that end the server.
#include <poll.h>
#include <sys/resource.h>
#include <sys/wait.h>

#include <csignal>
#include <optional>

#include "base/http_server.h"
#include "tests/unit/http/http_client_fixture.h"

namespace hvdray {
namespace {

using HttpServerPeerTest = HttpServerFixture;

TEST_F(HttpServerPeerTest, NoticesAClientThatLeavesWhileItsRequestIsHeld) {
  Serve();
  RawClient client = Connect();
  client.Send("GET /hold HTTP/1.1\r\n\r\n");
  RunUntil([&] { return held_.size() == 1; });
  client.Close();
  RunUntil([&] { return gone_ == 1; });
  EXPECT_EQ(server_->ConnectionCount(), 0U);
  EXPECT_TRUE(server_->IsIdle());
  held_[0].Reply(200);  // has no effect, and no crash
  EXPECT_EQ(gone_, 1);
}

TEST_F(HttpServerPeerTest, NoticesAResetWhileHeld) {
  Serve();
  RawClient client = Connect();
  client.Send("GET /hold HTTP/1.1\r\n\r\n");
  RunUntil([&] { return held_.size() == 1; });
  const linger reset{1, 0};
  ::setsockopt(client.fd(), SOL_SOCKET, SO_LINGER, &reset, sizeof reset);
  client.Close();
  RunUntil([&] { return gone_ == 1; });
}

TEST_F(HttpServerPeerTest, ForgetsABodyWhoseSenderLeavesInTheMiddle) {
  Serve();
  RawClient client = Connect();
  client.Send("PUT /s/k HTTP/1.1\r\nContent-Length: 10\r\n\r\nabc");
  RunUntil([&] { return server_->ConnectionCount() == 1; });
  client.Close();
  RunUntil([&] { return server_->ConnectionCount() == 0; });
  EXPECT_EQ(requests_, 0);
}

TEST_F(HttpServerPeerTest, AnswersAClientThatHalfClosesAfterItsRequest) {
  Serve();
  RawClient client = Connect();
  client.Send("GET /a/1 HTTP/1.1\r\n\r\nGET /a/2 HTTP/1.1\r\n\r\n");
  client.HalfClose();
  EXPECT_EQ(RunUntilClosed(client), Answer(200, "OK", "/a/1") + Answer(200, "OK", "/a/2"));
}

TEST_F(HttpServerPeerTest, KeepsPipelinedRequestsUntilTheHeldOneIsAnswered) {
  Serve();
  RawClient client = Connect();
  client.Send("GET /hold HTTP/1.1\r\n\r\nGET /s/k HTTP/1.1\r\n\r\n");
  RunUntil([&] { return held_.size() == 1; });
  EXPECT_EQ(requests_, 1);
  bool is_replying = true;
  held_[0].Reply(404);
  is_replying = false;
  EXPECT_EQ(requests_, 1) << "no handler runs within Reply()";
  RunUntilReceived(client, "/s/k");
  EXPECT_FALSE(is_replying);
  EXPECT_EQ(client.received(), Answer(404, "Not Found", "") + Answer(200, "OK", "/s/k"));
}

TEST_F(HttpServerPeerTest, MakesAClientThatPipelinesTooMuchWait) {
  Serve();
  RawClient client = Connect();
  client.Send("GET /hold HTTP/1.1\r\n\r\n");
  RunUntil([&] { return held_.size() == 1; });
  constexpr std::string_view kNext = "GET /s/k HTTP/1.1\r\n\r\n";
  std::string many;
  while (many.size() < 200'000) many += kNext;
  size_t sent = 0;
  for (int round = 0; round < 50; ++round) {
    sent += client.TrySend(std::string_view(many).substr(sent));
    loop_->Post([this] { loop_->Stop(); });
    loop_->Run();
  }
  EXPECT_EQ(requests_, 1);
  held_[0].Reply(200);
  RunUntil([&] {
    sent += client.TrySend(std::string_view(many).substr(sent));
    client.Poll();
    return requests_ == 1 + static_cast<int>(many.size() / kNext.size());
  });
}

TEST_F(HttpServerPeerTest, NoticesThatAClientOfTooManyRequestsLeaves) {
  Serve();
  RawClient client = Connect();
  client.Send("GET /hold HTTP/1.1\r\n\r\n");
  RunUntil([&] { return held_.size() == 1; });
  (void)client.TrySend(std::string(100'000, 'x'));
  loop_->Post([this] { loop_->Stop(); });
  loop_->Run();
  client.Close();
  RunUntil([&] { return gone_ == 1; });
}

TEST_F(HttpServerPeerTest, ClosesAConnectionWhoseExchangeIsDropped) {
  Serve();
  RawClient client = Connect();
  client.Send("GET /hold HTTP/1.1\r\n\r\n");
  RunUntil([&] { return held_.size() == 1; });
  held_.clear();
  EXPECT_EQ(RunUntilClosed(client), "");
  EXPECT_EQ(gone_, 0);
}

TEST_F(HttpServerPeerTest, ShowsBothEndsToTheAdmission) {
  std::optional<HttpPeer> seen;
  Serve({}, [&](const HttpPeer& peer) {
    seen = peer;
    return true;
  });
  RawClient client = Connect();
  client.Send("GET /s/k HTTP/1.1\r\n\r\n");
  RunUntilReceived(client, "/s/k");
  ASSERT_TRUE(seen.has_value());
  sockaddr_in own{};
  socklen_t size = sizeof own;
  ASSERT_EQ(::getsockname(client.fd(), reinterpret_cast<sockaddr*>(&own), &size), 0);
  EXPECT_EQ(seen->remote.sin_port, own.sin_port);
  EXPECT_EQ(seen->remote.sin_addr.s_addr, htonl(INADDR_LOOPBACK));
  EXPECT_EQ(seen->local.sin_port, htons(server_->port()));
  EXPECT_EQ(seen->local.sin_addr.s_addr, htonl(INADDR_LOOPBACK));
}

TEST_F(HttpServerPeerTest, FindsItsOwnAddressWhenBoundToAll) {
  HttpServerOptions options;
  options.address = "0.0.0.0";
  std::optional<HttpPeer> seen;
  Serve(std::move(options), [&](const HttpPeer& peer) {
    seen = peer;
    return true;
  });
  RawClient client = Connect();
  client.Send("GET /s/k HTTP/1.1\r\n\r\n");
  RunUntilReceived(client, "/s/k");
  ASSERT_TRUE(seen.has_value());
  EXPECT_EQ(seen->local.sin_addr.s_addr, htonl(INADDR_LOOPBACK));
}

TEST_F(HttpServerPeerTest, ClosesARefusedPeerWithoutEffectOrAnswer) {
  Serve({}, [](const HttpPeer&) { return false; });
  for (const std::string_view bytes :
       {"PUT /s/k HTTP/1.1\r\nContent-Length: 1\r\n\r\nx", "nonsense\r\n\r\n",
        "PUT /s/k HTTP/1.1\r\nContent-Length: 99999999999\r\n\r\n"}) {
    RawClient client = Connect();
    client.Send(bytes);
    EXPECT_EQ(RunUntilClosed(client), "");
  }
  EXPECT_EQ(requests_, 0);
}

TEST_F(HttpServerPeerTest, AsksForAdmissionBeforeTheFirstByteIsRead) {
  int asked = 0;
  Serve({}, [&](const HttpPeer& peer) {
    char byte = 0;
    EXPECT_EQ(::recv(peer.fd, &byte, 1, MSG_PEEK | MSG_DONTWAIT), 1);
    return ++asked < 2;
  });
  RawClient client = Connect();
  client.Send("GET /a/1 HTTP/1.1\r\n\r\nGET /a/2 HTTP/1.1\r\n\r\n");
  RunUntilReceived(client, "/a/2");
  EXPECT_EQ(asked, 1);
  RawClient refused = Connect();
  refused.Send("G");
  EXPECT_EQ(RunUntilClosed(refused), "");
  EXPECT_EQ(asked, 2);
}

TEST_F(HttpServerPeerTest, ARefusedPeerTakesNobodysPlace) {
  HttpServerOptions options;
  options.max_connections = 1;
  bool is_welcome = false;
  Serve(std::move(options), [&](const HttpPeer&) { return is_welcome; });
  std::vector<RawClient> strangers;
  for (int i = 0; i < 20; ++i) strangers.emplace_back(server_->port()).Send("G");
  for (RawClient& stranger : strangers) EXPECT_EQ(RunUntilClosed(stranger), "");
  is_welcome = true;
  RawClient client = Connect();
  client.Send("GET /s/k HTTP/1.1\r\n\r\n");
  RunUntilReceived(client, "/s/k");
}

TEST_F(HttpServerPeerTest, TheOldestWithoutAHeaderMakesRoomWhenFull) {
  HttpServerOptions options;
  options.max_connections = 3;
  Serve(std::move(options));
  RawClient held = Connect();
  held.Send("GET /hold HTTP/1.1\r\n\r\n");
  RawClient in_body = Connect();
  in_body.Send("PUT /s/b HTTP/1.1\r\nExpect: 100-continue\r\nContent-Length: 2\r\n\r\n");
  RunUntilReceived(in_body, "Continue");
  RawClient oldest = Connect();
  oldest.Send("G");
  RunUntil([&] { return server_->ConnectionCount() == 3; });
  RawClient next = Connect();
  next.Send("GET /s/k HTTP/1.1\r\n\r\n");
  RunUntilReceived(next, "/s/k");
  EXPECT_EQ(RunUntilClosed(oldest), "");
  in_body.Send("ok");
  RunUntilReceived(in_body, "200 OK");
  EXPECT_FALSE(held.is_closed());
  EXPECT_EQ(gone_, 0);
}

TEST_F(HttpServerPeerTest, AClosedConnectionIsNotReportedThoughAForkedChildStillHoldsIt) {
  Serve();
  RawClient client = Connect();
  client.Send("GET /hold HTTP/1.1\r\n\r\n");
  RunUntil([&] { return held_.size() == 1; });
  const pid_t newborn = ::fork();
  if (newborn == 0) {
    for (;;) ::pause();
  }
  ASSERT_GT(newborn, 0);
  held_.clear();
  EXPECT_EQ(server_->ConnectionCount(), 0U);
  client.Send("for a connection that is gone");
  pollfd set{loop_->edge_poller().value()->fd(), POLLIN, 0};
  EXPECT_EQ(::poll(&set, 1, 0), 0);
  ::kill(newborn, SIGKILL);
  EXPECT_EQ(::waitpid(newborn, nullptr, 0), newborn);
}

TEST_F(HttpServerPeerTest, LetsConnectionsAboveItsLimitWait) {
  HttpServerOptions options;
  options.max_connections = 1;
  Serve(std::move(options));
  RawClient first = Connect();
  first.Send("GET /hold HTTP/1.1\r\n\r\n");
  RunUntil([&] { return held_.size() == 1; });
  RawClient second = Connect();
  second.Send("GET /s/k HTTP/1.1\r\n\r\n");
  loop_->Post([this] { loop_->Stop(); });
  loop_->Run();
  EXPECT_EQ(requests_, 1);
  first.Close();
  RunUntilReceived(second, "/s/k");
}

TEST_F(HttpServerPeerTest, GoesOnAcceptingWhenDescriptorsAreThereAgain) {
  Serve();
  std::vector<RawClient> clients;
  clients.push_back(Connect());
  rlimit old{};
  ASSERT_EQ(::getrlimit(RLIMIT_NOFILE, &old), 0);
  UniqueFd probe(::dup(clients[0].fd()));
  const rlimit none{static_cast<rlim_t>(probe.get()), old.rlim_max};
  probe.Reset();
  ASSERT_EQ(::setrlimit(RLIMIT_NOFILE, &none), 0);
  clients[0].Send("GET /s/k HTTP/1.1\r\n\r\n");
  for (int round = 0; round < 20; ++round) {
    loop_->Post([this] { loop_->Stop(); });
    loop_->Run();
  }
  EXPECT_EQ(requests_, 0);
  ASSERT_EQ(::setrlimit(RLIMIT_NOFILE, &old), 0);
  RunUntilReceived(clients[0], "/s/k");
}

TEST_F(HttpServerPeerTest, CloseListenerLetsHeldRequestsBeAnswered) {
  Serve();
  RawClient client = Connect();
  client.Send("GET /hold HTTP/1.1\r\n\r\n");
  RunUntil([&] { return held_.size() == 1; });
  const uint16_t port = server_->port();
  server_->CloseListener();
  EXPECT_FALSE(RawClient(port).is_connected());
  held_[0].Reply(200, std::make_shared<const std::string>("late"));
  RunUntilReceived(client, "late");
  EXPECT_TRUE(server_->IsIdle());
}

TEST_F(HttpServerPeerTest, ClosesAllWhenDestroyedAndLaterAnswersDoNothing) {
  Serve();
  RawClient client = Connect();
  client.Send("GET /hold HTTP/1.1\r\n\r\n");
  RunUntil([&] { return held_.size() == 1; });
  server_.reset();
  EXPECT_EQ(RunUntilClosed(client), "");
  EXPECT_EQ(gone_, 0) << "the peer did not leave, we did";
  held_[0].Reply(200);
}

TEST_F(HttpServerPeerTest, HandlersPostItsEndToTheLoop) {
  for (const bool in_admission : {true, false}) {
    std::vector<HttpExchange> held;
    const auto post_end = [this] { loop_->Post([this] { server_.reset(); }); };
    on_connect_ = [&](const HttpPeer&) {
      if (in_admission) post_end();
      return true;
    };
    on_request_ = [&](HttpExchange exchange) {
      post_end();
      held.push_back(std::move(exchange));
    };
    server_ = HttpServer::Listen(*loop_, {}, *this).value();
    RawClient first = Connect(), second = Connect();
    first.Send("GET /a/1 HTTP/1.1\r\n\r\nGET /a/2 HTTP/1.1\r\n\r\n");
    second.Send("GET /a/3 HTTP/1.1\r\n\r\n");
    EXPECT_EQ(RunUntilClosed(first), "");
    EXPECT_EQ(RunUntilClosed(second), "");
    for (HttpExchange& exchange : held) exchange.Reply(200);
  }
}

TEST_F(HttpServerPeerTest, PeerThatGoesPostsItsEndToTheLoop) {
  std::vector<HttpExchange> held;
  on_request_ = [&](HttpExchange exchange) {
    exchange.OnGone([&] {
      held.clear();
      loop_->Post([this] { server_.reset(); });
    });
    held.push_back(std::move(exchange));
  };
  server_ = HttpServer::Listen(*loop_, {}, *this).value();
  RawClient first = Connect(), second = Connect();
  first.Send("GET /a/1 HTTP/1.1\r\n\r\n");
  second.Send("GET /a/2 HTTP/1.1\r\n\r\n");
  RunUntil([&] { return held.size() == 2; });
  first.Close();
  second.Close();
  RunUntil([&] { return server_ == nullptr; });
  EXPECT_TRUE(held.empty());
}

TEST_F(HttpServerPeerTest, ItsEndInsideAHandlerIsABug) {
  on_request_ = [this](const HttpExchange&) { server_.reset(); };
  server_ = HttpServer::Listen(*loop_, {}, *this).value();
  RawClient client = Connect();
  client.Send("GET /a/1 HTTP/1.1\r\n\r\n");
  EXPECT_DEATH(RunUntil([] { return false; }), "handlers_running");
}

TEST_F(HttpServerPeerTest, ServesTheOthersWhileOneSendsWithoutEnd) {
  Serve();
  RawClient greedy = Connect();
  const std::string block =
      "PUT /s/big HTTP/1.1\r\nContent-Length: 1000000\r\n\r\n" + std::string(1'000'000, 'x');
  RawClient modest = Connect();
  size_t sent = 0;
  bool has_asked = false;
  RunUntil([&] {
    sent = (sent + greedy.TrySend(std::string_view(block).substr(sent))) % block.size();
    greedy.Poll();
    if (requests_ >= 3 && !has_asked) {
      has_asked = true;
      modest.Send("GET /s/small HTTP/1.1\r\n\r\n");
    }
    modest.Poll();
    return modest.received().find("/s/small") != std::string::npos;
  });
}

}  // namespace
}  // namespace hvdray
