// SPDX-License-Identifier: Apache-2.0
// Two ends of one TLS connection over a socketpair, on one loop.
#ifndef HVDRAY_TESTS_UNIT_TLS_TLS_PAIR_H_
#define HVDRAY_TESTS_UNIT_TLS_TLS_PAIR_H_

#include <gtest/gtest.h>

#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "base/tls_stream.h"
#include "tests/fakes/loop_runner.h"

namespace hvdray {

inline Secret TestKey(char fill = 'k') { return Secret(std::string(kTlsKeyBytes, fill)); }

/// What one end has seen of its stream.
struct StreamLog final : ByteStream::Owner {
  std::string got;
  int drained = 0;
  std::optional<Status> closed;

  void OnData(ByteView bytes) override { got += bytes; }
  void OnDrained() override { ++drained; }
  void OnClosed(Status why) override { closed = std::move(why); }
};

class TlsTest : public testing::Test {
 protected:
  using Outcome = std::optional<Result<TlsConnection>>;

  static TlsDone Into(Outcome& outcome) {
    return [&outcome](Result<TlsConnection> result) { outcome.emplace(std::move(result)); };
  }

  void SetUp() override {
    auto [client, server] = MakeSocketPair().value();
    client_socket_ = std::move(client);
    server_socket_ = std::move(server);
  }

  void StartClient(Secret key = TestKey(), std::string identity = "endpoint",
                   Duration limit = std::chrono::seconds(20)) {
    client_handshake_ = StartTlsClient(*loop_, std::move(client_socket_), std::move(identity),
                                       std::move(key), limit, Into(client_));
  }
  void StartServer(Duration limit = std::chrono::seconds(20)) {
    server_handshake_ = StartTlsServer(
        *loop_, std::move(server_socket_),
        [](std::string_view identity) {
          return identity == "endpoint" ? std::optional(TestKey()) : std::nullopt;
        },
        limit, Into(server_));
  }
  bool BothAreDone() {
    return RunUntil(*loop_, [this] { return client_.has_value() && server_.has_value(); });
  }
  /// Both ends open and started.
  void Connect() {
    StartClient();
    StartServer();
    ASSERT_TRUE(BothAreDone());
    ASSERT_TRUE(client_->ok()) << client_->status().ToString();
    ASSERT_TRUE(server_->ok()) << server_->status().ToString();
    client_stream_ = std::move((*client_)->stream);
    server_stream_ = std::move((*server_)->stream);
    client_stream_->Start(at_client_);
    server_stream_->Start(at_server_);
  }

  std::unique_ptr<Loop> loop_ = Loop::Create().value();
  UniqueFd client_socket_;
  UniqueFd server_socket_;
  Outcome client_;
  Outcome server_;
  std::unique_ptr<TlsHandshake> client_handshake_;
  std::unique_ptr<TlsHandshake> server_handshake_;
  StreamLog at_client_;
  StreamLog at_server_;
  std::unique_ptr<ByteStream> client_stream_;
  std::unique_ptr<ByteStream> server_stream_;
};

}  // namespace hvdray

#endif  // HVDRAY_TESTS_UNIT_TLS_TLS_PAIR_H_
