// SPDX-License-Identifier: Apache-2.0
// One link against a peer that the test plays byte by byte, so that the rules of order, version and
// direction are seen from both sides.
#include "wire/link.h"

#include <gtest/gtest.h>

#include "tests/fakes/fake_stream.h"
#include "tests/fakes/link_calls.h"
#include "tests/fakes/loop_runner.h"
#include "tests/unit/wire/sample_messages.h"
#include "wire/message_codec.h"

namespace hvdray::wire {
namespace {

constexpr std::string_view kAnnounced = "HVDRAY-AGENT/1 4711 00112233445566778899aabbccddeeff\n";

std::string Bytes(const Message& message, uint16_t version = 1) {
  return EncodeMessage(message, version).value();
}
std::string HelloBytes(uint16_t min = 1, uint16_t max = 1, const std::string& build = "peer") {
  return Bytes({0, Hello{min, max, build, {}}});
}

class LinkTest : public testing::Test {
 protected:
  void Make(LinkRole role) {
    auto [stream, wire] = FakeWire::Make();
    wire_ = std::move(wire);
    link_ = MakeLink(*loop_, role, std::move(stream));
    calls_.on_message = [this](Message&& m) { messages_.push_back(std::move(m)); };
    calls_.on_closed = [this](const Status& status) {
      ASSERT_FALSE(closed_.has_value()) << "closed twice";
      closed_ = status;
    };
    calls_.on_output_room = [this] { ++rooms_; };
    calls_.on_control_room = [this] { ++control_rooms_; };
    calls_.on_noise = [this](ByteView line) { noise_.emplace_back(line); };
    link_->Start(calls_);
  }
  /// Both Hellos are through and everything sent so far is forgotten.
  void MakeGreeted(LinkRole role) {
    Make(role);
    if (role == LinkRole::kLauncher) wire_->Deliver(kAnnounced);
    link_->Send({0, Hello{1, 1, "me", {}}});
    wire_->Deliver(HelloBytes());
    ASSERT_EQ(messages_.size(), 1u);
    (void)wire_->TakeSent();
    messages_.clear();
  }
  /// The messages that the link has sent since the last call; its announcement is skipped.
  std::vector<Message> Sent() {
    std::string bytes = wire_->TakeSent();
    if (bytes.starts_with("HVDRAY")) bytes.erase(0, bytes.find('\n') + 1);
    std::vector<Message> sent;
    FrameDecoder decoder(SIZE_MAX);
    decoder.Push(bytes);
    for (auto frame = decoder.Next(); frame.ok() && *frame; frame = decoder.Next()) {
      sent.push_back(DecodeMessage((*frame)->header, (*frame)->body).value());
      sent_version_ = (*frame)->header.version;
    }
    return sent;
  }
  /// The peer is told why by a Bye, the user by OnClosed().
  void ExpectClosed(ErrorCode code) {
    ASSERT_TRUE(closed_.has_value());
    EXPECT_EQ(closed_->code(), code) << closed_->ToString();
    const std::vector<Message> sent = Sent();
    ASSERT_FALSE(sent.empty());
    const auto* bye = std::get_if<Bye>(&sent.back().body);
    ASSERT_NE(bye, nullptr);
    EXPECT_EQ(bye->code, static_cast<uint16_t>(code));
    EXPECT_EQ(bye->text, closed_->message());
    Settle(*loop_);
    EXPECT_TRUE(wire_->is_destroyed())
        << "the connection is given up though the user keeps the link";
  }

  std::unique_ptr<Loop> loop_ = Loop::Create().value();
  std::shared_ptr<FakeWire> wire_;
  LinkCalls calls_;
  std::unique_ptr<Link> link_;
  std::vector<Message> messages_;
  std::vector<std::string> noise_;
  std::optional<Status> closed_;
  int rooms_ = 0;
  int control_rooms_ = 0;
  uint16_t sent_version_ = 0;
};

TEST_F(LinkTest, AgentAnnouncesItselfBeforeItsHello) {
  Make(LinkRole::kAgent);
  link_->Send({0, Hello{}});
  const std::string sent = wire_->TakeSent();
  EXPECT_TRUE(sent.starts_with("HVDRAY-AGENT/1 "));
  EXPECT_EQ(sent.substr(sent.find('\n') + 1), Bytes({0, Hello{}}));
}

TEST_F(LinkTest, LauncherSendsNothingBeforeTheAnnouncement) {
  Make(LinkRole::kLauncher);
  link_->Send({0, Hello{}});
  wire_->Deliver("what a login shell reads would be lost\n");
  EXPECT_EQ(wire_->TakeSent(), "");
  wire_->Deliver(kAnnounced);
  EXPECT_EQ(Sent().size(), 1u);
}

TEST_F(LinkTest, NoiseIsHandedOutAndFramesFollowInTheSamePiece) {
  Make(LinkRole::kLauncher);
  link_->Send({0, Hello{}});
  wire_->Deliver("hello user\nprompt> " + std::string(kAnnounced) + HelloBytes() +
                 Bytes({1, WorkerStarted{0, 5}}));
  EXPECT_EQ(noise_, (std::vector<std::string>{"hello user", "prompt> "}));
  ASSERT_EQ(messages_.size(), 2u);
  EXPECT_EQ(messages_[1], (Message{1, WorkerStarted{0, 5}}));
}

TEST_F(LinkTest, ByteByByteIsAsGoodAsAtOnce) {
  Make(LinkRole::kLauncher);
  link_->Send({0, Hello{}});
  std::string bytes = "noise\n" + std::string(kAnnounced) + HelloBytes();
  for (int i = 0; i < 20; ++i) bytes += Bytes({1, WorkerStarted{i, 5}});
  wire_->Deliver(bytes, 1);
  EXPECT_EQ(messages_.size(), 21u);
}

TEST_F(LinkTest, ClosedBeforeTheAnnouncementIsAFailedStartWithItsLastWords) {
  Make(LinkRole::kLauncher);
  wire_->Deliver("bash: hvdray-agent: command not found");
  wire_->Close({});
  ASSERT_TRUE(closed_.has_value());
  EXPECT_EQ(closed_->code(), ErrorCode::kAgentStartFailed);
  EXPECT_EQ(noise_, std::vector<std::string>{"bash: hvdray-agent: command not found"});
}

TEST_F(LinkTest, EndlessNoiseIsCutOff) {
  Make(LinkRole::kLauncher);
  wire_->Deliver(std::string(100'000, 'x'), 1000);
  ASSERT_TRUE(closed_.has_value());
  EXPECT_EQ(closed_->code(), ErrorCode::kProtocolError);
}

TEST_F(LinkTest, MessagesWaitForBothHellosAndCarryTheAgreedVersion) {
  Make(LinkRole::kAgent);
  link_->Send({1, WorkerStarted{0, 5}});
  link_->Send({0, Hello{1, 4, "me", {}}});
  EXPECT_EQ(Sent().size(), 1u) << "only the Hello may go";
  EXPECT_EQ(sent_version_, kHelloVersion);
  wire_->Deliver(HelloBytes(2, 3));
  EXPECT_EQ(Sent().size(), 1u);
  EXPECT_EQ(sent_version_, 3) << "the highest that both speak";
  link_->Send({1, WorkerStarted{1, 6}});
  (void)Sent();
  EXPECT_EQ(sent_version_, 3);
  wire_->Deliver(Bytes({1, Signal{-1, 15}}, 3));
  EXPECT_EQ(messages_.size(), 2u);
}

TEST_F(LinkTest, ThisBuildSpeaksVersionTwoAndWithAnOldPeerVersionOne) {
  for (const uint16_t peer : {1, 2, 3}) {
    Make(LinkRole::kAgent);
    link_->Send({0, Hello{}});
    (void)Sent();
    wire_->Deliver(HelloBytes(1, peer));
    link_->Send({1, Output{0, StreamId::kStdout, false, "x"}});
    (void)Sent();
    EXPECT_EQ(sent_version_, std::min<uint16_t>(peer, 2));
  }
}

TEST_F(LinkTest, AChannelOnALinkOfVersionOneIsAViolation) {
  MakeGreeted(LinkRole::kLauncher);
  wire_->Deliver(Bytes({1, Output{0, StreamId::kChannel, false, "x"}}, 1));
  EXPECT_TRUE(messages_.empty());
  ASSERT_TRUE(closed_.has_value());
  EXPECT_EQ(closed_->code(), ErrorCode::kProtocolError);
}

TEST_F(LinkTest, HelloMayBeAnsweredFromWithinOnMessage) {
  auto [stream, wire] = FakeWire::Make();
  auto link = MakeLink(*loop_, LinkRole::kLauncher, std::move(stream));
  int welcomes = 0;
  LinkCalls calls;
  calls.on_message = [&](Message&&) {
    link->Send({0, Hello{}});
    link->Send({0, Welcome{}});
    ++welcomes;
  };
  link->Start(calls);
  wire->Deliver(std::string(kAnnounced) + HelloBytes());
  wire_ = wire;
  EXPECT_EQ(Sent().size(), 2u);
  EXPECT_EQ(welcomes, 1);
}

TEST_F(LinkTest, NoCommonVersionNamesBothBuilds) {
  Make(LinkRole::kAgent);
  link_->Send({0, Hello{1, 1, "hvdray 0.1.0", {}}});
  wire_->Deliver(HelloBytes(2, 9, "hvdray 7.0.0"));
  ASSERT_TRUE(closed_.has_value());
  EXPECT_NE(closed_->message().find("hvdray 0.1.0"), std::string::npos);
  EXPECT_NE(closed_->message().find("hvdray 7.0.0"), std::string::npos);
  EXPECT_TRUE(messages_.empty());
  ExpectClosed(ErrorCode::kProtocolMismatch);
}

TEST_F(LinkTest, NoCommonVersionIsFoundWhenOwnHelloComesSecondToo) {
  Make(LinkRole::kLauncher);
  wire_->Deliver(std::string(kAnnounced) + HelloBytes(2, 9));
  link_->Send({0, Hello{1, 1, "me", {}}});
  EXPECT_FALSE(closed_.has_value()) << "never from within Send";
  Settle(*loop_);
  ExpectClosed(ErrorCode::kProtocolMismatch);
}

TEST_F(LinkTest, ByeOfAPeerThatFoundNoVersionIsUnderstood) {
  Make(LinkRole::kAgent);
  link_->Send({0, Hello{}});
  wire_->Deliver(Bytes({0, Bye{206, "builds a and b"}}, kHelloVersion));
  ASSERT_TRUE(closed_.has_value());
  EXPECT_EQ(*closed_, Status(ErrorCode::kProtocolMismatch, "builds a and b"));
}

TEST_F(LinkTest, FirstFrameMustBeAHello) {
  Make(LinkRole::kAgent);
  link_->Send({0, Hello{}});
  wire_->Deliver(Bytes({0, Welcome{}}));
  ExpectClosed(ErrorCode::kProtocolError);
}

TEST_F(LinkTest, LauncherHelloAbove4KiBIsRefusedByItsHeader) {
  Make(LinkRole::kAgent);
  std::string header;
  EncodeHeader(header, {1, 1, 4097, 0});
  wire_->Deliver(header);
  ExpectClosed(ErrorCode::kProtocolError);
}

TEST_F(LinkTest, AgentHelloAbove64KiBIsRefusedByItsHeader) {
  Make(LinkRole::kLauncher);
  wire_->Deliver(kAnnounced);
  std::string header;
  EncodeHeader(header, {1, 1, 65537, 0});
  wire_->Deliver(header);
  ExpectClosed(ErrorCode::kProtocolError);
}

TEST_F(LinkTest, SecondHelloIsRefused) {
  MakeGreeted(LinkRole::kAgent);
  wire_->Deliver(HelloBytes());
  ExpectClosed(ErrorCode::kProtocolError);
}

TEST_F(LinkTest, FrameOfAnotherVersionIsRefused) {
  MakeGreeted(LinkRole::kAgent);
  wire_->Deliver(Bytes({1, Signal{-1, 15}}, 2));
  ExpectClosed(ErrorCode::kProtocolError);
  EXPECT_TRUE(messages_.empty());
}

TEST_F(LinkTest, MessageFromTheWrongSideIsRefused) {
  for (const auto& [name, message] : SampleMessages()) {
    const MessageType type = TypeOf(message.body);
    if (type == MessageType::kHello || type == MessageType::kBye) continue;
    std::string takers;
    for (const LinkRole role : {LinkRole::kAgent, LinkRole::kLauncher}) {
      MakeGreeted(role);
      wire_->Deliver(Bytes(message));
      if (!closed_.has_value()) takers += role == LinkRole::kAgent ? "agent" : "launcher";
      closed_.reset();
      link_.reset();
      messages_.clear();
    }
    const bool is_both = type == MessageType::kCredit || type == MessageType::kHeartbeat;
    EXPECT_EQ(takers == "agentlauncher", is_both) << name << ": " << takers;
    EXPECT_FALSE(takers.empty()) << name;
  }
}

TEST_F(LinkTest, GarbageIsRefusedAndTheFramesBeforeItCount) {
  MakeGreeted(LinkRole::kLauncher);
  wire_->Deliver(Bytes({1, WorkerStarted{0, 5}}) + "Segmentation fault\n");
  EXPECT_EQ(messages_.size(), 1u);
  ExpectClosed(ErrorCode::kProtocolError);
}

TEST_F(LinkTest, NothingIsReadAfterAViolation) {
  MakeGreeted(LinkRole::kLauncher);
  wire_->Deliver(Bytes({1, WorkerStarted{0, 5}}, 9) + Bytes({1, WorkerStarted{0, 5}}));
  EXPECT_TRUE(messages_.empty());
  EXPECT_TRUE(wire_->is_destroyed());
}

TEST_F(LinkTest, ByeClosesInOrderOrWithThePeersReason) {
  MakeGreeted(LinkRole::kLauncher);
  wire_->Deliver(Bytes({0, Bye{}}));
  ASSERT_TRUE(closed_.has_value());
  EXPECT_TRUE(closed_->ok());
  closed_.reset();
  MakeGreeted(LinkRole::kLauncher);
  wire_->Deliver(Bytes({0, Bye{305, "disk full"}}));
  EXPECT_EQ(*closed_, Status(ErrorCode::kOutputLost, "disk full"));
}

TEST_F(LinkTest, CloseOfTheStreamWithoutByeIsALostAgent) {
  MakeGreeted(LinkRole::kLauncher);
  wire_->Close({});
  ASSERT_TRUE(closed_.has_value());
  EXPECT_EQ(closed_->code(), ErrorCode::kAgentLost);
  closed_.reset();
  MakeGreeted(LinkRole::kLauncher);
  wire_->Close(Status(ErrorCode::kSystem, "read: Input/output error"));
  EXPECT_EQ(*closed_, Status(ErrorCode::kAgentLost, "read: Input/output error"));
}

TEST_F(LinkTest, ControlOvertakesOutputThatIsStillHere) {
  MakeGreeted(LinkRole::kAgent);
  wire_->SetRoom(0);
  const std::string block(kMaxOutput, 'x');
  for (int i = 0; i < 10; ++i) link_->Send({1, Output{0, StreamId::kStdout, false, block}});
  link_->Send({1, GenerationStopped{}});
  link_->Send({1, KvRequest{1, KvOp::kPut, 0, "s", "1", "v"}});
  link_->Send({1, KvRequest{2, KvOp::kPut, 0, "s", "2", "v"}});
  wire_->Drain();
  const std::vector<Message> sent = Sent();
  ASSERT_EQ(sent.size(), 13u);
  EXPECT_TRUE(std::holds_alternative<Output>(sent[0].body)) << "what the stream had already";
  EXPECT_EQ(std::get<KvRequest>(sent[1].body).id, 1u);
  EXPECT_EQ(std::get<KvRequest>(sent[2].body).id, 2u);
  EXPECT_TRUE(std::holds_alternative<GenerationStopped>(sent[12].body));
}

TEST_F(LinkTest, FullOutputLaneSaysSoOnceThereIsRoomAgain) {
  MakeGreeted(LinkRole::kAgent);
  wire_->SetRoom(0);
  const std::string block(kMaxOutput, 'x');
  int count = 0;
  for (; link_->HasOutputRoom(); ++count) {
    link_->Send({1, Output{0, StreamId::kStdout, false, block}});
    ASSERT_LT(count, 100);
  }
  EXPECT_GE(link_->QueuedBytes(), kOutputLaneBytes);
  wire_->Drain(300'000);
  EXPECT_EQ(rooms_, 0) << "not yet under half";
  wire_->Drain();
  EXPECT_EQ(rooms_, 1);
  EXPECT_EQ(link_->QueuedBytes(), 0u);
  EXPECT_EQ(Sent().size(), static_cast<size_t>(count));
  link_->Send({1, Output{0, StreamId::kStdout, false, block}});
  EXPECT_EQ(rooms_, 1);
}

TEST_F(LinkTest, FullControlLaneSaysSoOnceThereIsRoomAgain) {
  MakeGreeted(LinkRole::kLauncher);
  wire_->SetRoom(0);
  int count = 0;
  for (; link_->HasControlRoom(); ++count) {
    link_->Send({1, KvReply{1, 200, "0", std::string(10'000, 'x')}});
    ASSERT_LT(count, 100);
  }
  EXPECT_GE(link_->QueuedBytes(), kControlLaneBytes);
  EXPECT_LT(link_->QueuedBytes(), 2 * kControlLaneBytes);
  EXPECT_EQ(control_rooms_, 0);
  wire_->Drain();
  EXPECT_EQ(control_rooms_, 1);
  EXPECT_EQ(rooms_, 0) << "the other lane was never full";
  EXPECT_EQ(Sent().size(), static_cast<size_t>(count));
}

TEST_F(LinkTest, AnswersToWhatCameTogetherLeaveTogether) {
  auto [stream, wire] = FakeWire::Make();
  auto link = MakeLink(*loop_, LinkRole::kLauncher, std::move(stream));
  LinkCalls calls;
  calls.on_message = [&](Message&& message) {
    if (const auto* request = std::get_if<KvRequest>(&message.body)) {
      link->Send({1, KvReply{request->id, 200, "", "v"}});
      EXPECT_EQ(wire->TakeSent(), "") << "one write for all, after the last";
    }
  };
  link->Start(calls);
  link->Send({0, Hello{}});
  wire->Deliver(std::string(kAnnounced) + HelloBytes());
  (void)wire->TakeSent();
  std::string requests;
  for (uint64_t id = 0; id < 10; ++id) {
    requests += Bytes({1, KvRequest{id, KvOp::kGet, 0, "s", "k", ""}});
  }
  wire->Deliver(requests);
  wire_ = wire;
  EXPECT_EQ(Sent().size(), 10u);
}

TEST_F(LinkTest, MessageThatFitsNoFrameEndsTheLinkLater) {
  MakeGreeted(LinkRole::kAgent);
  link_->Send({1, Output{0, StreamId::kStdout, false, std::string(kMaxOutput + 1, 'x')}});
  EXPECT_FALSE(closed_.has_value()) << "never from within Send";
  Settle(*loop_);
  ExpectClosed(ErrorCode::kInternal);
}

TEST_F(LinkTest, SendAfterTheEndIsDropped) {
  MakeGreeted(LinkRole::kAgent);
  wire_->Close({});
  link_->Send({1, WorkerStarted{}});
  link_->StartHeartbeat(std::chrono::seconds(1), std::chrono::seconds(1));
  EXPECT_TRUE(link_->HasOutputRoom());
  Settle(*loop_);
  EXPECT_EQ(wire_->TakeSent(), "");
}

TEST_F(LinkTest, CloseSendsTheQueueThenByeAndIgnoresThePeer) {
  MakeGreeted(LinkRole::kAgent);
  wire_->SetRoom(0);
  link_->Send({1, Output{0, StreamId::kStdout, false, "text"}});
  link_->Send({1, WorkerExited{}});
  bool is_done = false;
  link_->Close(Bye{0, "all well"}, std::chrono::hours(1), [&] { is_done = true; });
  link_->Send({1, WorkerStarted{}});
  wire_->Deliver("garbage that nobody reads any more");
  Settle(*loop_);
  EXPECT_FALSE(is_done);
  wire_->Drain();
  Settle(*loop_);
  EXPECT_TRUE(is_done);
  const std::vector<Message> sent = Sent();
  ASSERT_EQ(sent.size(), 3u);
  EXPECT_EQ(sent.back(), (Message{0, Bye{0, "all well"}}));
  EXPECT_FALSE(closed_.has_value());
  EXPECT_TRUE(wire_->is_destroyed());
}

TEST_F(LinkTest, CloseIsDoneWhenThePeerGoesOrTheStateIsEarly) {
  enum class When { kNotStarted, kBeforeAnnouncement, kBeforeHello, kAfterEnd, kPeerGoes };
  for (const When when : {When::kNotStarted, When::kBeforeAnnouncement, When::kBeforeHello,
                          When::kAfterEnd, When::kPeerGoes}) {
    if (when == When::kNotStarted) {
      link_ = MakeLink(*loop_, LinkRole::kAgent, FakeWire::Make().first);
    } else if (when == When::kBeforeAnnouncement) {
      Make(LinkRole::kLauncher);
    } else if (when == When::kBeforeHello) {
      Make(LinkRole::kAgent);
    } else {
      MakeGreeted(LinkRole::kAgent);
      if (when == When::kAfterEnd) wire_->Close({});
      if (when == When::kPeerGoes) wire_->SetRoom(0);
    }
    bool is_done = false;
    link_->Close(Bye{205, "x"}, std::chrono::hours(1), [&] { is_done = true; });
    EXPECT_FALSE(is_done) << "never from within Close";
    if (when == When::kPeerGoes) wire_->Close({});
    Settle(*loop_);
    EXPECT_TRUE(is_done) << static_cast<int>(when);
    if (when == When::kBeforeHello) {
      EXPECT_EQ(Sent().size(), 1u) << "the peer is told why";
    } else if (when == When::kBeforeAnnouncement) {
      EXPECT_EQ(wire_->TakeSent(), "");
    }
    closed_.reset();
  }
}

TEST_F(LinkTest, CloseWithinOnMessageLeavesTheRestUnread) {
  auto [stream, wire] = FakeWire::Make();
  auto link = MakeLink(*loop_, LinkRole::kAgent, std::move(stream));
  int count = 0;
  bool is_done = false;
  LinkCalls calls;
  calls.on_message = [&](Message&&) {
    if (++count == 2) link->Close(Bye{}, std::chrono::hours(1), [&] { is_done = true; });
  };
  calls.on_closed = [](const Status&) { FAIL(); };
  link->Start(calls);
  link->Send({0, Hello{}});
  wire->Deliver(HelloBytes() + Bytes({1, KvReset{}}) + Bytes({1, KvReset{}}));
  Settle(*loop_);
  EXPECT_EQ(count, 2);
  EXPECT_TRUE(is_done);
}

TEST_F(LinkTest, PeerThatDoesNotReadFindsOneHeartbeatWaiting) {
  MakeGreeted(LinkRole::kAgent);
  wire_->SetRoom(0);
  link_->Send({1, Output{0, StreamId::kStdout, false, std::string(kMaxOutput, 'x')}});
  link_->Send({1, Output{0, StreamId::kStdout, false, "x"}});
  link_->StartHeartbeat(std::chrono::milliseconds(1), Duration::zero());
  int ticks = 0;
  const Watch tick = loop_->Every(std::chrono::milliseconds(2), [&] { ++ticks; });
  ASSERT_TRUE(RunUntil(*loop_, [&] { return ticks >= 5; }));
  wire_->Drain();
  int beats = 0;
  for (const Message& message : Sent()) beats += std::holds_alternative<Heartbeat>(message.body);
  EXPECT_EQ(beats, 1);
}

// The last call may destroy the link; sanitizers see what is touched afterwards.
TEST_F(LinkTest, MayBeDestroyedByItsLastCall) {
  enum class Where { kClosed, kBye, kViolation, kLastWords, kSilence, kDone };
  for (const Where where : {Where::kClosed, Where::kBye, Where::kViolation, Where::kLastWords,
                            Where::kSilence, Where::kDone}) {
    auto [stream, wire] = FakeWire::Make();
    auto link =
        MakeLink(*loop_, where == Where::kLastWords ? LinkRole::kLauncher : LinkRole::kAgent,
                 std::move(stream));
    const std::string capture(100, 'x');  // lives in the function that runs
    std::string seen;
    const auto destroy = [&link, &seen, capture] {
      link.reset();
      seen = capture;
    };
    LinkCalls calls;
    calls.on_closed = [destroy](const Status&) { destroy(); };
    link->Start(calls);
    link->Send({0, Hello{}});
    if (where == Where::kLastWords) {
      wire->Deliver("one");
      wire->Close({});
    } else {
      wire->Deliver(HelloBytes());
      if (where == Where::kClosed) wire->Close({});
      if (where == Where::kBye) wire->Deliver(Bytes({0, Bye{}}) + Bytes({1, KvReset{}}));
      if (where == Where::kViolation) wire->Deliver("no frame at all, surely");
      if (where == Where::kDone) link->Close(Bye{}, std::chrono::hours(1), destroy);
      if (where == Where::kSilence) {
        link->StartHeartbeat(std::chrono::milliseconds(4), std::chrono::milliseconds(1));
        ASSERT_TRUE(RunUntil(*loop_, [&link] { return link == nullptr; }));
      }
    }
    Settle(*loop_);
    EXPECT_EQ(link, nullptr) << static_cast<int>(where);
    EXPECT_EQ(seen, capture) << static_cast<int>(where);
  }
}

}  // namespace
}  // namespace hvdray::wire
