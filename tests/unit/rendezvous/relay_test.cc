// SPDX-License-Identifier: Apache-2.0
// The relay over real sockets, with requests byte for byte as Horovod's client sends them
// (horovod/common/gloo/http_store.cc) and a store that answers at once or when the test lets it.
#include "rendezvous/relay.h"

#include <fmt/format.h>
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <deque>
#include <memory>
#include <string>
#include <vector>

#include "rendezvous/horovod_protocol.h"
#include "rendezvous/kv_store.h"
#include "tests/unit/http/http_client_fixture.h"

namespace hvdray {
namespace {

constexpr std::string_view kEmpty200 = "HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n";
constexpr std::string_view kEmpty404 = "HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\n\r\n";

class RelayTest : public HttpServerFixture, private KvUpstream, private KvStore::Owner {
 protected:
  RelayTest() : store_(*this) {}
  using HttpServerFixture::Answer;
  void Answer(int /*relay*/, KvAnswer answer) override { relay_->OnAnswer(answer); }

  void Start(int workers, Relay::Options options = {}) {
    relay_ = std::make_unique<Relay>(*loop_, std::move(options), static_cast<KvUpstream&>(*this));
    NextGeneration(workers);
  }

  void NextGeneration(int workers) {
    KvAssignment assignment;
    assignment.generation = ++generation_;
    for (int i = 0; i < workers; ++i) assignment.Add("h", i, workers, i, workers, 0, 1);
    store_.Reset(std::move(assignment));
    relay_->Reset(generation_);
    ports_.clear();
    for (int i = 0; i < workers; ++i) {
      const Result<uint16_t> port = relay_->OpenWorker(i, "h:" + std::to_string(i), generation_);
      ASSERT_TRUE(port.ok()) << port.status().ToString();
      ports_.push_back(*port);
    }
  }

  static std::string Request(std::string_view method, std::string_view path,
                             std::string_view body = "") {
    return fmt::format("{} {} HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: {}\r\n\r\n{}", method,
                       path, body.size(), body);
  }
  static std::string Value(std::string_view value) {
    return fmt::format("HTTP/1.1 200 OK\r\nContent-Length: {}\r\n\r\n{}", value.size(), value);
  }

  uint16_t PortOf(int worker) const { return ports_[static_cast<size_t>(worker)]; }
  RawClient Send(int worker, std::string_view method, std::string_view path,
                 std::string_view body = "") {
    RawClient client(PortOf(worker));
    client.Send(Request(method, path, body));
    return client;
  }
  std::string Await(RawClient& client) {
    RunUntil([&] {
      client.Poll();
      return !client.received().empty() || client.is_closed();
    });
    return client.received();
  }
  std::string Ask(int worker, std::string_view method, std::string_view path,
                  std::string_view body = "") {
    RawClient client = Send(worker, method, path, body);
    return Await(client);
  }
  /// Whether the relay has taken that many requests in.
  void AwaitRequests(uint64_t count) {
    RunUntil([&] { return relay_->stats().requests >= count; });
  }

  /// From now on questions wait until LetThrough().
  void HoldBack() { is_held_back_ = true; }
  void LetThrough() {
    is_held_back_ = false;
    while (!questions_.empty()) {
      const KvQuestion question = std::move(questions_.front());
      questions_.pop_front();
      store_.Ask(0, question);
    }
  }

  std::unique_ptr<Relay> relay_;
  KvStore store_;
  std::deque<KvQuestion> questions_;
  std::vector<int> arrived_;
  std::vector<uint16_t> ports_;
  Generation generation_ = 0;

 private:
  void Ask(KvQuestion question) override {
    questions_.push_back(std::move(question));
    loop_->Post([this] {
      if (!is_held_back_) LetThrough();
    });
  }
  void Arrived(int worker) override { arrived_.push_back(worker); }
  bool is_held_back_ = false;
};

TEST_F(RelayTest, EachWorkerHasAPortOfItsOwn) {
  Start(3);
  EXPECT_NE(PortOf(0), PortOf(1));
  EXPECT_NE(PortOf(1), PortOf(2));
  EXPECT_NE(PortOf(0), 0);
}

TEST_F(RelayTest, ServesTheSequenceOfTwoMembers) {
  Start(2);
  const std::string addresses_0(136, '\1');
  const std::string addresses_1 = std::string("\0\r\n\r\n", 5) + std::string(131, '\xff');
  EXPECT_EQ(Ask(0, "PUT", "/global/rank_0", "machine"), kEmpty200);
  EXPECT_EQ(Ask(1, "PUT", "/global/rank_1", "machine"), kEmpty200);
  EXPECT_EQ(Ask(1, "GET", "/global/rank_0"), Value("machine"));
  EXPECT_EQ(Ask(0, "PUT", "/global/0", addresses_0), kEmpty200);
  RawClient waiting = Send(0, "GET", "/global/1");
  AwaitRequests(5);
  waiting.Poll();
  EXPECT_EQ(waiting.received(), "");
  EXPECT_EQ(Ask(1, "PUT", "/global/1", addresses_1), kEmpty200);
  EXPECT_EQ(Await(waiting), Value(addresses_1));
  EXPECT_EQ(Ask(0, "GET", "/global/1"), Value(addresses_1));
  EXPECT_EQ(Ask(1, "GET", "/global/0"), Value(addresses_0));
  EXPECT_EQ(Ask(0, "DELETE", "/global/0"), kEmpty200);
  EXPECT_EQ(Ask(1, "GET", "/global/0"), Value(addresses_0)) << "not every member has deleted";
  EXPECT_EQ(Ask(1, "DELETE", "/global/1"), kEmpty200);
  EXPECT_EQ(store_.stored_bytes(), 0u);
}

TEST_F(RelayTest, AMemberOfASetOfOneHasEmptyAddresses) {
  Start(1);
  EXPECT_EQ(Ask(0, "PUT", "/cross_0/rank_0", "machine"), kEmpty200);
  EXPECT_EQ(Ask(0, "PUT", "/cross_0/0", ""), kEmpty200);
  EXPECT_EQ(Ask(0, "GET", "/cross_0/0"), kEmpty200);
  EXPECT_EQ(Ask(0, "DELETE", "/cross_0/0"), kEmpty200);
}

TEST_F(RelayTest, AMissingNumberIsAbsentAfterTheHoldAndANameAtOnce) {
  Relay::Options options;
  options.kv_hold = std::chrono::milliseconds(5);
  Start(1, options);
  EXPECT_EQ(Ask(0, "GET", "/global/7"), kEmpty404);
  EXPECT_EQ(relay_->stats().held_too_long, 1u);
  EXPECT_EQ(Ask(0, "GET", "/global/rank_7"), kEmpty404);
  EXPECT_EQ(Ask(0, "GET", "/other/key"), kEmpty404);
}

TEST_F(RelayTest, ASlowLauncherIsAHeldRequest) {
  Start(1);
  HoldBack();
  RawClient put = Send(0, "PUT", "/global/0", "v");
  AwaitRequests(1);
  put.Poll();
  EXPECT_EQ(put.received(), "");
  EXPECT_FALSE(put.is_closed());
  LetThrough();
  EXPECT_EQ(Await(put), kEmpty200);
}

TEST_F(RelayTest, MalformedRequestsGetTheirStatus) {
  Start(1);
  const auto status_of = [&](std::string_view bytes) {
    RawClient client(PortOf(0));
    client.Send(bytes);
    return Await(client).substr(0, 12);
  };
  EXPECT_EQ(status_of("GET /global HTTP/1.1\r\n\r\n"), "HTTP/1.1 400");
  EXPECT_EQ(status_of("GET /a/b/c HTTP/1.1\r\n\r\n"), "HTTP/1.1 400");
  EXPECT_EQ(status_of("PUT /a/b HTTP/1.1\r\n\r\n"), "HTTP/1.1 411");
  EXPECT_EQ(status_of("HEAD /etc/passwd HTTP/1.1\r\n\r\n"), "HTTP/1.1 405");
  EXPECT_EQ(status_of("POST /a/b HTTP/1.1\r\nContent-Length: 0\r\n\r\n"), "HTTP/1.1 501");
  EXPECT_EQ(status_of("PUT /a/b HTTP/1.1\r\nContent-Length: 16777217\r\n\r\n"), "HTTP/1.1 413");
  EXPECT_EQ(status_of(fmt::format("GET /{} HTTP/1.1\r\n\r\n", std::string(9000, 'x'))),
            "HTTP/1.1 413");
  EXPECT_EQ(relay_->stats().requests, 0u);
  EXPECT_EQ(relay_->stats().refused_requests, 5u);
  EXPECT_EQ(Ask(0, "PUT", "/global/0", "v"), kEmpty200) << "and the next one is served";
}

TEST_F(RelayTest, ManyRequestsOnOneConnectionAreAnsweredInOrder) {
  Start(1);
  std::string all;
  std::string expected;
  for (int i = 0; i < 50; ++i) {
    all += Request("PUT", fmt::format("/mine/{}", i), fmt::format("v{}", i));
    all += Request("GET", fmt::format("/mine/{}", i));
    expected += std::string(kEmpty200) + Value(fmt::format("v{}", i));
  }
  RawClient client(PortOf(0));
  client.Send(all);
  RunUntil([&] {
    client.Poll();
    return client.received().size() >= expected.size();
  });
  EXPECT_EQ(client.received(), expected);
}

TEST_F(RelayTest, AResetReleasesWhatIsHeld) {
  Relay::Options options;
  options.kv_hold = std::chrono::minutes(1);
  Start(2, options);
  RawClient get = Send(0, "GET", "/global/1");
  AwaitRequests(1);
  HoldBack();
  RawClient put = Send(1, "PUT", "/global/1", "late");
  RawClient place = Send(0, "GET", "/rank_and_size/h:0");
  AwaitRequests(3);
  relay_->Reset(2);
  EXPECT_EQ(Await(get), kEmpty404);
  EXPECT_EQ(Await(put), kEmpty200);
  place.Poll();
  EXPECT_EQ(place.received(), "");
  EXPECT_EQ(Ask(1, "PUT", "/global/1", "later still"), kEmpty200);
  EXPECT_EQ(relay_->stats().stale_requests, 1u);
}

TEST_F(RelayTest, PlacesComeFromTheAssignment) {
  Start(2);
  EXPECT_EQ(Ask(1, "GET", "/rank_and_size/h:1"), Value("1,2,1,2,0,1"));
  EXPECT_EQ(Ask(1, "GET", "/rank_and_size/h:0"), Value(kRemovedFromJob));
  EXPECT_EQ(relay_->stats().refused_slots, 1u);
}

TEST_F(RelayTest, AddressesAreTakenFromTheirOwnerOnly) {
  Start(2);
  constexpr std::string_view kAddresses =
      "gAWVQwAAAAAAAAB9lIwEZXRoMJRdlIwIMTAuMC4wLjWUTbuchpRhc0Mga2tra2tra2tra2tra2tra2tra2tra2tra2tr"
      "a2tra2uUhpQu";
  // As Python's urllib sends it.
  RawClient client(PortOf(0));
  client.Send(
      fmt::format("PUT /worker_addresses/h:0 HTTP/1.1\r\nAccept-Encoding: identity\r\n"
                  "Content-Type: application/x-www-form-urlencoded\r\n"
                  "Content-Length: {}\r\nHost: 127.0.0.1:{}\r\n"
                  "User-Agent: Python-urllib/3.11\r\nConnection: close\r\n\r\n{}",
                  kAddresses.size(), PortOf(0), kAddresses));
  EXPECT_EQ(RunUntilClosed(client), Answer(200, "OK", "", /*closes=*/true));
  EXPECT_EQ(*store_.WorkerAddressesOf("h:0"), "eth0 10.0.0.5:40123\n");
  EXPECT_EQ(Ask(1, "PUT", "/worker_addresses/h:0", kAddresses).substr(0, 12), "HTTP/1.1 403");
  EXPECT_EQ(Ask(0, "PUT", "/worker_addresses/h:0", "Y29zCg==").substr(0, 12), "HTTP/1.1 400");
  EXPECT_EQ(Ask(0, "GET", "/worker_addresses/h:0"), kEmpty404);
}

TEST_F(RelayTest, AClosedWorkerCanNoLongerBeReached) {
  Start(2);
  RawClient held = Send(0, "GET", "/rank_and_size/h:0");
  EXPECT_EQ(Await(held), Value("0,2,0,2,0,1"));
  HoldBack();
  RawClient put = Send(0, "PUT", "/global/0", "last words");
  RawClient silent(PortOf(0));
  AwaitRequests(2);
  const uint16_t port = PortOf(0);
  relay_->CloseWorker(0);
  RunUntil([&] {
    put.Poll();
    return put.is_closed();
  });
  EXPECT_EQ(put.received(), "");
  EXPECT_FALSE(RawClient(port).is_connected());
  LetThrough();
  EXPECT_EQ(Ask(1, "PUT", "/global/1", "v"), kEmpty200);
}

TEST_F(RelayTest, WhatLiesInTheSocketOfAKilledWorkerNeverReachesTheNextRound) {
  Start(1);
  // Accepted by the kernel, not yet by us: as if it had been sent right before the SIGKILL.
  RawClient dead = Send(0, "PUT", "/global/0", "poison");
  relay_->CloseWorker(0);
  NextGeneration(1);
  EXPECT_EQ(Ask(0, "GET", "/other/x"), kEmpty404);
  EXPECT_EQ(store_.stored_bytes(), 0u);
  EXPECT_EQ(store_.stale_questions(), 0u) << "not even asked";
}

TEST_F(RelayTest, AClientThatLeavesEndsItsHeldRequest) {
  Relay::Options options;
  options.kv_hold = std::chrono::minutes(1);
  options.is_peer_checked = false;
  Start(1, options);
  for (int i = 0; i < 50; ++i) {
    RawClient client = Send(0, "GET", "/global/0");
    AwaitRequests(static_cast<uint64_t>(i) + 1);
    client.Close();
    // The next ones would get 503 if the earlier ones were still counted.
    RawClient last = Send(0, "GET", "/other/x");
    EXPECT_EQ(Await(last), kEmpty404) << i;
    AwaitRequests(static_cast<uint64_t>(i) + 2);
  }
  EXPECT_EQ(relay_->stats().over_limit, 0u);
}

TEST_F(RelayTest, APeerOfAnotherUserHasNoEffect) {
  if (::getuid() != 0) GTEST_SKIP() << "needs root to become somebody else";
  Start(1);
  const pid_t child = ::fork();
  if (child == 0) {
    // The relay runs as root, whose sockets are accepted; so does not this user's.
    if (::setgid(65534) != 0 || ::setuid(65534) != 0) ::_exit(3);
    RawClient get(PortOf(0));
    get.Send(Request("GET", "/global/0"));
    RawClient put(PortOf(0));
    put.Send(Request("PUT", "/global/0", "poison"));
    RawClient closed(PortOf(0));
    closed.Send(Request("PUT", "/global/0", "poison"));
    closed.Close();
    char byte = 0;
    const bool got = ::recv(get.fd(), &byte, 1, 0) > 0 || ::recv(put.fd(), &byte, 1, 0) > 0;
    ::_exit(got ? 1 : 0);
  }
  ASSERT_GT(child, 0);
  RunUntil([&] { return relay_->stats().refused_peers == 3; });
  int status = -1;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  EXPECT_EQ(status, 0);
  EXPECT_EQ(relay_->stats().requests, 0u);
  EXPECT_EQ(store_.stored_bytes(), 0u);
}

TEST_F(RelayTest, AnotherUsersConnectionsDoNotKeepAWorkerWaiting) {
  if (::getuid() != 0) GTEST_SKIP() << "needs root to become somebody else";
  ASSERT_TRUE(RaiseOpenFileLimit(4096).ok());
  Start(1);
  constexpr int kStrangers = 1100;  // more than the listener takes at a time
  Pipe ready = MakePipe().value();
  const pid_t child = ::fork();
  if (child == 0) {
    if (::setgid(65534) != 0 || ::setuid(65534) != 0) ::_exit(3);
    std::vector<RawClient> strangers;
    for (int i = 0; i < kStrangers; ++i) strangers.emplace_back(PortOf(0)).Send("G");
    (void)WriteAll(ready.write_end.get(), "!");
    for (;;) ::pause();
  }
  ASSERT_GT(child, 0);
  char byte = 0;
  ASSERT_EQ(::read(ready.read_end.get(), &byte, 1), 1);
  EXPECT_EQ(Ask(0, "PUT", "/global/0", "value"), kEmpty200);
  EXPECT_EQ(relay_->stats().refused_peers, uint64_t{kStrangers});
  ::kill(child, SIGKILL);
  EXPECT_EQ(::waitpid(child, nullptr, 0), child);
}

TEST_F(RelayTest, OpeningAWorkerAgainReplacesIt) {
  Start(1);
  const uint16_t old_port = PortOf(0);
  const Result<uint16_t> port = relay_->OpenWorker(0, "h:0", 1);
  ASSERT_TRUE(port.ok());
  EXPECT_FALSE(RawClient(old_port).is_connected() && *port != old_port);
}

TEST_F(RelayTest, ANewcomerArrivesOnceAndIsServedByTheNextReset) {
  Relay::Options options;
  options.is_mesh_kept = true;
  Start(1, options);
  const Result<uint16_t> port = relay_->OpenWorker(70'000, "h:1", 2);
  ASSERT_TRUE(port.ok());
  ports_.push_back(*port);
  EXPECT_EQ(relay_->GenerationOf(0), 1u);
  EXPECT_EQ(relay_->GenerationOf(70'000), 2u);
  EXPECT_EQ(relay_->GenerationOf(1), 0u);
  RawClient name = Send(1, "PUT", "/global/rank_1", "machine");
  RunUntil([&] { return !arrived_.empty(); });
  RawClient addresses = Send(1, "PUT", "/global/1", std::string(136, '\1'));
  HoldBack();
  RawClient place = Send(0, "GET", "/rank_and_size/h:0");
  AwaitRequests(3);
  EXPECT_TRUE(relay_->IsParked(0));
  EXPECT_FALSE(relay_->IsParked(70'000));
  LetThrough();
  EXPECT_EQ(Await(place), Value("0,1,0,1,0,1"));
  EXPECT_FALSE(relay_->IsParked(0));
  name.Poll();
  EXPECT_EQ(name.received(), "");
  EXPECT_EQ(relay_->mesh().problem(), "");
  KvAssignment assignment;
  assignment.generation = 2;
  assignment.Add("h", 0, 2, 0, 2, 0, 1);
  assignment.Add("h", 1, 2, 1, 2, 0, 1);
  store_.Reset(std::move(assignment));
  relay_->Reset(2);
  EXPECT_EQ(Await(name), kEmpty200);
  EXPECT_EQ(Await(addresses), kEmpty200);
  EXPECT_EQ(arrived_, std::vector<int>{70'000});
}

TEST_F(RelayTest, TheRelayMayGoWhileRequestsAreHeld) {
  Start(2);
  HoldBack();
  RawClient put = Send(0, "PUT", "/global/0", "v");
  RawClient get = Send(1, "GET", "/global/0");
  AwaitRequests(2);
  relay_.reset();
  RunUntil([&] {
    put.Poll();
    get.Poll();
    return put.is_closed() && get.is_closed();
  });
  EXPECT_EQ(put.received() + get.received(), "");
}

}  // namespace
}  // namespace hvdray
