// SPDX-License-Identifier: Apache-2.0
// An endpoint listener whose agents the test plays.
#ifndef HVDRAY_TESTS_FAKES_FAKE_ENDPOINT_LISTENER_H_
#define HVDRAY_TESTS_FAKES_FAKE_ENDPOINT_LISTENER_H_

#include <map>
#include <utility>

#include "cluster/transport/endpoint_listener.h"

namespace hvdray {

class FakeEndpointListener : public EndpointListener {
 public:
  uint16_t port() const override { return 4711; }
  void Expect(int endpoint, OnArrival on_arrival) override {
    expected[endpoint] = std::move(on_arrival);
  }
  void Forget(int endpoint) override { expected.erase(endpoint); }
  const EndpointRefusals& refusals() const override { return refusals_; }

  /// The agent of an endpoint that is expected comes in.
  void Arrive(int endpoint, std::unique_ptr<ByteStream> stream) {
    const auto found = expected.find(endpoint);
    HVDRAY_CHECK(found != expected.end());
    const OnArrival on_arrival = std::move(found->second);
    expected.erase(found);
    on_arrival({std::move(stream), TcpAddress::FromIpv4(0x0100007f, 1234)});
  }

  std::map<int, OnArrival> expected;

 private:
  EndpointRefusals refusals_;
};

}  // namespace hvdray

#endif  // HVDRAY_TESTS_FAKES_FAKE_ENDPOINT_LISTENER_H_
