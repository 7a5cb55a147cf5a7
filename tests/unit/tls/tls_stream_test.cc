// SPDX-License-Identifier: Apache-2.0
// The stream behind the handshake: order, back-pressure, endings.
#include <gtest/gtest.h>
#include <sys/socket.h>

#include "tests/fakes/stream_owner.h"
#include "tests/unit/tls/tls_pair.h"

namespace hvdray {
namespace {

using TlsStreamTest = TlsTest;

TEST_F(TlsStreamTest, BytesPassBothWays) {
  Connect();
  client_stream_->Write("to server");
  server_stream_->Write("to client");
  EXPECT_TRUE(RunUntil(
      *loop_, [&] { return at_server_.got == "to server" && at_client_.got == "to client"; }));
  EXPECT_EQ(at_client_.drained, 0) << "nothing had to wait";
}

TEST_F(TlsStreamTest, WhatIsWrittenBeforeStartLeavesAfterIt) {
  StartClient();
  StartServer();
  ASSERT_TRUE(BothAreDone());
  client_stream_ = std::move((*client_)->stream);
  server_stream_ = std::move((*server_)->stream);
  client_stream_->Write("early");
  EXPECT_EQ(client_stream_->QueuedBytes(), 5u);
  client_stream_->Start(at_client_);
  server_stream_->Start(at_server_);
  EXPECT_TRUE(RunUntil(*loop_, [&] { return at_server_.got == "early"; }));
  EXPECT_EQ(at_client_.drained, 1);
}

TEST_F(TlsStreamTest, PeerThatDoesNotReadFillsTheQueueAndDrainsItInOrder) {
  Connect();
  server_stream_->SetReading(false);
  std::string sent;
  for (int i = 0; i < 60; ++i) {
    const std::string part(50'000 + static_cast<size_t>(i), static_cast<char>('a' + i % 26));
    sent += part;
    client_stream_->Write(part);
  }
  Settle(*loop_);
  EXPECT_EQ(at_server_.got, "");
  EXPECT_GT(client_stream_->QueuedBytes(), 2'000'000u);
  server_stream_->SetReading(true);
  EXPECT_TRUE(RunUntil(*loop_, [&] { return at_server_.got.size() == sent.size(); }));
  EXPECT_EQ(at_server_.got, sent);
  EXPECT_EQ(client_stream_->QueuedBytes(), 0u);
  EXPECT_EQ(at_client_.drained, 1);
}

TEST_F(TlsStreamTest, BothEndsMayFloodEachOtherAtOnce) {
  Connect();
  std::string up;
  std::string down;
  for (int i = 0; i < 200; ++i) {
    const std::string part(30'011, static_cast<char>('a' + i % 26));
    up += part;
    client_stream_->Write(part);
    down += std::string(part.rbegin(), part.rend()) + "x";
    server_stream_->Write(std::string(part.rbegin(), part.rend()) + "x");
  }
  EXPECT_TRUE(RunUntil(*loop_, [&] {
    return at_server_.got.size() == up.size() && at_client_.got.size() == down.size();
  }));
  EXPECT_EQ(at_server_.got, up);
  EXPECT_EQ(at_client_.got, down);
}

TEST_F(TlsStreamTest, HundredMegabytesPassWhole) {
  Connect();
  const std::string part(256 << 10, 'm');
  constexpr size_t kParts = 400;
  size_t got = 0;
  bool is_intact = true;
  size_t written = 0;
  // Refilled as it drains, as the link does.
  RunUntil(*loop_, [&] {
    while (written < kParts && client_stream_->QueuedBytes() < part.size()) {
      client_stream_->Write(part);
      ++written;
    }
    is_intact = is_intact && at_server_.got.find_first_not_of('m') == std::string::npos;
    got += std::exchange(at_server_.got, {}).size();
    return got >= kParts * part.size();
  });
  EXPECT_EQ(got, kParts * part.size());
  EXPECT_TRUE(is_intact);
}

TEST_F(TlsStreamTest, PauseWithinOnDataHoldsFromTheNextBytesOn) {
  StartClient();
  StartServer();
  ASSERT_TRUE(BothAreDone());
  client_stream_ = std::move((*client_)->stream);
  server_stream_ = std::move((*server_)->stream);
  client_stream_->Start(at_client_);
  StartStream(*server_stream_, {.on_data = [this](ByteView bytes) {
    at_server_.got += bytes;
    server_stream_->SetReading(false);
  }});
  client_stream_->Write("one");
  ASSERT_TRUE(RunUntil(*loop_, [&] { return at_server_.got == "one"; }));
  client_stream_->Write("two");
  Settle(*loop_);
  EXPECT_EQ(at_server_.got, "one");
  server_stream_->SetReading(true);
  EXPECT_TRUE(RunUntil(*loop_, [&] { return at_server_.got == "onetwo"; }));
}

TEST_F(TlsStreamTest, PeerThatClosesInOrderIsOkAndComesAfterItsBytes) {
  Connect();
  client_stream_->Write("last");
  client_stream_.reset();
  ASSERT_TRUE(RunUntil(*loop_, [&] { return at_server_.closed.has_value(); }));
  EXPECT_TRUE(at_server_.closed->ok()) << at_server_.closed->ToString();
  EXPECT_EQ(at_server_.got, "last");
  server_stream_->Write("into the void");
  Settle(*loop_);
  EXPECT_EQ(server_stream_->QueuedBytes(), 0u);
}

TEST_F(TlsStreamTest, LastWordsArriveAlsoWhenThePeerHasSentMore) {
  Connect();
  server_stream_->Write(std::string(50'000, 'x'));  // nobody reads it any more
  client_stream_->Write("bye");
  client_stream_.reset();
  ASSERT_TRUE(RunUntil(*loop_, [&] { return at_server_.closed.has_value(); }));
  EXPECT_EQ(at_server_.got, "bye");
}

TEST_F(TlsStreamTest, ConnectionThatIsCutMayHaveLostSomethingAndSaysSo) {
  StartClient();
  const UniqueFd hold(::dup(server_socket_.get()));
  StartServer();
  ASSERT_TRUE(BothAreDone());
  client_stream_ = std::move((*client_)->stream);
  client_stream_->Start(at_client_);
  ::shutdown(hold.get(), SHUT_RDWR);  // as when the process is killed: no close_notify
  ASSERT_TRUE(RunUntil(*loop_, [&] { return at_client_.closed.has_value(); }));
  EXPECT_EQ(at_client_.closed->code(), ErrorCode::kAgentLost);
}

TEST_F(TlsStreamTest, ForeignBytesBehindTheHandshakeEndTheStream) {
  const UniqueFd hold(::dup(client_socket_.get()));
  StartClient();
  StartServer();
  ASSERT_TRUE(BothAreDone());
  server_stream_ = std::move((*server_)->stream);
  server_stream_->Start(at_server_);
  ASSERT_TRUE(WriteAll(hold.get(), "this is no record at all").ok());
  ASSERT_TRUE(RunUntil(*loop_, [&] { return at_server_.closed.has_value(); }));
  EXPECT_EQ(at_server_.closed->code(), ErrorCode::kProtocolError);
  EXPECT_EQ(at_server_.got, "");
}

TEST_F(TlsStreamTest, QueueOfAPeerThatWentAwayIsDropped) {
  Connect();
  server_stream_->SetReading(false);
  client_stream_->Write(std::string(4'000'000, 'x'));
  EXPECT_GT(client_stream_->QueuedBytes(), 0u);
  server_stream_.reset();
  ASSERT_TRUE(RunUntil(*loop_, [&] { return at_client_.closed.has_value(); }));
  EXPECT_EQ(client_stream_->QueuedBytes(), 0u);
}

TEST_F(TlsStreamTest, MayBeDestroyedInEachOfItsHandlers) {
  const std::string capture(100, 'x');
  for (const char* when : {"data", "drained", "closed"}) {
    SCOPED_TRACE(when);
    SetUp();
    client_.reset();
    server_.reset();
    StartClient();
    StartServer();
    ASSERT_TRUE(BothAreDone());
    client_stream_ = std::move((*client_)->stream);
    server_stream_ = std::move((*server_)->stream);
    server_stream_->Start(at_server_);
    std::string seen;
    const auto end = [this, &seen, capture](bool is_it) {
      if (!is_it) return;
      client_stream_.reset();
      seen = capture;  // the function must still be there
    };
    const std::string_view which = when;
    StartStream(*client_stream_, {.on_data = [=](ByteView) { end(which == "data"); },
                                  .on_drained = [=] { end(which == "drained"); },
                                  .on_closed = [=](const Status&) { end(which == "closed"); }});
    client_stream_->Write(std::string(3'000'000, 'x'));
    server_stream_->Write("y");
    if (which == "closed") server_stream_.reset();
    EXPECT_TRUE(RunUntil(*loop_, [&] { return client_stream_ == nullptr; }));
    EXPECT_EQ(seen, capture);
  }
}

}  // namespace
}  // namespace hvdray
