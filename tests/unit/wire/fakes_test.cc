// SPDX-License-Identifier: Apache-2.0
// The fakes of the link and its stream do what the real ones promise.
#include <gtest/gtest.h>

#include "tests/fakes/fake_stream.h"
#include "tests/fakes/faulty_link.h"
#include "tests/fakes/link_calls.h"
#include "tests/fakes/loop_runner.h"
#include "tests/fakes/stream_owner.h"
#include "wire/message_codec.h"

namespace hvdray::wire {
namespace {

TEST(FakeStreamTest, DeliversInPiecesAndHoldsWhilePaused) {
  auto [stream, wire] = FakeWire::Make();
  wire->Deliver("early");
  std::string pieces;
  StartStream(*stream, {.on_data = [&](ByteView bytes) { pieces.append(bytes) += '|'; }});
  wire->Flush(2);
  EXPECT_EQ(pieces, "ea|rl|y|");
  stream->SetReading(false);
  wire->Deliver("x");
  EXPECT_EQ(pieces, "ea|rl|y|");
  stream->SetReading(true);
  wire->Flush();
  EXPECT_EQ(pieces, "ea|rl|y|x|");
}

TEST(FakeStreamTest, QueuesWhatHasNoRoomAndTellsWhenItDrained) {
  auto [stream, wire] = FakeWire::Make();
  int drained = 0;
  StartStream(*stream, {.on_drained = [&] { ++drained; }});
  wire->SetRoom(3);
  stream->Write("abcde");
  stream->Write("fg");
  EXPECT_EQ(stream->QueuedBytes(), 4u);
  EXPECT_EQ(wire->TakeSent(), "abc");
  wire->Drain(1);
  EXPECT_EQ(drained, 0);
  wire->Drain();
  EXPECT_EQ(drained, 1);
  EXPECT_EQ(wire->TakeSent(2), "de");
  EXPECT_EQ(wire->TakeSent(), "fg");
}

TEST(FakeStreamTest, CarryMovesBytesFromOneStreamToAnother) {
  auto [one, one_wire] = FakeWire::Make();
  auto [two, two_wire] = FakeWire::Make();
  std::string got;
  StartStream(*one, {});
  StartStream(*two, {.on_data = [&](ByteView bytes) { got += bytes; }});
  one->Write("abcdef");
  Carry(*one_wire, *two_wire, 2);
  EXPECT_EQ(got, "ab");
  (void)one_wire->TakeSent(2);  // lost
  Carry(*one_wire, *two_wire);
  EXPECT_EQ(got, "abef");
}

TEST(FakeStreamTest, ClosesOnceAndKnowsWhenItsUserIsGone) {
  auto [stream, wire] = FakeWire::Make();
  int closes = 0;
  StartStream(*stream, {.on_closed = [&](const Status&) { ++closes; }});
  wire->Close({});
  wire->Close({});
  EXPECT_EQ(closes, 1);
  stream.reset();
  EXPECT_TRUE(wire->is_destroyed());
  wire->Deliver("into the void");
}

TEST(FaultyLinkTest, BreaksAtEachCallInTurnAndTellsOnce) {
  for (int n = 1; n <= 4; ++n) {
    const auto loop = Loop::Create().value();
    auto [stream, wire] = FakeWire::Make();
    FaultyLink link(*loop, MakeLink(*loop, LinkRole::kAgent, std::move(stream)), n);
    std::vector<Status> closed;
    LinkCalls calls;
    calls.on_closed = [&](Status status) { closed.push_back(std::move(status)); };
    link.Start(calls);
    link.Send({0, Hello{}});
    link.StartHeartbeat(std::chrono::hours(1), std::chrono::hours(1));
    link.Send({1, WorkerStarted{}});
    EXPECT_TRUE(closed.empty()) << "never from within a call";
    Settle(*loop);
    ASSERT_EQ(closed.size(), 1u) << n;
    EXPECT_EQ(closed[0].code(), ErrorCode::kAgentLost);
    EXPECT_TRUE(wire->is_destroyed()) << "the peer sees it as well";
    EXPECT_EQ(wire->TakeSent().find("HVDR\x01") != std::string::npos, n > 2) << n;
    bool is_done = false;
    link.Close(Bye{}, std::chrono::hours(1), [&] { is_done = true; });
    Settle(*loop);
    EXPECT_TRUE(is_done);
  }
}

TEST(FaultyLinkTest, ZeroNeverBreaksAndCountsTheCalls) {
  const auto loop = Loop::Create().value();
  auto [stream, wire] = FakeWire::Make();
  FaultyLink link(*loop, MakeLink(*loop, LinkRole::kAgent, std::move(stream)), 0);
  LinkCalls calls;
  calls.on_closed = [](const Status&) { FAIL(); };
  link.Start(calls);
  link.Send({0, Hello{}});
  EXPECT_EQ(link.calls(), 2);
  EXPECT_TRUE(link.HasOutputRoom());
  EXPECT_EQ(link.QueuedBytes(), 0u);
  bool is_done = false;
  link.Close(Bye{}, std::chrono::hours(1), [&] { is_done = true; });
  Settle(*loop);
  EXPECT_TRUE(is_done);
}

}  // namespace
}  // namespace hvdray::wire
