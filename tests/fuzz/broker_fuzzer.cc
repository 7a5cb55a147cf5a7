// SPDX-License-Identifier: Apache-2.0
#include <cstdint>
#include <cstdlib>
#include <string>

#include "cluster/ray/ray_broker.h"
#include "tests/fakes/fake_stream.h"

namespace {

struct Told {
  std::string text;  // a letter for each message
  int closed = 0;
};

void Require(bool is_true) {
  if (!is_true) std::abort();
}

/// What is told of bytes that arrive `piece` at a time.
Told Deliver(const std::string& bytes, size_t piece) {
  Told told;
  auto [stream, wire] = hvdray::FakeWire::Make();
  const auto tell = [&told](char letter) {
    Require(told.closed == 0);
    told.text += letter;
  };
  hvdray::RayBroker broker(
      std::move(stream),
      {[tell](hvdray::BrokerHello) { tell('h'); }, [tell](hvdray::BrokerNodes) { tell('n'); },
       [tell](hvdray::BrokerGroup group) {
         Require(!group.name.empty());
         tell('g');
       },
       [tell](hvdray::BrokerEndpointStarted endpoint) {
         Require(endpoint.endpoint >= 0 && endpoint.endpoint <= hvdray::kMaxBrokerEndpoint &&
                 endpoint.pid >= 0);
         tell('s');
       },
       [tell](hvdray::BrokerEndpointEnded) { tell('e'); },
       [tell](hvdray::BrokerSignal signal) {
         Require(signal.signo > 0);
         tell('!');
       },
       [&told](hvdray::Status why) {
         Require(!why.ok());
         ++told.closed;
       }});
  broker.Start();
  wire->Deliver(bytes, piece);
  wire->Close({});
  return told;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string bytes(reinterpret_cast<const char*>(data), size);
  const Told whole = Deliver(bytes, SIZE_MAX);
  Require(whole.closed == 1);
  Require(whole.text.find('h', 1) == std::string::npos);
  Require(Deliver(bytes, 3).text == whole.text);
  return 0;
}
