// SPDX-License-Identifier: Apache-2.0
// Who is let in, and what becomes of everybody else.
#include <gtest/gtest.h>
#include <sys/socket.h>

#include "tests/unit/tls/tls_pair.h"

namespace hvdray {
namespace {

using std::chrono::milliseconds;
using TlsHandshakeTest = TlsTest;

ErrorCode CodeOf(const std::optional<Result<TlsConnection>>& outcome) {
  return outcome ? outcome->status().code() : ErrorCode::kInternal;
}

class TlsHelloTest : public TlsTest {
 protected:
  /// The first bytes of an honest client.
  std::string CatchHello() {
    StartClient();
    Settle(*loop_);
    std::string hello(8192, '\0');
    const ssize_t n = ::recv(server_socket_.get(), hello.data(), hello.size(), MSG_DONTWAIT);
    EXPECT_GT(n, 100);
    hello.resize(n > 0 ? static_cast<size_t>(n) : 0);
    return hello;
  }
};

TEST_F(TlsHandshakeTest, BothEndsWithTheKeyAgreeAndTheServerLearnsWhoCame) {
  StartClient();
  StartServer();
  ASSERT_TRUE(BothAreDone());
  ASSERT_TRUE(client_->ok()) << client_->status().ToString();
  ASSERT_TRUE(server_->ok()) << server_->status().ToString();
  EXPECT_EQ((*server_)->identity, "endpoint");
}

TEST_F(TlsHandshakeTest, OutcomeIsNeverToldFromWithinTheCall) {
  client_socket_.Reset();
  StartServer();
  EXPECT_FALSE(server_.has_value());
  EXPECT_TRUE(RunUntil(*loop_, [this] { return server_.has_value(); }));
}

TEST_F(TlsHandshakeTest, WrongKeyIsRefusedAtBothEnds) {
  StartClient(TestKey('x'));
  StartServer();
  ASSERT_TRUE(BothAreDone());
  EXPECT_EQ(CodeOf(client_), ErrorCode::kAuthenticationFailed) << client_->status().ToString();
  EXPECT_EQ(CodeOf(server_), ErrorCode::kAuthenticationFailed) << server_->status().ToString();
}

TEST_F(TlsHandshakeTest, UnknownIdentityLooksToTheClientLikeAWrongKey) {
  StartClient(TestKey('x'));
  StartServer();
  ASSERT_TRUE(BothAreDone());
  const Status wrong_key = client_->status();
  SetUp();
  client_.reset();
  server_.reset();
  StartClient(TestKey(), "stranger");
  StartServer();
  ASSERT_TRUE(BothAreDone());
  EXPECT_EQ(client_->status(), wrong_key);
  EXPECT_NE(server_->status().message().find("'stranger'"), std::string::npos);
}

TEST_F(TlsHandshakeTest, IdentityThatIsNoTextIsShownWithoutItsBytes) {
  StartClient(TestKey(), "a\x1b[31m\xff");
  StartServer();
  ASSERT_TRUE(BothAreDone());
  EXPECT_NE(server_->status().message().find("'a?[31m?'"), std::string::npos)
      << server_->status().message();
}

TEST_F(TlsHandshakeTest, PeerThatOnlyConnectsIsGivenUpAtTheLimit) {
  StartServer(milliseconds(20));
  ASSERT_TRUE(RunUntil(*loop_, [this] { return server_.has_value(); }));
  EXPECT_EQ(CodeOf(server_), ErrorCode::kConnectTimeout);
  char byte = 0;
  EXPECT_EQ(::recv(client_socket_.get(), &byte, 1, 0), 0) << "its socket is closed";
}

TEST_F(TlsHandshakeTest, ServerThatSaysNothingIsGivenUpAtTheLimit) {
  StartClient(TestKey(), "endpoint", milliseconds(20));
  ASSERT_TRUE(RunUntil(*loop_, [this] { return client_.has_value(); }));
  EXPECT_EQ(CodeOf(client_), ErrorCode::kConnectTimeout);
}

TEST_F(TlsHandshakeTest, PlainTextPeersAreNoTls) {
  for (const std::string text : {"GET / HTTP/1.1\r\n\r\n", "SSH-2.0-OpenSSH_9.2\r\n",
                                 "HVDRAY-AGENT/1 17 0123456789abcdef0123456789abcdef\n"}) {
    SetUp();
    server_.reset();
    StartServer();
    ASSERT_TRUE(WriteAll(client_socket_.get(), text).ok());
    ASSERT_TRUE(RunUntil(*loop_, [this] { return server_.has_value(); })) << text;
    EXPECT_EQ(CodeOf(server_), ErrorCode::kHandshakeFailed) << text;
  }
}

TEST_F(TlsHandshakeTest, ClientThatMeetsAPlainTextServerSaysSo) {
  StartClient();
  ASSERT_TRUE(WriteAll(server_socket_.get(), "HTTP/1.1 400 Bad Request\r\n\r\n").ok());
  ASSERT_TRUE(RunUntil(*loop_, [this] { return client_.has_value(); }));
  EXPECT_EQ(CodeOf(client_), ErrorCode::kHandshakeFailed);
}

TEST_F(TlsHandshakeTest, PeerThatGoesAwayInTheMiddleIsNoTls) {
  StartServer();
  ASSERT_TRUE(WriteAll(client_socket_.get(), std::string("\x16\x03\x01\x02", 4)).ok());
  client_socket_.Reset();
  ASSERT_TRUE(RunUntil(*loop_, [this] { return server_.has_value(); }));
  EXPECT_EQ(CodeOf(server_), ErrorCode::kHandshakeFailed);
}

TEST_F(TlsHelloTest, EveryTruncationOfAHelloCostsOnlyItsOwnConnection) {
  const std::string hello = CatchHello();
  for (size_t cut = 0; cut < hello.size(); cut += 7) {
    SetUp();
    server_.reset();
    StartServer();
    ASSERT_TRUE(WriteAll(client_socket_.get(), ByteView(hello).substr(0, cut)).ok());
    client_socket_.Reset();
    ASSERT_TRUE(RunUntil(*loop_, [this] { return server_.has_value(); })) << cut;
    EXPECT_FALSE(server_->ok()) << cut;
  }
}

TEST_F(TlsHelloTest, EveryFlippedByteOfAHelloIsRefused) {
  const std::string hello = CatchHello();
  // From behind the record's header on: its version is not part of what the key signs.
  for (size_t at = 5; at < hello.size(); ++at) {
    SetUp();
    server_.reset();
    StartServer();
    std::string bent = hello;
    bent[at] = static_cast<char>(bent[at] ^ 0x20);
    ASSERT_TRUE(WriteAll(client_socket_.get(), bent).ok());
    ::shutdown(client_socket_.get(), SHUT_WR);
    ASSERT_TRUE(RunUntil(*loop_, [this] { return server_.has_value(); })) << at;
    EXPECT_FALSE(server_->ok()) << at;
  }
}

TEST_F(TlsHandshakeTest, DestroyedInTheMiddleItClosesTheSocketAndSaysNothing) {
  StartServer();
  Settle(*loop_);
  server_handshake_.reset();
  char byte = 0;
  EXPECT_EQ(::recv(client_socket_.get(), &byte, 1, 0), 0);
  EXPECT_FALSE(server_.has_value());
}

TEST_F(TlsHandshakeTest, MayBeDestroyedByItsOwnOutcome) {
  bool is_done = false;
  server_handshake_ = StartTlsServer(
      *loop_, std::move(server_socket_), [](std::string_view) { return std::nullopt; },
      std::chrono::seconds(20),
      [&](const Result<TlsConnection>& result) {
        server_handshake_.reset();
        is_done = !result.ok();
      });
  client_socket_.Reset();
  EXPECT_TRUE(RunUntil(*loop_, [&] { return is_done; }));
}

TEST(TlsKeyTest, KeyIsSixtyFourHexadecimalDigitsOfEitherCase) {
  const auto key = ParseTlsKey("00ff" + std::string(56, '1') + "AbcD");
  ASSERT_TRUE(key.ok());
  EXPECT_EQ(key->view().size(), kTlsKeyBytes);
  EXPECT_EQ(key->view().substr(0, 2), std::string_view("\x00\xff", 2));
  EXPECT_EQ(key->view().substr(30), "\xab\xcd");
}

TEST(TlsKeyTest, OtherTextIsRefusedWithoutBeingRepeated) {
  for (const std::string& text :
       {std::string(), std::string(63, 'a'), std::string(65, 'a'), std::string(63, 'a') + "g",
        std::string(62, 'a') + "\r\n", " " + std::string(63, 'a')}) {
    const auto key = ParseTlsKey(text);
    ASSERT_FALSE(key.ok()) << text;
    EXPECT_EQ(key.status().message().find("aaaa"), std::string::npos);
  }
}

}  // namespace
}  // namespace hvdray
