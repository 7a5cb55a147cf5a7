// SPDX-License-Identifier: Apache-2.0
// The session of `hvdray serve` with its client, over real sockets; the launcher behind it is
// played by the test. Not here: the cutting of the stream and its violations (control_link_test),
// the reader of each request (control_messages_test), whole conversations (serve_transcript_test).
#include "launcher/engine/serve_session.h"

#include <fmt/format.h>
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <optional>

#include "base/message_stream.h"
#include "base/passed_descriptors.h"
#include "base/sealed_memory.h"
#include "base/unix_socket.h"
#include "tests/fakes/loop_runner.h"
#include "tests/fakes/temp_directory.h"
#include "tests/unit/report/sample_job.h"

namespace hvdray {
namespace {

constexpr Duration kLong = std::chrono::hours(1);
constexpr size_t kMiB = size_t{1} << 20;

/// The client's end of a session.
class Client {
 public:
  Client(Loop& loop, UniqueFd socket) : loop_(loop), socket_(std::move(socket)) {}
  Client(const Client&) = delete;
  Client& operator=(const Client&) = delete;

  void Say(const Json& head, const std::string& blob = {}) { SayText(MessageLine(head) + blob); }
  /// What the session does not read for now stays unsaid.
  void SayText(std::string text) {
    while (!text.empty()) {
      const ssize_t n =
          ::send(socket_.get(), text.data(), text.size(), MSG_DONTWAIT | MSG_NOSIGNAL);
      Settle(loop_);
      if (n <= 0) break;
      text.erase(0, static_cast<size_t>(n));
    }
    unsaid_ = std::move(text);
  }
  /// With a descriptor.
  void Pass(const Json& head, const UniqueFd& fd) {
    const int descriptor = fd.get();
    SendWithDescriptors(socket_.get(), MessageLine(head), {&descriptor, 1});
    Settle(loop_);
  }
  /// The next message; null: there is none yet.
  Json Hear() {
    Receive();
    if (heard_.empty()) return {};
    Json message = std::move(heard_.front());
    heard_.erase(heard_.begin());
    return message;
  }
  /// It has been told all, and the connection is closed.
  bool HasEnded() {
    Receive();
    return has_ended_ && heard_.empty();
  }
  void Hello() {
    Say({{"type", "hello"}, {"protocol", 1}, {"client", "test"}});
    EXPECT_EQ(Hear()["type"], "hello");
  }
  void Leave() {
    CloseSocket();
    Settle(loop_);
  }
  /// The session has not been told yet.
  void CloseSocket() { socket_.Reset(); }
  bool is_unsaid() const { return !unsaid_.empty(); }

 private:
  void Receive() {
    Settle(loop_);
    std::string bytes(kMiB, '\0');
    while (socket_.is_valid()) {
      const ssize_t n = ::recv(socket_.get(), bytes.data(), bytes.size(), MSG_DONTWAIT);
      if (n == 0) has_ended_ = true;
      if (n <= 0) return;
      EXPECT_TRUE(reader_.Feed(ByteView(bytes.data(), static_cast<size_t>(n))).ok());
      Settle(loop_);
    }
  }

  Loop& loop_;
  UniqueFd socket_;
  std::string unsaid_;
  std::vector<Json> heard_;
  bool has_ended_ = false;
  MessageReader reader_{{.on_message =
                             [this](std::string_view, const Json& head, uint64_t) {
                               heard_.push_back(head);
                               return Status();
                             },
                         .on_blob = [](ByteView, uint64_t) { return Status(); }}};
};

/// What the session asks of the launcher is noted in `calls_`.
class ServeSessionTest : public testing::Test,
                         protected JobClient::Owner,
                         protected JobClient::Workers {
 protected:
  ServeOptions Options() const {
    ServeOptions options;
    options.grace = std::chrono::seconds(5);
    options.job_id = "job";
    options.build = "hvdray test";
    return options;
  }

  /// A session with a client that has said hello.
  Client& Begin() {
    auto [ours, theirs] = MakeSocketPair().value();
    ServeOptions options = Options();
    options.socket = std::move(ours);
    session_ = ServeSession::Open(*loop_, std::move(options), *this, *this).value();
    client_.emplace(*loop_, std::move(theirs));
    client_->Hello();
    return *client_;
  }

  /// One that listens at `path_`.
  void Listen(Duration linger) {
    ServeOptions options = Options();
    options.path = path_;
    options.linger = linger;
    session_ = ServeSession::Open(*loop_, std::move(options), *this, *this).value();
  }
  Client Connect() {
    UniqueFd fd;
    EXPECT_EQ(ConnectUnix(path_, fd), 0);
    Settle(*loop_);
    return {*loop_, std::move(fd)};
  }

  /// What the session has asked since the last time.
  std::vector<std::string> Calls() {
    Settle(*loop_);
    return std::exchange(calls_, {});
  }
  using Lines = std::vector<std::string>;

  static RankInfo Place(int rank, std::string host = "a") {
    return {.host = std::move(host), .rank = rank, .size = 2, .local_rank = rank};
  }
  /// Gang `gang` has begun, with two workers; `client` has heard so.
  void Run(Client& client, int64_t gang) {
    client.Say({{"type", "start"}, {"gang", gang}, {"np", 2}});
    session_->OnNoWorkers();
    for (const int worker : {0, 1}) session_->OnWorker(worker, Place(worker));
    session_->OnMembers({Place(0), Place(1)}, {0, 1});
    for (const int worker : {0, 1}) {
      session_->OnWorkerStarted(worker, 100U + static_cast<uint32_t>(worker));
      session_->OnHello(worker, Json::object());
    }
    EXPECT_EQ(client.Hear()["type"], "ready");
    Calls();
  }
  /// `client` is refused what it asks, in these words; nothing else happens.
  void ExpectRefused(Client& client, const Json& request, const std::string& words) {
    client.Say(request);
    const Json refused = client.Hear();
    ASSERT_EQ(refused.value("type", ""), "refused") << DumpJson(refused);
    EXPECT_EQ(refused["about"], request["type"]);
    EXPECT_NE(refused["message"].get<std::string>().find(words), std::string::npos)
        << refused["message"];
    EXPECT_EQ(Calls(), Lines());
  }

  std::unique_ptr<Loop> loop_ = Loop::Create().value();
  TempDirectory directory_;
  std::string path_ = directory_ / "control";
  std::vector<std::string> calls_;
  Status start_answer_;
  Status hosts_answer_;
  Status notify_answer_;
  Status warm_answer_;
  bool is_write_noted_ = true;
  int put_room_ = -1;  // pieces; -1: any number
  bool is_memory_shared_ = true;
  size_t queued_bytes_ = 0;
  int rooms_ = 0;
  std::function<void()> on_room_;
  std::vector<std::function<void()>> flushes_;
  std::optional<Client> client_;
  std::unique_ptr<ServeSession> session_;

 private:
  Status StartGang(const control::Start& start) override {
    Note(fmt::format("start {} np={}", start.gang, start.np));
    return start_answer_;
  }
  void StopGang(Duration grace, bool is_sigint_first) override {
    Note(fmt::format("dismiss {} {}", Seconds(grace).count(),
                     is_sigint_first ? "SIGINT" : "SIGTERM"));
  }
  void Signal(int worker, int signo) override { Note(fmt::format("signal {} {}", worker, signo)); }
  void Write(int worker, std::shared_ptr<const std::string> bytes) override {
    if (is_write_noted_) Note(fmt::format("write {} {}", worker, *bytes));
  }
  void Give(int worker, int64_t object) override {
    Note(fmt::format("give {} {}", worker, object));
  }
  void PutObject(const wire::ObjectPiece& piece) override {
    Note(
        fmt::format("put {} {}+{}/{}", piece.object, piece.offset, piece.bytes.size(), piece.size));
    if (put_room_ > 0) --put_room_;
  }
  bool MapObject(int64_t object, const std::shared_ptr<const UniqueFd>& memory) override {
    Note(fmt::format("map {} {}", object, ReadMemory(memory->get(), 0, 9).value()));
    return is_memory_shared_;
  }
  void DropObject(int64_t object) override { Note(fmt::format("drop {}", object)); }
  bool HasObjectRoom() override { return put_room_ != 0; }
  Status TakeHosts(const control::Hosts& hosts) override {
    Note(fmt::format("hosts {}{}", hosts.hosts.size(), hosts.is_final ? " final" : ""));
    return hosts_answer_;
  }
  Status NotifyWorker(int worker, int64_t timestamp) override {
    Note(fmt::format("notify {} {}", worker, timestamp));
    return notify_answer_;
  }
  Status WarmHosts(const control::Warm& warm) override {
    Note(fmt::format("warm {}", warm.preload.front()));
    return warm_answer_;
  }
  void OnceWritten(std::function<void()> done) override {
    Note("flush");
    flushes_.push_back(std::move(done));
  }
  size_t QueuedBytes() const override { return queued_bytes_; }
  void OnClientRoom() override {
    ++rooms_;
    if (on_room_) on_room_();
  }
  void OnClientsGone() override { Note("end"); }
  void Note(std::string line) { calls_.push_back(std::move(line)); }
};

// ---- greeting

TEST_F(ServeSessionTest, HelloIsAnsweredWithWhoServes) {
  auto [ours, theirs] = MakeSocketPair().value();
  ServeOptions options = Options();
  options.socket = std::move(ours);
  session_ = ServeSession::Open(*loop_, std::move(options), *this, *this).value();
  Client client(*loop_, std::move(theirs));
  client.Say({{"type", "hello"}, {"protocol", 1}});
  EXPECT_EQ(client.Hear(), (Json{{"type", "hello"},
                                 {"protocol", 1},
                                 {"build", "hvdray test"},
                                 {"job_id", "job"},
                                 {"pid", ::getpid()}}));
}

TEST_F(ServeSessionTest, EventsBeforeTheFirstHelloFollowItsAnswer) {
  auto [ours, theirs] = MakeSocketPair().value();
  ServeOptions options = Options();
  options.socket = std::move(ours);
  session_ = ServeSession::Open(*loop_, std::move(options), *this, *this).value();
  Client client(*loop_, std::move(theirs));
  session_->event_sink()({{"event", "host_ready"}});
  EXPECT_EQ(client.Hear(), Json());
  client.Hello();
  EXPECT_EQ(client.Hear(), (Json{{"type", "event"}, {"event", "host_ready"}}));
  session_->event_sink()({{"event", "host_lost"}});
  EXPECT_EQ(client.Hear(), (Json{{"type", "event"}, {"event", "host_lost"}}));
}

TEST_F(ServeSessionTest, WhatIsNoRequestEndsTheSession) {
  Client& client = Begin();
  client.SayText("nonsense\n");
  const Json refused = client.Hear();
  EXPECT_EQ(refused["type"], "refused");
  EXPECT_TRUE(refused["about"].is_null());
  EXPECT_EQ(Calls(), Lines{"end"});
  session_->Close(125);
  EXPECT_EQ(client.Hear(), (Json{{"type", "bye"}, {"exit", 125}}));
}

TEST_F(ServeSessionTest, AClientThatIsRefusedAllHearsWhyAndBye) {
  auto [ours, theirs] = MakeSocketPair().value();
  Client client(*loop_, std::move(theirs));
  RefuseClient(ours.get(), {ErrorCode::kNotEnoughSlots, "no slots", "wait"}, 2);
  ours.Reset();
  EXPECT_EQ(client.Hear(), (Json{{"type", "refused"},
                                 {"about", nullptr},
                                 {"code", "HVD-E0103"},
                                 {"message", "no slots"},
                                 {"hint", "wait"}}));
  EXPECT_EQ(client.Hear(), (Json{{"type", "bye"}, {"exit", 2}}));
  EXPECT_TRUE(client.HasEnded());
}

// ---- gangs

TEST_F(ServeSessionTest, AGangIsReadyOnceAllWorkersRunAndHaveSaidHello) {
  Client& client = Begin();
  client.Say({{"type", "start"}, {"gang", 3}, {"np", 2}, {"data", 21}});
  EXPECT_EQ(Calls(), Lines{"start 3 np=2"});
  session_->OnNoWorkers();
  session_->OnWorker(0, Place(0));
  session_->OnWorker(1, Place(1));
  EXPECT_EQ(Calls(), (Lines{"write 0 {\"type\":\"data\",\"data\":21}\n",
                            "write 1 {\"type\":\"data\",\"data\":21}\n"}));
  session_->OnMembers({Place(0), Place(1)}, {0, 1});
  session_->OnHello(1, {{"python", "3.11.2"}});
  session_->OnWorkerStarted(1, 101);
  session_->OnWorkerStarted(0, 100);
  EXPECT_EQ(client.Hear(), Json());
  session_->OnHello(0, Json::object());
  const Json ready = client.Hear();
  EXPECT_EQ(ready["gang"], 3);
  ASSERT_EQ(ready["workers"].size(), 2U);
  EXPECT_EQ(ready["workers"][1], (Json{{"rank", 1},
                                       {"host", "a"},
                                       {"local_rank", 1},
                                       {"worker", 1},
                                       {"pid", 101},
                                       {"python", "3.11.2"}}));
  EXPECT_TRUE(ready["workers"][0]["python"].is_null());
  session_->OnHello(7, Json::object());  // of no worker
  EXPECT_EQ(client.Hear(), Json()) << "told once";
}

TEST_F(ServeSessionTest, ARestartGivesTheDataAgainAndIsReadyAgain) {
  Client& client = Begin();
  client.Say({{"type", "start"}, {"gang", 1}, {"blob", 3}}, "abc");
  EXPECT_EQ(Calls(), Lines{"start 1 np=0"});
  for (const uint32_t pid : {100U, 200U}) {
    session_->OnNoWorkers();
    session_->OnWorker(0, Place(0));
    EXPECT_EQ(Calls(), Lines{"write 0 {\"type\":\"data\",\"data\":null,\"blob\":3}\nabc"});
    session_->OnMembers({Place(0)}, {0});
    session_->OnWorkerStarted(0, pid);
    session_->OnHello(0, Json::object());
    EXPECT_EQ(client.Hear()["workers"][0]["pid"], pid);
  }
}

TEST_F(ServeSessionTest, ANewcomerTakesTheRankOfAnotherAndTheNextGenerationIsTold) {
  Client& client = Begin();
  Run(client, 1);
  session_->OnWorker(7, Place(1, "b"));
  session_->OnMember(7);
  session_->OnWorkerStarted(7, 107);
  EXPECT_EQ(client.Hear(), Json());
  session_->OnHello(7, Json::object());
  const Json ready = client.Hear();
  EXPECT_EQ(ready["workers"][1]["worker"], 7);
  EXPECT_EQ(ready["workers"][1]["host"], "b");
  client.Say({{"type", "send"}, {"gang", 1}, {"to", {1}}, {"data", 1}});
  EXPECT_EQ(Calls(), Lines{"write 7 {\"type\":\"data\",\"data\":1}\n"});
  // Ranks change: what a worker says is told with the present one.
  session_->OnMembers({Place(0, "b")}, {7});
  EXPECT_EQ(client.Hear()["workers"].size(), 1U);
  session_->OnData(7, "hi", {}, 0, 0);
  EXPECT_EQ(client.Hear(),
            (Json{{"type", "data"}, {"gang", 1}, {"worker", 7}, {"rank", 0}, {"data", "hi"}}));
}

TEST_F(ServeSessionTest, NumbersOfGangsRiseAndOneLivesAtATime) {
  Client& client = Begin();
  Run(client, 5);
  ExpectRefused(client, {{"type", "start"}, {"gang", 6}}, "gang 5 is still running");
  session_->OnStopped(FullReport());
  EXPECT_EQ(client.Hear()["type"], "stopped");
  ExpectRefused(client, {{"type", "start"}, {"gang", 5}}, "gang numbers must increase (5 after 5)");
  client.Say({{"type", "start"}, {"gang", 6}});
  EXPECT_EQ(Calls(), Lines{"start 6 np=0"});
}

TEST_F(ServeSessionTest, AStartThatTheLauncherRefusesLeavesNoGang) {
  Client& client = Begin();
  start_answer_ = Status(ErrorCode::kNotEnoughSlots, "2 slots", "more hosts");
  client.Say({{"type", "start"}, {"gang", 1}});
  EXPECT_EQ(client.Hear(), (Json{{"type", "refused"},
                                 {"about", "start"},
                                 {"code", "HVD-E0103"},
                                 {"message", "2 slots"},
                                 {"hint", "more hosts"}}));
  start_answer_ = {};
  client.Say({{"type", "start"}, {"gang", 2}});
  session_->OnRefused({ErrorCode::kConnectTimeout, "too late"});
  EXPECT_EQ(client.Hear()["message"], "too late");
  Calls();
  client.Say({{"type", "start"}, {"gang", 3}});
  EXPECT_EQ(Calls(), Lines{"start 3 np=0"});
}

TEST_F(ServeSessionTest, RequestsForAGangThatDoesNotRunAreRefused) {
  Client& client = Begin();
  ExpectRefused(client, {{"type", "send"}, {"gang", 1}, {"to", "all"}}, "gang 1 does not run");
  ExpectRefused(client, {{"type", "signal"}, {"gang", 1}, {"to", "all"}, {"signo", 10}},
                "gang 1 does not run");
  ExpectRefused(client, {{"type", "stop"}, {"gang", 1}}, "gang 1 was not started");
  client.Say({{"type", "start"}, {"gang", 1}});
  Calls();
  ExpectRefused(client, {{"type", "send"}, {"gang", 1}, {"to", "all"}}, "gang 1 does not run");
}

TEST_F(ServeSessionTest, RequestsReachTheRanksThatTheyName) {
  Client& client = Begin();
  Run(client, 1);
  client.Say({{"type", "send"}, {"gang", 1}, {"to", "all"}, {"data", 1}});
  EXPECT_EQ(Calls(), (Lines{"write 0 {\"type\":\"data\",\"data\":1}\n",
                            "write 1 {\"type\":\"data\",\"data\":1}\n"}));
  client.Say({{"type", "signal"}, {"gang", 1}, {"to", {1}}, {"signo", 10}});
  EXPECT_EQ(Calls(), Lines{"signal 1 10"});
  ExpectRefused(client, {{"type", "send"}, {"gang", 1}, {"to", {0, 2}}}, "gang 1 has no rank 2");
  ExpectRefused(client, {{"type", "signal"}, {"gang", 2}, {"to", "all"}, {"signo", 10}},
                "gang 2 does not run");
}

TEST_F(ServeSessionTest, NoticesReachTheRanksThatTheyNameUnlessTheLauncherRefusesThem) {
  Client& client = Begin();
  ExpectRefused(client, {{"type", "notify"}, {"gang", 1}, {"to", "all"}, {"timestamp", 7}},
                "gang 1 does not run");
  Run(client, 1);
  client.Say({{"type", "notify"}, {"gang", 1}, {"to", {1}}, {"timestamp", 7}});
  EXPECT_EQ(Calls(), Lines{"notify 1 7"});
  notify_answer_ = {ErrorCode::kUsage, "it has not registered for notices"};
  client.Say({{"type", "notify"}, {"gang", 1}, {"to", "all"}, {"timestamp", 8}});
  EXPECT_EQ(Calls(), (Lines{"notify 0 8", "notify 1 8"})) << "one may take them, another not";
  EXPECT_EQ(client.Hear()["message"], "it has not registered for notices");
  EXPECT_EQ(client.Hear(), Json()) << "refused once";
}

TEST_F(ServeSessionTest, AStopHasItsOwnGraceOrThatOfTheSession) {
  Client& client = Begin();
  Run(client, 1);
  client.Say({{"type", "stop"}, {"gang", 1}, {"grace_s", 60}, {"interrupt", true}});
  client.Say({{"type", "stop"}, {"gang", 1}});
  client.Say({{"type", "stop"}, {"gang", 1}, {"grace_s", 0}});
  EXPECT_EQ(Calls(), (Lines{"dismiss 60 SIGINT", "dismiss 5 SIGTERM", "dismiss 0 SIGTERM"}));
  session_->OnStopped(FullReport());
  EXPECT_EQ(client.Hear()["type"], "stopped");
  client.Say({{"type", "stop"}, {"gang", 1}});
  EXPECT_EQ(Calls(), Lines());
  EXPECT_EQ(client.Hear(), Json()) << "no error: the client had not read of the end";
}

TEST_F(ServeSessionTest, StoppedHasTheKeysOfTheReport) {
  Client& client = Begin();
  Run(client, 4);
  session_->OnStopped(FullReport());
  const Json stopped = client.Hear();
  std::vector<std::string> keys;
  for (const auto& item : stopped.items()) keys.push_back(item.key());
  EXPECT_EQ(keys, (Lines{"type", "gang", "exit", "first_failure", "earlier_failures", "restarts",
                         "swept", "workers"}));
  EXPECT_EQ(stopped["gang"], 4);
  EXPECT_EQ(stopped["exit"]["code"], 7);
  EXPECT_EQ(stopped["first_failure"]["rank"], 2);
}

TEST_F(ServeSessionTest, WhatWorkersSayIsToldWithGangAndRank) {
  Client& client = Begin();
  Run(client, 1);
  session_->OnData(1, {{"a", 1}}, "abc", 0, 5);
  session_->OnData(1, {{"a", 1}}, "de", 3, 5);
  session_->OnReport(0, 2, {{"loss", 0.5}});
  EXPECT_EQ(client.Hear(), (Json{{"type", "data"},
                                 {"gang", 1},
                                 {"worker", 1},
                                 {"rank", 1},
                                 {"at", 0},
                                 {"of", 5},
                                 {"data", {{"a", 1}}},
                                 {"blob", 3}}));
  const Json second = client.Hear();
  EXPECT_EQ(second["at"], 3);
  EXPECT_FALSE(second.contains("data")) << "the first piece alone has it";
  EXPECT_EQ(client.Hear(), (Json{{"type", "report"},
                                 {"gang", 1},
                                 {"worker", 0},
                                 {"rank", 0},
                                 {"n", 2},
                                 {"metrics", {{"loss", 0.5}}}}));
}

// ---- hosts and warm

TEST_F(ServeSessionTest, HostsAndWarmAreTheLaunchersToAnswer) {
  Client& client = Begin();
  client.Say({{"type", "hosts"}, {"hosts", {"a:1", "b:2"}}, {"final", true}});
  client.Say({{"type", "warm"}, {"preload", {"torch"}}});
  EXPECT_EQ(Calls(), (Lines{"hosts 2 final", "warm torch"}));
  session_->OnWarmed("a", {.is_warm = false, .why = "no torch", .took_ms = 1500}, 1);
  EXPECT_EQ(client.Hear(), (Json{{"type", "warmed"},
                                 {"host", "a"},
                                 {"is_warm", false},
                                 {"why", "no torch"},
                                 {"took_s", 1.5},
                                 {"left", 1}}));
  hosts_answer_ = warm_answer_ = Status(ErrorCode::kUsage, "not now");
  client.Say({{"type", "hosts"}, {"hosts", Json::array()}});
  EXPECT_EQ(client.Hear()["about"], "hosts");
  client.Say({{"type", "warm"}, {"preload", {"torch"}}});
  EXPECT_EQ(client.Hear()["about"], "warm");
}

// ---- objects

TEST_F(ServeSessionTest, AnObjectGoesToHostsInPiecesAndThenToWorkersBeforeTheData) {
  Client& client = Begin();
  const std::string bytes(wire::kMaxObjectPiece + 10, 'x');
  // In one read of the socket, and in several.
  client.Say({{"type", "put"}, {"object", 1}, {"blob", bytes.size()}}, bytes);
  uint64_t got = 0;
  for (const std::string& call : Calls()) {
    uint64_t offset = 0;
    uint64_t size = 0;
    uint64_t of = 0;
    ASSERT_EQ(std::sscanf(call.c_str(), "put 1 %lu+%lu/%lu", &offset, &size, &of), 3) << call;
    EXPECT_EQ(offset, got);
    EXPECT_LE(size, wire::kMaxObjectPiece);
    EXPECT_EQ(of, bytes.size());
    got += size;
  }
  EXPECT_EQ(got, bytes.size());
  client.Say({{"type", "put"}, {"object", 2}});
  EXPECT_EQ(Calls(), Lines{"put 2 0+0/0"});
  client.Say({{"type", "start"}, {"gang", 1}, {"objects", {1, 2}}, {"data", 5}});
  session_->OnWorker(0, Place(0));
  EXPECT_EQ(Calls(), (Lines{"start 1 np=0", "give 0 1", "give 0 2",
                            "write 0 {\"type\":\"data\",\"data\":5}\n"}));
  session_->OnMembers({Place(0)}, {0});
  client.Say({{"type", "send"}, {"gang", 1}, {"to", {0}}, {"objects", {2}}, {"data", 6}});
  EXPECT_EQ(Calls(), (Lines{"give 0 2", "write 0 {\"type\":\"data\",\"data\":6}\n"}));
}

TEST_F(ServeSessionTest, MemoryIsMappedWhereAllHostsShareIt) {
  Client& client = Begin();
  client.Pass({{"type", "put"}, {"object", 1}, {"memory", true}},
              MakeSealedMemory("test", "content").value());
  client.Pass({{"type", "put"}, {"object", 2}, {"memory", true}},
              MakeSealedMemory("test", "").value());
  EXPECT_EQ(Calls(), Lines({"map 1 content", "put 2 0+0/0"}));
}

TEST_F(ServeSessionTest, HostsThatDontShareMemoryGetItsPiecesAsTheyHaveRoom) {
  Client& client = Begin();
  is_memory_shared_ = false;
  put_room_ = 1;
  const std::string bytes(wire::kMaxObjectPiece + 2, 'x');
  client.Pass({{"type", "put"}, {"object", 3}, {"memory", true}},
              MakeSealedMemory("test", bytes).value());
  client.Say({{"type", "put"}, {"object", 4}}, "");
  EXPECT_EQ(Calls(), Lines({"map 3 xxxxxxxxx", "put 3 0+65536/65538"}));
  put_room_ = -1;
  session_->OnTaken();
  EXPECT_EQ(Calls(), Lines({"put 3 65536+2/65538", "put 4 0+0/0"}));
}

TEST_F(ServeSessionTest, AFlushIsAnsweredOnceAllIsWritten) {
  Client& client = Begin();
  client.Say({{"type", "flush"}});
  client.Say({{"type", "flush"}});
  EXPECT_EQ(Calls(), (Lines{"flush", "flush"}));
  EXPECT_EQ(client.Hear(), Json());
  for (const auto& done : std::exchange(flushes_, {})) {
    done();
    EXPECT_EQ(client.Hear(), (Json{{"type", "flushed"}}));
  }
}

TEST_F(ServeSessionTest, AFlushIsTheBusinessOfTheClientThatAsked) {
  Listen(std::chrono::minutes(5));
  {
    Client first = Connect();
    first.Hello();
    first.Say({{"type", "flush"}});
  }
  Settle(*loop_);
  Client second = Connect();
  second.Hello();
  for (const auto& done : flushes_) done();
  EXPECT_EQ(second.Hear(), Json());
}

TEST_F(ServeSessionTest, MemoryThatMayChangeIsRefused) {
  Client& client = Begin();
  const UniqueFd open(::memfd_create("test", MFD_CLOEXEC | MFD_ALLOW_SEALING));
  client.Pass({{"type", "put"}, {"object", 1}, {"memory", true}}, open);
  EXPECT_EQ(client.Hear()["message"], "the descriptor is not sealed memory");
  client.Pass({{"type", "put"}, {"object", 1}, {"memory", true}},
              MakeSealedMemory("test", "good").value());
  EXPECT_EQ(Calls(), Lines({"map 1 good"})) << "the number is not used up";
}

TEST_F(ServeSessionTest, ObjectsThatAreNotThereAreRefused) {
  Client& client = Begin();
  client.Say({{"type", "put"}, {"object", 3}, {"blob", 1}}, "x");
  Calls();
  ExpectRefused(client, {{"type", "start"}, {"gang", 1}, {"objects", {2}}}, "there is no object 2");
  client.Say({{"type", "put"}, {"object", 3}, {"blob", 70'000}}, std::string(70'000, 'y'));
  EXPECT_NE(
      client.Hear()["message"].get<std::string>().find("object numbers must increase (3 after 3)"),
      std::string::npos);
  EXPECT_EQ(Calls(), Lines()) << "the bytes that were refused go nowhere";
  client.Say({{"type", "start"}, {"gang", 1}, {"objects", {3}}});
  session_->OnWorker(0, Place(0));
  session_->OnMembers({Place(0)}, {0});
  Calls();
  ExpectRefused(client, {{"type", "send"}, {"gang", 1}, {"to", {0}}, {"objects", {9}}},
                "there is no object 9");
  ExpectRefused(client, {{"type", "drop"}, {"object", 3}},
                "object 3 is part of the start of gang 1");
  session_->OnStopped(FullReport());
  client.Hear();
  client.Say({{"type", "drop"}, {"object", 3}});
  client.Say({{"type", "drop"}, {"object", 3}});
  EXPECT_EQ(Calls(), Lines{"drop 3"});
  ExpectRefused(client, {{"type", "start"}, {"gang", 2}, {"objects", {3}}}, "there is no object 3");
}

TEST_F(ServeSessionTest, NothingOvertakesTheBytesOfAnObjectButAStop) {
  Client& client = Begin();
  Run(client, 1);
  put_room_ = 0;
  client.Say({{"type", "put"}, {"object", 1}, {"blob", 3}}, "abc");
  // The rest of what was read with it; now the client is not read.
  EXPECT_EQ(Calls(), Lines());
  client.Say({{"type", "send"}, {"gang", 1}, {"to", {0}}, {"objects", {1}}, {"data", 1}});
  EXPECT_EQ(Calls(), Lines());
  put_room_ = 1;
  session_->OnTaken();
  EXPECT_EQ(Calls(),
            (Lines{"put 1 0+3/3", "give 0 1", "write 0 {\"type\":\"data\",\"data\":1}\n"}));

  put_room_ = 0;
  client.SayText(MessageLine({{"type", "put"}, {"object", 2}, {"blob", 3}}) + "def" +
                 MessageLine({{"type", "send"}, {"gang", 1}, {"to", {0}}, {"objects", {2}}}) +
                 MessageLine({{"type", "put"}, {"object", 3}, {"blob", 1}}) + "g" +
                 MessageLine({{"type", "drop"}, {"object", 2}}) +
                 MessageLine({{"type", "stop"}, {"gang", 1}}));
  EXPECT_EQ(Calls(), Lines{"dismiss 5 SIGTERM"});
  put_room_ = 1;
  session_->OnTaken();
  EXPECT_EQ(Calls(), Lines{"put 2 0+3/3"});
  put_room_ = 1;
  session_->OnTaken();
  EXPECT_EQ(Calls(), (Lines{"put 3 0+1/1", "give 0 2",
                            "write 0 {\"type\":\"data\",\"data\":null}\n", "drop 2"}));
}

TEST_F(ServeSessionTest, AStartThatWaitsForObjectsBeginsWhenTheLastGangHasEnded) {
  Client& client = Begin();
  Run(client, 1);
  put_room_ = 0;
  client.SayText(MessageLine({{"type", "put"}, {"object", 1}, {"blob", 1}}) + "x" +
                 MessageLine({{"type", "start"}, {"gang", 2}, {"objects", {1}}}));
  put_room_ = -1;
  session_->OnStopped(FullReport());
  EXPECT_EQ(client.Hear()["type"], "stopped");
  EXPECT_EQ(Calls(), (Lines{"put 1 0+1/1", "start 2 np=0"}));
}

TEST_F(ServeSessionTest, AClientIsNotReadWhileHostsHaveNoRoomForItsObject) {
  Client& client = Begin();
  put_room_ = 2;
  const std::string bytes(4 * kMiB, 'x');
  client.Say({{"type", "put"}, {"object", 1}, {"blob", bytes.size()}}, bytes);
  EXPECT_TRUE(client.is_unsaid());
  EXPECT_EQ(Calls().size(), 2U);
}

TEST_F(ServeSessionTest, AnObjectThatAHostCantHoldEndsTheGangAndIsRefusedFromThenOn) {
  Client& client = Begin();
  client.Say({{"type", "put"}, {"object", 1}, {"blob", 1}}, "x");
  Run(client, 1);
  session_->OnObjectProblem(1, "b", ENOMEM);
  session_->OnObjectProblem(1, "c", ENOMEM);
  session_->OnObjectProblem(9, "c", ENOMEM);  // dropped meanwhile
  EXPECT_EQ(Calls(), Lines{"dismiss 5 SIGTERM"});
  const Json refused = client.Hear();
  EXPECT_EQ(refused["about"], "put");
  EXPECT_EQ(refused["code"], ErrorLabel(ErrorCode::kOutOfResources));
  EXPECT_EQ(refused["message"], "host b can't hold object 1: Cannot allocate memory");
  EXPECT_EQ(client.Hear(), Json()) << "said once";
  ExpectRefused(client, {{"type", "send"}, {"gang", 1}, {"to", {0}}, {"objects", {1}}},
                "a host can't hold object 1");
  session_->OnStopped(FullReport());
  client.Hear();
  ExpectRefused(client, {{"type", "start"}, {"gang", 2}, {"objects", {1}}},
                "a host can't hold object 1");
  client.Say({{"type", "drop"}, {"object", 1}});
  EXPECT_EQ(Calls(), Lines{"drop 1"});
  ExpectRefused(client, {{"type", "start"}, {"gang", 2}, {"objects", {1}}}, "there is no object 1");
}

// ---- pace

TEST_F(ServeSessionTest, AClientIsNotReadWhileWorkersTakeNothing) {
  Client& client = Begin();
  Run(client, 1);
  is_write_noted_ = false;
  const Json send = {{"type", "send"}, {"gang", 1}, {"to", {0}}, {"data", 1}};
  queued_bytes_ = 9 * kMiB;
  client.Say(send);
  client.Say({{"type", "signal"}, {"gang", 1}, {"to", {0}}, {"signo", 10}});
  EXPECT_EQ(Calls(), Lines()) << "not read";
  queued_bytes_ = 5 * kMiB;
  session_->OnTaken();
  EXPECT_EQ(Calls(), Lines()) << "read again only once much less waits";
  queued_bytes_ = 3 * kMiB;
  session_->OnTaken();
  EXPECT_EQ(Calls(), Lines{"signal 0 10"});
}

TEST_F(ServeSessionTest, AClientThatHangsUpWhileItIsNotReadIsNoticed) {
  Client& client = Begin();
  Run(client, 1);
  is_write_noted_ = false;
  queued_bytes_ = 9 * kMiB;
  client.Say({{"type", "send"}, {"gang", 1}, {"to", {0}}, {"data", 1}});
  client.Say({{"type", "signal"}, {"gang", 1}, {"to", {0}}, {"signo", 10}});
  EXPECT_EQ(Calls(), Lines()) << "not read";
  client.Leave();
  EXPECT_EQ(Calls(), (Lines{"dismiss 5 SIGTERM", "end"}));
}

TEST_F(ServeSessionTest, DataWithoutCreditFillsTheWindow) {
  Client& client = Begin();
  Run(client, 1);
  const std::string piece(wire::kMaxObjectPiece, 'x');
  int64_t sent = 0;
  while (session_->HasRoom() && sent < 2 * kControlWindowBytes) {
    session_->OnData(0, nullptr, piece, 0, piece.size());
    sent += static_cast<int64_t>(piece.size());
    while (!client.Hear().is_null()) continue;
  }
  EXPECT_FALSE(session_->HasRoom());
  EXPECT_LE(sent, kControlWindowBytes);
  EXPECT_GT(sent, kControlWindowBytes - static_cast<int64_t>(kMiB));
  rooms_ = 0;
  client.Say({{"type", "credit"}, {"bytes", kMiB}});
  EXPECT_EQ(rooms_, 1);
  EXPECT_TRUE(session_->HasRoom());
}

// ---- the end of the client

TEST_F(ServeSessionTest, ByeEndsTheGangAndThenTheSession) {
  Client& client = Begin();
  client.Say({{"type", "put"}, {"object", 1}, {"blob", 1}}, "x");
  Run(client, 1);
  rooms_ = 0;
  client.Say({{"type", "bye"}});
  EXPECT_EQ(Calls(), (Lines{"dismiss 5 SIGTERM", "drop 1", "end"}));
  EXPECT_EQ(rooms_, 1) << "workers do not wait for who has gone";
  session_->OnStopped(FullReport());
  session_->Close(0);
  EXPECT_EQ(client.Hear()["type"], "stopped");
  EXPECT_EQ(client.Hear(), (Json{{"type", "bye"}, {"exit", 0}}));
}

TEST_F(ServeSessionTest, WhatWaitsForRoomGoesWithTheClient) {
  Client& client = Begin();
  put_room_ = 0;
  client.SayText(MessageLine({{"type", "put"}, {"object", 1}, {"blob", 1}}) + "x" +
                 MessageLine({{"type", "start"}, {"gang", 1}, {"objects", {1}}}) +
                 MessageLine({{"type", "bye"}}));
  EXPECT_EQ(Calls(), (Lines{"drop 1", "end"}));
  put_room_ = -1;
  session_->OnTaken();
  EXPECT_EQ(Calls(), Lines());
}

TEST_F(ServeSessionTest, OneClientAtATimeAndTheNextOnlyAfterItsWorkers) {
  Listen(kLong);
  Client first = Connect();
  first.Hello();
  Run(first, 7);
  Client second = Connect();
  EXPECT_EQ(second.Hear()["message"], "another client is connected");
  EXPECT_TRUE(second.HasEnded());
  first.Leave();
  EXPECT_EQ(Calls(), Lines{"dismiss 5 SIGTERM"});
  Client third = Connect();
  const Json refused = third.Hear();
  EXPECT_EQ(refused["about"], "hello");
  EXPECT_EQ(refused["message"], "the workers of the last client are still ending");
  EXPECT_TRUE(third.HasEnded());
  session_->OnStopped(FullReport());
  Client fourth = Connect();
  fourth.Hello();
  Run(fourth, 1);  // its own numbers
  EXPECT_EQ(Calls(), Lines());
}

TEST_F(ServeSessionTest, TheObjectsOfAClientGoWithIt) {
  Listen(kLong);
  Client first = Connect();
  first.Hello();
  first.Say({{"type", "put"}, {"object", 4}, {"blob", 1}}, "x");
  Calls();
  first.Leave();
  EXPECT_EQ(Calls(), Lines{"drop 4"});
  Client second = Connect();
  second.Hello();
  ExpectRefused(second, {{"type", "start"}, {"gang", 1}, {"objects", {4}}}, "there is no object 4");
  second.Say({{"type", "put"}, {"object", 1}, {"blob", 1}}, "x");
  EXPECT_EQ(Calls(), Lines{"put 1 0+1/1"});
}

TEST_F(ServeSessionTest, WithoutLingerTheFirstClientIsTheLast) {
  Listen(Duration::zero());
  Client first = Connect();
  first.Hello();
  first.Leave();
  EXPECT_EQ(Calls(), Lines{"end"});
  Client second = Connect();
  EXPECT_EQ(second.Hear()["message"], "another client is connected");
}

TEST_F(ServeSessionTest, LingerEndsWithoutAnotherClient) {
  Listen(std::chrono::milliseconds(1));
  Client first = Connect();
  first.Hello();
  first.Leave();
  EXPECT_TRUE(RunUntil(*loop_, [this] { return !calls_.empty(); }));
  EXPECT_EQ(Calls(), Lines{"end"});
}

TEST_F(ServeSessionTest, AClientThatSaysByeIsAnsweredThoughHostsAreHeld) {
  Listen(kLong);
  Client first = Connect();
  first.Hello();
  first.Say({{"type", "bye"}});
  EXPECT_EQ(first.Hear(), (Json{{"type", "bye"}, {"exit", 0}}));
  EXPECT_TRUE(first.HasEnded());
  Client second = Connect();
  second.SayText("nonsense\n");
  EXPECT_TRUE(second.Hear()["about"].is_null());
  EXPECT_EQ(second.Hear()["type"], "bye");
  EXPECT_TRUE(second.HasEnded());
  Connect().Hello();
}

TEST_F(ServeSessionTest, TheNextClientHearsNothingBeforeItsHello) {
  Listen(kLong);
  Client first = Connect();
  first.Hello();
  first.Leave();
  session_->event_sink()({{"event", "while nobody was there"}});
  Client second = Connect();
  session_->event_sink()({{"event", "host_lost"}});
  EXPECT_EQ(second.Hear(), Json());
  second.Hello();
  EXPECT_EQ(second.Hear(), (Json{{"type", "event"}, {"event", "host_lost"}}));
}

TEST_F(ServeSessionTest, NothingOfTheLastGangReachesTheNextClient) {
  Listen(kLong);
  Client first = Connect();
  first.Hello();
  Run(first, 1);
  first.Leave();
  session_->OnData(0, 1, {}, 0, 0);
  session_->OnReport(0, 1, Json::object());
  session_->OnWarmed("a", {.is_warm = true}, 0);
  session_->OnObjectProblem(1, "a", ENOMEM);
  EXPECT_TRUE(session_->HasRoom());
  session_->OnStopped(FullReport());
  Client second = Connect();
  second.Hello();
  EXPECT_EQ(second.Hear(), Json());
}

TEST_F(ServeSessionTest, ASessionMayEndRightAfterItsClient) {
  Listen(kLong);
  Client first = Connect();
  first.Hello();
  on_room_ = [this] { loop_->Stop(); };
  first.CloseSocket();
  loop_->Run();  // no further than this callback
  session_.reset();
  Settle(*loop_);
  EXPECT_EQ(rooms_, 1);
}

TEST_F(ServeSessionTest, CloseRemovesThePathAndSaysBye) {
  Listen(kLong);
  Client client = Connect();
  client.Hello();
  session_->Close(143);
  EXPECT_EQ(::access(path_.c_str(), F_OK), -1);
  EXPECT_EQ(client.Hear(), (Json{{"type", "bye"}, {"exit", 143}}));
}

TEST_F(ServeSessionTest, ASocketOrPathOfNoUseIsAnError) {
  ServeOptions options = Options();
  options.socket.Reset(::socket(AF_UNIX, SOCK_STREAM, 0));
  EXPECT_EQ(ServeSession::Open(*loop_, std::move(options), *this, *this).status().code(),
            ErrorCode::kUsage);
  ServeOptions other = Options();
  other.path = directory_ / "no/such/folder";
  EXPECT_EQ(ServeSession::Open(*loop_, std::move(other), *this, *this).status().code(),
            ErrorCode::kFileUnwritable);
}

}  // namespace
}  // namespace hvdray
