// SPDX-License-Identifier: Apache-2.0
// The stand-alone server as Horovod's client sees it: the request bytes are those of
// horovod/common/gloo/http_store.cc.
#include <fmt/format.h>
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include "rendezvous/standalone_server.h"
#include "tests/unit/http/http_client_fixture.h"

namespace hvdray {
namespace {

constexpr std::string_view kEmpty200 = "HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n";
constexpr std::string_view kEmpty404 = "HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\n\r\n";

class RendezvousServerTest : public HttpServerFixture {
 protected:
  void Start(RendezvousOptions options = {}) {
    options.user = ::getuid();
    auto server = RendezvousServer::Start(*loop_, std::move(options));
    ASSERT_TRUE(server.ok()) << server.status().ToString();
    rendezvous_ = std::move(server).value();
  }

  static std::string Request(std::string_view method, std::string_view path,
                             std::string_view body = "") {
    return fmt::format("{} {} HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: {}\r\n\r\n{}", method,
                       path, body.size(), body);
  }

  RawClient Send(std::string_view method, std::string_view path, std::string_view body = "") {
    RawClient client(rendezvous_->port());
    client.Send(Request(method, path, body));
    return client;
  }

  /// One request over a connection of its own, as Horovod's client makes it: the whole answer.
  std::string Ask(std::string_view method, std::string_view path, std::string_view body = "") {
    return AskRaw(Request(method, path, body));
  }

  std::string AskRaw(std::string_view bytes) {
    RawClient client(rendezvous_->port());
    client.Send(bytes);
    RunUntil([&] {
      client.Poll();
      return !client.received().empty() || client.is_closed();
    });
    return client.received();
  }

  static std::string Value(std::string_view value) {
    return fmt::format("HTTP/1.1 200 OK\r\nContent-Length: {}\r\n\r\n{}", value.size(), value);
  }

  static KvAssignment TwoHosts() {
    KvAssignment assignment;
    assignment.generation = 1;
    assignment.Add("a", 0, 2, 0, 1, 0, 2);
    assignment.Add("b", 1, 2, 0, 1, 1, 2);
    return assignment;
  }

  std::unique_ptr<RendezvousServer> rendezvous_;
};

TEST_F(RendezvousServerTest, ServesOneMembersWholeSequence) {
  Start();
  EXPECT_EQ(Ask("PUT", "/global/rank_0", "host-a"), kEmpty200);
  EXPECT_EQ(Ask("GET", "/global/rank_1"), kEmpty404);
  EXPECT_EQ(Ask("PUT", "/global/0", std::string_view("\0\1\r\n", 4)), kEmpty200);
  EXPECT_EQ(Ask("GET", "/global/0"), Value(std::string_view("\0\1\r\n", 4)));
  EXPECT_EQ(Ask("DELETE", "/global/0"), kEmpty200);
  EXPECT_EQ(rendezvous_->stats().requests, 5U);
}

TEST_F(RendezvousServerTest, HoldsAGetUntilItsPutAndAnswersAllWhoWait) {
  RendezvousOptions options;
  options.kv_hold = std::chrono::minutes(1);
  Start(std::move(options));
  std::vector<RawClient> waiting;
  for (int i = 0; i < 3; ++i) waiting.push_back(Send("GET", "/global/1"));
  RawClient other = Send("GET", "/local_a/1");
  RunUntil([&] { return rendezvous_->held_count() == 4; });
  EXPECT_EQ(Ask("PUT", "/global/1", "addresses"), kEmpty200);
  for (RawClient& client : waiting) {
    client.Poll();
    EXPECT_EQ(client.received(), Value("addresses"));
  }
  other.Poll();
  EXPECT_EQ(other.received(), "");
  EXPECT_EQ(rendezvous_->held_count(), 1U);
}

TEST_F(RendezvousServerTest, AnswersAHeldGetWith404WhenItsTimeIsOver) {
  RendezvousOptions options;
  options.kv_hold = std::chrono::milliseconds(10);
  Start(std::move(options));
  EXPECT_EQ(Ask("GET", "/global/1"), kEmpty404);
  EXPECT_EQ(rendezvous_->held_count(), 0U);
}

TEST_F(RendezvousServerTest, NeverHoldsRankNamesAndPlainValues) {
  RendezvousOptions options;
  options.kv_hold = std::chrono::minutes(1);
  Start(std::move(options));
  EXPECT_EQ(Ask("GET", "/global/rank_7"), kEmpty404);
  EXPECT_EQ(Ask("GET", "/runfunc/0"), kEmpty404);
  EXPECT_EQ(rendezvous_->held_count(), 0U);
}

TEST_F(RendezvousServerTest, ForgetsAHeldGetWhoseClientIsKilled) {
  RendezvousOptions options;
  options.kv_hold = std::chrono::minutes(1);
  Start(std::move(options));
  RawClient first = Send("GET", "/global/1"), second = Send("GET", "/global/1");
  RawClient third = Send("GET", "/global/1");
  RunUntil([&] { return rendezvous_->held_count() == 3; });
  first.Close();
  third.Close();
  RunUntil([&] { return rendezvous_->held_count() == 1; });
  EXPECT_EQ(Ask("PUT", "/global/1", "v"), kEmpty200);
  second.Poll();
  EXPECT_EQ(second.received(), Value("v"));
  EXPECT_EQ(rendezvous_->held_count(), 0U);
}

TEST_F(RendezvousServerTest, KeepsValuesOfAKnownScopeUntilAllMembersHaveDeleted) {
  RendezvousOptions options;
  options.assignment = TwoHosts();
  options.kv_hold = Duration::zero();
  Start(std::move(options));
  EXPECT_EQ(Ask("PUT", "/global/0", "x"), kEmpty200);
  EXPECT_EQ(Ask("DELETE", "/global/0"), kEmpty200);
  EXPECT_EQ(Ask("GET", "/global/0"), Value("x"));
  EXPECT_EQ(Ask("DELETE", "/global/1"), kEmpty200);
  EXPECT_EQ(Ask("GET", "/global/0"), kEmpty404);
}

TEST_F(RendezvousServerTest, TellsAWorkerItsPlaceAndAStrangerToLeave) {
  RendezvousOptions options;
  options.assignment = TwoHosts();
  Start(std::move(options));
  EXPECT_EQ(Ask("GET", "/rank_and_size/b:0"), Value("1,2,0,1,1,2"));
  EXPECT_EQ(Ask("GET", "/rank_and_size/c:0"), Value("-1,-1,-1,-1,-1,-1"));
  EXPECT_EQ(Ask("PUT", "/rank_and_size/b:0", "x").substr(0, 12), "HTTP/1.1 405");
}

TEST_F(RendezvousServerTest, NeverServesWorkerAddressesBack) {
  Start();
  EXPECT_EQ(Ask("PUT", "/worker_addresses/a:0", "cG9pc29u"), kEmpty200);
  EXPECT_EQ(Ask("GET", "/worker_addresses/a:0"), kEmpty404);
  EXPECT_EQ(rendezvous_->store().stored_bytes(), 0U);
}

TEST_F(RendezvousServerTest, RefusesWhatIsNoRequestOfTheProtocol) {
  Start();
  const auto status_of = [&](std::string_view bytes) { return AskRaw(bytes).substr(9, 3); };
  EXPECT_EQ(status_of("GET / HTTP/1.1\r\n\r\n"), "400");
  EXPECT_EQ(status_of("GET /scope HTTP/1.1\r\n\r\n"), "400");
  EXPECT_EQ(status_of("GET /a/b/c HTTP/1.1\r\n\r\n"), "400");
  EXPECT_EQ(status_of("PUT /a/b HTTP/1.1\r\n\r\n"), "411");
  EXPECT_EQ(status_of("HEAD /a/b HTTP/1.1\r\n\r\n"), "405");
  EXPECT_EQ(status_of("POST /a/b HTTP/1.1\r\nContent-Length: 0\r\n\r\n"), "501");
  EXPECT_EQ(status_of("PUT /a/b HTTP/1.1\r\nContent-Length: 16777217\r\n\r\n"), "413");
  EXPECT_EQ(rendezvous_->store().stored_bytes(), 0U);
}

TEST_F(RendezvousServerTest, RefusesValuesAboveTheLimitOfTheStore) {
  RendezvousOptions options;
  options.store_bytes = 4096;
  Start(std::move(options));
  EXPECT_EQ(Ask("PUT", "/s/small", std::string(1000, 'x')), kEmpty200);
  const std::string refused = Ask("PUT", "/s/large", std::string(5000, 'x')).substr(9, 3);
  EXPECT_TRUE(refused == "413" || refused == "503") << refused;
  EXPECT_EQ(Ask("GET", "/s/small"), Value(std::string(1000, 'x')));
}

TEST_F(RendezvousServerTest, ClosesAPeerOfAnotherUserWithoutEffect) {
  // Only root can become somebody else; for others, it is the job that is another user's.
  const bool is_root = ::getuid() == 0;
  RendezvousOptions options;
  options.user = is_root ? 0 : ::getuid() + 1;
  auto server = RendezvousServer::Start(*loop_, std::move(options));
  ASSERT_TRUE(server.ok());
  const pid_t child = ::fork();
  if (child == 0) {
    if (is_root && (::setgid(65534) != 0 || ::setuid(65534) != 0)) ::_exit(1);
    RawClient client((*server)->port());
    client.Send(Request("PUT", "/global/0", "poison"));
    char byte = 0;
    ::_exit(::recv(client.fd(), &byte, 1, 0) <= 0 ? 0 : 2);
  }
  ASSERT_GT(child, 0);
  RunUntil([&] { return (*server)->stats().refused_peers == 1; });
  int status = -1;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  EXPECT_EQ(status, 0) << "it must have been closed without an answer";
  EXPECT_EQ((*server)->store().stored_bytes(), 0U);
  EXPECT_EQ((*server)->stats().requests, 0U);
}

TEST_F(RendezvousServerTest, ClosesAPeerThatIsGoneBeforeItIsAskedFor) {
  Start();
  RawClient client(rendezvous_->port());
  client.Send(Request("PUT", "/global/0", "poison"));
  client.Close();
  RunUntil([&] { return rendezvous_->stats().refused_peers == 1; });
  EXPECT_EQ(rendezvous_->store().stored_bytes(), 0U);
}

TEST_F(RendezvousServerTest, AdmitsOnlyWhomTheListNamesBesidesTheOwnUser) {
  RendezvousOptions options;
  options.address = "0.0.0.0";
  options.allow = ParseCidrList("10.0.0.0/8").value();
  options.is_peer_checked = true;
  Start(std::move(options));
  EXPECT_EQ(Ask("GET", "/s/k"), kEmpty404) << "loopback and the own user";
}

TEST_F(RendezvousServerTest, WantsAListForAnyOtherAddressThanLoopback) {
  RendezvousOptions options;
  options.address = "0.0.0.0";
  const auto server = RendezvousServer::Start(*loop_, std::move(options));
  ASSERT_FALSE(server.ok());
  EXPECT_EQ(server.status().code(), ErrorCode::kUsage);
  EXPECT_NE(server.status().hint().find("--allow"), std::string::npos);
}

TEST_F(RendezvousServerTest, DrainsByAnsweringWhatIsHeld) {
  RendezvousOptions options;
  options.kv_hold = std::chrono::minutes(1);
  Start(std::move(options));
  RawClient waiting = Send("GET", "/global/1");
  RunUntil([&] { return rendezvous_->held_count() == 1; });
  bool is_done = false;
  rendezvous_->Drain(std::chrono::seconds(5), [&] { is_done = true; });
  EXPECT_FALSE(RawClient(rendezvous_->port()).is_connected());
  RunUntil([&] { return is_done; });
  waiting.Poll();
  EXPECT_EQ(waiting.received(), kEmpty404);
}

}  // namespace
}  // namespace hvdray
