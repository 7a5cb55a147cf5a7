// SPDX-License-Identifier: Apache-2.0
// Bytes of a hostile peer into frame decoder and codec. What decodes must encode, and come back
// equal; how the bytes were split must not matter, but for what an error quotes.
#include <algorithm>
#include <string>
#include <vector>

#include "wire/message_codec.h"

namespace {

using namespace hvdray;
using namespace hvdray::wire;

struct Outcome {
  std::vector<Message> messages;
  Status error;
};

Outcome DecodeAll(ByteView input, size_t step, size_t first_limit = kMaxAgentHello) {
  Outcome outcome;
  FrameDecoder decoder(first_limit);
  while (!input.empty() && outcome.error.ok()) {
    const size_t count = std::min(step, input.size());
    decoder.Push(input.substr(0, count));
    input.remove_prefix(count);
    for (;;) {
      Result<std::optional<Frame>> frame = decoder.Next();
      if (!frame.ok()) {
        outcome.error = frame.status();
        break;
      }
      if (!frame->has_value()) break;
      Result<Message> message = DecodeMessage((*frame)->header, (*frame)->body);
      if (!message.ok()) {
        outcome.error = message.status();
        break;
      }
      outcome.messages.push_back(std::move(message).value());
    }
    // Never more than what was sent is kept.
    HVDRAY_CHECK(decoder.BufferedBytes() <= kHeaderBytes + 4 + kMaxControlJson + kMaxRaw);
  }
  return outcome;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const ByteView input(reinterpret_cast<const char*>(data), size);
  const Outcome whole = DecodeAll(input, input.size() + 1);
  const Outcome split = DecodeAll(input, 1 + (size > 0 ? data[0] % 7 : 0));
  HVDRAY_CHECK(whole.messages == split.messages);
  // A line that is no frame is quoted as far as it has come.
  HVDRAY_CHECK(whole.error.code() == split.error.code());
  for (const Message& message : whole.messages) {
    const Result<std::string> bytes = EncodeMessage(message);
    HVDRAY_CHECK(bytes.ok());
    const Outcome again = DecodeAll(*bytes, bytes->size(), bytes->size());
    HVDRAY_CHECK(again.error.ok() && again.messages.size() == 1);
    HVDRAY_CHECK(again.messages.front() == message);
  }
  return 0;
}
