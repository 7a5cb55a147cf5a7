// SPDX-License-Identifier: Apache-2.0
// Notices over real sockets to a worker that this test plays.
#include "agent/notifier.h"

#include <gtest/gtest.h>

#include <deque>
#include <string>
#include <vector>

#include "base/byte_stream.h"
#include "tests/fakes/loop_runner.h"
#include "tests/fakes/stream_owner.h"
#include "tests/fakes/test_sockets.h"

namespace hvdray {
namespace {

using std::string_literals::operator""s;
using Endpoint = WorkerAddresses::Endpoint;

NoticeKey KeyOf(uint8_t byte) {
  NoticeKey key;
  key.fill(byte);
  return key;
}
const NoticeKey kKey = KeyOf('k');
const std::string kAck =
    "\x80\x05\x95\x39\0\0\0\0\0\0\0\x8c\x22"s
    "horovod.runner.common.util.network\x94\x8c\x0b"s
    "AckResponse\x94\x93\x94)\x81\x94."s;

/// A port of 127.0.0.1 that is taken and refuses.
class RefusingPort {
 public:
  RefusingPort() : socket_(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)) {
    sockaddr_in own = Ipv4("127.0.0.1", 0);
    socklen_t size = sizeof own;
    auto* generic = reinterpret_cast<sockaddr*>(&own);
    EXPECT_EQ(::bind(socket_.get(), generic, size), 0);
    EXPECT_EQ(::getsockname(socket_.get(), generic, &size), 0);
    port_ = ntohs(own.sin_port);
  }
  uint16_t port() const { return port_; }

 private:
  UniqueFd socket_;
  uint16_t port_ = 0;
};

/// A worker's notification service: keeps what it got, answers as it is told.
class FakeService {
 public:
  explicit FakeService(Loop& loop) : loop_(loop) {
    socket_.Reset(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
    sockaddr_in own = Ipv4("127.0.0.1", 0);
    socklen_t size = sizeof own;
    auto* generic = reinterpret_cast<sockaddr*>(&own);
    EXPECT_EQ(::bind(socket_.get(), generic, size), 0);
    EXPECT_EQ(::listen(socket_.get(), 64), 0);
    EXPECT_EQ(::getsockname(socket_.get(), generic, &size), 0);
    port_ = ntohs(own.sin_port);
    watch_ = loop.OnFd(socket_.get(), FdEvent::kRead, [this] { Accept(); });
  }

  uint16_t port() const { return port_; }
  /// Frames that arrived, one a connection; those still on their way too.
  const std::deque<std::string>& received() const { return received_; }
  size_t open_connections() const { return open_; }
  /// "": closes silently once the notice is whole. Not called: stays silent.
  void AnswerWith(std::string bytes) { answer_ = std::move(bytes); }
  /// Answers the connections that wait.
  void AnswerNow(const std::string& bytes) {
    for (auto& stream : streams_) {
      if (stream) stream->Write(bytes);
    }
  }

 private:
  void Accept() {
    UniqueFd fd(::accept4(socket_.get(), nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK));
    if (!fd.is_valid()) return;
    UniqueFd copy(::dup(fd.get()));
    const size_t index = streams_.size();
    received_.emplace_back();
    streams_.push_back(MakeFdStream(loop_, std::move(fd), std::move(copy)));
    ++open_;
    most_open_ = std::max(most_open_, open_);
    StreamFunctions handlers;
    handlers.on_data = [this, index](ByteView bytes) {
      received_[index] += bytes;
      if (received_[index].size() < kFrameBytes || !answer_) return;
      if (answer_->empty()) {
        --open_;
        streams_[index].reset();
      } else {
        streams_[index]->Write(*answer_);
      }
    };
    handlers.on_closed = [this, index](const Status&) {
      --open_;
      streams_[index].reset();
    };
    StartStream(*streams_[index], std::move(handlers));
  }

  static constexpr size_t kFrameBytes = 36 + 94;
  Loop& loop_;
  UniqueFd socket_;
  uint16_t port_ = 0;
  std::optional<std::string> answer_;
  std::deque<std::string> received_;
  std::vector<std::unique_ptr<ByteStream>> streams_;
  size_t open_ = 0;
  size_t most_open_ = 0;
  Watch watch_;

 public:
  size_t most_open() const { return most_open_; }
};

class NotifierTest : public testing::Test {
 protected:
  // Its limit is not what ends a test.
  NotifierTest()
      : loop_(std::move(*Loop::Create())),
        service_(*loop_),
        notifier_(*loop_, std::chrono::minutes(1)) {}

  static WorkerAddresses At(std::vector<Endpoint> endpoints) {
    WorkerAddresses addresses;
    addresses.interfaces.push_back({"eth0", std::move(endpoints)});
    addresses.key = kKey;
    return addresses;
  }
  WorkerAddresses AtService() const { return At({{"127.0.0.1", service_.port()}}); }
  void Send(int worker, const WorkerAddresses& addresses, const Notice& notice,
            Notifier* notifier = nullptr) {
    (notifier == nullptr ? &notifier_ : notifier)
        ->Send(worker, addresses, notice, [this, worker, notice](Status outcome) {
          outcomes_.push_back({worker, notice.timestamp, std::move(outcome)});
        });
  }
  bool Await(size_t count) {
    return RunUntil(*loop_, [&] { return outcomes_.size() >= count; });
  }
  struct Outcome {
    int worker;
    int64_t timestamp;
    Status status;
  };

  std::unique_ptr<Loop> loop_;
  FakeService service_;
  Notifier notifier_;
  std::vector<Outcome> outcomes_;
};

TEST_F(NotifierTest, WorkerThatAcknowledgesHasGotTheSignedNotice) {
  service_.AnswerWith(SignedFrame(kKey, kAck));
  Send(0, AtService(), {1700000000, 3});
  EXPECT_TRUE(outcomes_.empty()) << "told from within Send()";
  ASSERT_TRUE(Await(1));
  EXPECT_TRUE(outcomes_[0].status.ok()) << outcomes_[0].status.ToString();
  ASSERT_EQ(service_.received().size(), 1U);
  EXPECT_EQ(service_.received()[0], SignedFrame(kKey, PickleNotice({1700000000, 3})));
}

TEST_F(NotifierTest, AddressWhereNobodyListensIsPassedOver) {
  const RefusingPort held;
  service_.AnswerWith(SignedFrame(kKey, kAck));
  Send(0, At({{"127.0.0.1", held.port()}, {"127.0.0.1", service_.port()}}), {1, 1});
  ASSERT_TRUE(Await(1));
  EXPECT_TRUE(outcomes_[0].status.ok()) << outcomes_[0].status.ToString();
}

TEST_F(NotifierTest, RefusedEverywhereItIsLostAndTheLastAddressIsNamed) {
  const RefusingPort held;
  Send(0, At({{"127.0.0.1", held.port()}}), {1, 1});
  ASSERT_TRUE(Await(1));
  EXPECT_EQ(outcomes_[0].status.code(), ErrorCode::kHostRefused);
  EXPECT_EQ(outcomes_[0].status.message().find("127.0.0.1:" + std::to_string(held.port())), 0U)
      << outcomes_[0].status.message();
}

TEST_F(NotifierTest, WithoutAnyAddressItIsLostAtOnce) {
  Send(0, WorkerAddresses(), {1, 1});
  ASSERT_TRUE(Await(1));
  EXPECT_EQ(outcomes_[0].status.code(), ErrorCode::kHostUnreachable);
}

TEST_F(NotifierTest, SilentWorkerCostsItsTimeAndNoMore) {
  Notifier hasty(*loop_, std::chrono::milliseconds(20));
  Send(0, AtService(), {1, 1}, &hasty);
  ASSERT_TRUE(Await(1));
  EXPECT_EQ(outcomes_[0].status.code(), ErrorCode::kDeadlineExceeded);
  EXPECT_TRUE(RunUntil(*loop_, [&] { return service_.open_connections() == 0; }));
}

TEST_F(NotifierTest, SilentAddressLeavesTimeForTheNextOne) {
  const DeafListener deaf;
  const TestListener mute;
  Notifier patient(*loop_, std::chrono::seconds(3));
  service_.AnswerWith(SignedFrame(kKey, kAck));
  const WorkerAddresses addresses =
      At({{"127.0.0.1", deaf.port()}, {"127.0.0.1", mute.port()}, {"127.0.0.1", service_.port()}});
  Send(0, addresses, {1, 1}, &patient);
  ASSERT_TRUE(Await(1));
  EXPECT_TRUE(outcomes_[0].status.ok()) << outcomes_[0].status.ToString();
}

TEST_F(NotifierTest, AddressThatTookTheLastNoticeIsTriedFirst) {
  FakeService first(*loop_);
  first.AnswerWith("");
  service_.AnswerWith(SignedFrame(kKey, kAck));
  const auto addresses = At({{"127.0.0.1", first.port()}, {"127.0.0.1", service_.port()}});
  Send(0, addresses, {1, 1});
  ASSERT_TRUE(Await(1));
  Send(0, addresses, {2, 1});
  ASSERT_TRUE(Await(2));
  EXPECT_TRUE(outcomes_[1].status.ok());
  EXPECT_EQ(first.received().size(), 1U);
  EXPECT_EQ(service_.received().size(), 2U);
}

TEST_F(NotifierTest, AnswersThatAreNotTheWorkersAreLoss) {
  for (const std::string& answer :
       {""s, SignedFrame(KeyOf('x'), kAck), SignedFrame(kKey, "\x80\x04N."),
        "HTTP/1.1 400 Bad\r\n"s + std::string(64, ' '), std::string(36, '\xff')}) {
    outcomes_.clear();
    service_.AnswerWith(answer);
    Send(0, AtService(), {1, 1});
    ASSERT_TRUE(Await(1));
    EXPECT_EQ(outcomes_[0].status.code(), ErrorCode::kProtocolError)
        << outcomes_[0].status.ToString();
  }
}

TEST_F(NotifierTest, AnswerMayComeInPieces) {
  Send(0, AtService(), {1, 1});
  ASSERT_TRUE(RunUntil(*loop_, [&] {
    return service_.received().size() == 1 && service_.received()[0].size() == 130;
  }));
  for (const char byte : SignedFrame(kKey, kAck)) {
    EXPECT_TRUE(outcomes_.empty());
    service_.AnswerNow(std::string(1, byte));
    Settle(*loop_);
  }
  ASSERT_TRUE(Await(1));
  EXPECT_TRUE(outcomes_[0].status.ok());
}

TEST_F(NotifierTest, OneIsOnItsWayAtATimeAndTheNewestOfTheOthersFollows) {
  for (int64_t timestamp = 1; timestamp <= 4; ++timestamp) {
    Send(0, AtService(), {timestamp, 3});
  }
  ASSERT_TRUE(Await(2));
  EXPECT_EQ(outcomes_[0].timestamp, 2);
  EXPECT_EQ(outcomes_[1].timestamp, 3);
  EXPECT_EQ(outcomes_[0].status.code(), ErrorCode::kCancelled);
  EXPECT_EQ(outcomes_[1].status.code(), ErrorCode::kCancelled);
  ASSERT_TRUE(RunUntil(*loop_, [&] {
    return service_.received().size() == 1 && service_.received()[0].size() == 130;
  }));
  service_.AnswerNow(SignedFrame(kKey, kAck));
  ASSERT_TRUE(Await(3));
  EXPECT_EQ(outcomes_[2].timestamp, 1);
  ASSERT_TRUE(RunUntil(*loop_, [&] {
    return service_.received().size() == 2 && service_.received()[1].size() == 130;
  }));
  service_.AnswerNow(SignedFrame(kKey, kAck));
  ASSERT_TRUE(Await(4));
  EXPECT_EQ(outcomes_[3].timestamp, 4);
  EXPECT_EQ(service_.received()[1], SignedFrame(kKey, PickleNotice({4, 3})));
  EXPECT_EQ(service_.most_open(), 1U);
}

TEST_F(NotifierTest, WorkersDoNotWaitForEachOther) {
  Send(0, AtService(), {1, 3});
  FakeService other(*loop_);
  other.AnswerWith(SignedFrame(kKey, kAck));
  Send(1, At({{"127.0.0.1", other.port()}}), {2, 3});
  ASSERT_TRUE(Await(1));
  EXPECT_EQ(outcomes_[0].worker, 1);
}

TEST_F(NotifierTest, ForgottenWorkerHearsNothingAndNobodyHearsOfIt) {
  Send(0, AtService(), {1, 3});
  Send(0, AtService(), {2, 3});
  notifier_.Forget(0);
  notifier_.Forget(7);
  Settle(*loop_);
  EXPECT_TRUE(outcomes_.empty());
}

TEST_F(NotifierTest, OutcomeMayDestroyTheNotifier) {
  auto notifier = std::make_unique<Notifier>(*loop_);
  bool is_told = false;
  notifier->Send(0, WorkerAddresses(), {1, 1}, [&](const Status&) {
    notifier.reset();
    is_told = true;
  });
  notifier->Send(1, WorkerAddresses(), {1, 1},
                 [&](const Status&) { EXPECT_TRUE(notifier != nullptr) << "told by a ghost"; });
  EXPECT_TRUE(RunUntil(*loop_, [&] { return is_told; }));
  Settle(*loop_);
}

TEST_F(NotifierTest, OutcomeMaySendTheNextNotice) {
  service_.AnswerWith(SignedFrame(kKey, kAck));
  int told = 0;
  std::function<void(Status)> again = [&](const Status& status) {
    EXPECT_TRUE(status.ok());
    if (++told < 5) notifier_.Send(0, AtService(), {told + 1, 1}, again);
  };
  notifier_.Send(0, AtService(), {1, 1}, again);
  EXPECT_TRUE(RunUntil(*loop_, [&] { return told == 5; }));
}

TEST(NoticeTargetsTest, LoopbackThenThisHostsThenOthers) {
  WorkerAddresses addresses;
  addresses.interfaces = {{"docker0", {{"172.17.0.1", 5}}},
                          {"eth0", {{"10.0.0.5", 5}, {"10.0.0.5", 5}}},
                          {"lo", {{"127.0.0.1", 5}}}};
  EXPECT_EQ(NoticeTargets(addresses, {"10.0.0.5"}),
            (std::vector<Endpoint>{{"127.0.0.1", 5}, {"10.0.0.5", 5}, {"172.17.0.1", 5}}));
  EXPECT_TRUE(NoticeTargets(WorkerAddresses(), {}).empty());
}

TEST(NoticeTargetsTest, NoMoreThanAFewAreTried) {
  WorkerAddresses addresses;
  addresses.interfaces.push_back({"many", {}});
  for (uint16_t port = 1; port <= 100; ++port) {
    addresses.interfaces[0].endpoints.push_back({"10.0.0.9", port});
  }
  EXPECT_EQ(NoticeTargets(addresses, {}).size(), kMaxNoticeTargets);
}

}  // namespace
}  // namespace hvdray
