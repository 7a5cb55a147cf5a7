// A seat listener whose agents the test plays.
#ifndef HVDRAY_TESTS_FAKES_FAKE_SEAT_LISTENER_H_
#define HVDRAY_TESTS_FAKES_FAKE_SEAT_LISTENER_H_

#include <map>
#include <utility>

#include "cluster/ray/seat_listener.h"

namespace hvdray {

class FakeSeatListener : public SeatListener {
 public:
  uint16_t port() const override { return 4711; }
  void Expect(int seat, OnArrival on_arrival) override { expected[seat] = std::move(on_arrival); }
  void Forget(int seat) override { expected.erase(seat); }
  const SeatRefusals& refusals() const override { return refusals_; }

  /// The agent of a seat that is expected comes in.
  void Arrive(int seat, std::unique_ptr<ByteStream> stream) {
    const auto found = expected.find(seat);
    HVDRAY_CHECK(found != expected.end());
    const OnArrival on_arrival = std::move(found->second);
    expected.erase(found);
    on_arrival({std::move(stream), TcpAddress::FromIpv4(0x0100007f, 1234)});
  }

  std::map<int, OnArrival> expected;

 private:
  SeatRefusals refusals_;
};

}  // namespace hvdray

#endif  // HVDRAY_TESTS_FAKES_FAKE_SEAT_LISTENER_H_
