// SPDX-License-Identifier: Apache-2.0
// A listener for agents on loopback, agents that dial it, and hostile peers.
#ifndef HVDRAY_TESTS_UNIT_ENDPOINTS_ENDPOINT_HARNESS_H_
#define HVDRAY_TESTS_UNIT_ENDPOINTS_ENDPOINT_HARNESS_H_

#include <gtest/gtest.h>

#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/tls_stream.h"
#include "cluster/transport/endpoint_address.h"
#include "cluster/transport/endpoint_dialler.h"
#include "cluster/transport/endpoint_listener.h"
#include "tests/fakes/loop_runner.h"

namespace hvdray {

using std::chrono::milliseconds;

inline Secret EndpointKey(char fill = 'k') { return Secret(std::string(kTlsKeyBytes, fill)); }

class EndpointTest : public testing::Test {
 protected:
  using Outcome = std::optional<Result<std::unique_ptr<ByteStream>>>;

  void Listen(EndpointListenerOptions options = {}) {
    if (options.addresses.empty()) options.addresses = {"127.0.0.1"};
    auto listener = EndpointListener::Open(*loop_, options, EndpointKey());
    ASSERT_TRUE(listener.ok()) << listener.status().ToString();
    listener_ = std::move(listener).value();
  }
  void Expect(int endpoint) {
    listener_->Expect(endpoint, [this, endpoint](EndpointArrival a) {
      arrived_.emplace(endpoint, std::move(a));
    });
  }
  TcpAddress Door(std::string_view ip = "127.0.0.1") const {
    TcpAddress address = *ParseIpLiteral(ip);
    address.port = listener_->port();
    return address;
  }
  EndpointDialOptions To(std::vector<TcpAddress> addresses, int endpoint) const {
    EndpointDialOptions options;
    options.addresses = std::move(addresses);
    options.endpoint = endpoint;
    options.limit = options.handshake_limit = std::chrono::minutes(1);
    options.shortest_pause = milliseconds(1);
    options.longest_pause = milliseconds(4);
    return options;
  }
  std::unique_ptr<EndpointDialler> Dial(EndpointDialOptions options, Outcome& outcome,
                                        char key = 'k') {
    return DialEndpoint(*loop_, std::move(options), EndpointKey(key),
                        [&outcome](Result<std::unique_ptr<ByteStream>> result) {
                          outcome.emplace(std::move(result));
                        });
  }
  /// A peer that has connected and sent nothing.
  UniqueFd Stranger() const {
    Result<UniqueFd> socket = BeginConnect(Door());
    EXPECT_TRUE(socket.ok());
    return socket.ok() ? std::move(socket).value() : UniqueFd();
  }
  static bool Is(const Outcome& outcome, ErrorCode code) {
    return outcome && !outcome->ok() && outcome->status().code() == code;
  }

  std::unique_ptr<Loop> loop_ = Loop::Create().value();
  std::unique_ptr<EndpointListener> listener_;
  std::map<int, EndpointArrival> arrived_;
};

}  // namespace hvdray

#endif  // HVDRAY_TESTS_UNIT_ENDPOINTS_ENDPOINT_HARNESS_H_
