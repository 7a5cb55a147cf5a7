// SPDX-License-Identifier: Apache-2.0
// Bytes of a hostile peer into a whole link, of either side. Whatever comes, the user hears of the
// end once, of nothing after it, and of no message before a Hello. Byte 0 of the input: bit 0 the
// role, bit 1 that the start-up has been gone through, the rest how the bytes are split.
#include <string>

#include "tests/fakes/fake_stream.h"
#include "tests/fakes/link_calls.h"
#include "wire/link.h"
#include "wire/message_codec.h"

namespace {

using namespace hvdray;
using namespace hvdray::wire;

constexpr std::string_view kAnnounced = "HVDRAY-AGENT/1 4711 00112233445566778899aabbccddeeff\n";

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  if (size == 0) return 0;
  static const std::unique_ptr<Loop> loop = Loop::Create().value();
  static const std::string hello = EncodeMessage({0, Hello{}}).value();
  const LinkRole role = (data[0] & 1) != 0 ? LinkRole::kAgent : LinkRole::kLauncher;
  auto [stream, wire] = FakeWire::Make();
  int closes = 0;
  int messages = 0;
  LinkCalls calls;
  calls.on_message = [&](Message&& message) {
    HVDRAY_CHECK(closes == 0);
    HVDRAY_CHECK((messages++ == 0) == std::holds_alternative<Hello>(message.body));
    // What a link lets through can be sent on as it is.
    HVDRAY_CHECK(EncodeMessage(message).ok());
  };
  calls.on_closed = [&](const Status&) { HVDRAY_CHECK(++closes == 1); };
  calls.on_noise = [&](ByteView line) {
    HVDRAY_CHECK(closes == 0 && messages == 0);
    HVDRAY_CHECK(line.find('\n') == ByteView::npos);
  };
  const auto link = MakeLink(*loop, role, std::move(stream));
  link->Start(calls);
  link->Send({0, Hello{}});
  if ((data[0] & 2) != 0) {
    if (role == LinkRole::kLauncher) wire->Deliver(kAnnounced);
    wire->Deliver(hello);
    HVDRAY_CHECK(messages == 1 && closes == 0);
  }
  const ByteView input(reinterpret_cast<const char*>(data) + 1, size - 1);
  wire->Deliver(input, 1 + (data[0] >> 2) * size_t{16});
  if (closes == 0) wire->Close({});
  HVDRAY_CHECK(closes == 1);
  return 0;
}
