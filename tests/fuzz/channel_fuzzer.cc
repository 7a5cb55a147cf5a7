// SPDX-License-Identifier: Apache-2.0
// Bytes of a hostile worker into its channel. How they were split must not matter, nothing may come
// of it after its violation, and what is told must keep the limits. Byte 0 of the input: how the
// bytes are split.
#include <fmt/format.h>

#include <algorithm>
#include <string>

#include "base/text.h"
#include "launcher/engine/worker_channels.h"

namespace {

using namespace hvdray;

constexpr int kWorker = 3;

/// All that is told of `input`, with the pieces of each blob put together.
std::string Transcript(ByteView input, size_t step) {
  std::string told;
  uint32_t reports = 0;
  uint64_t taken = 0;
  uint64_t size = 0;
  bool is_over = false;
  bool is_greeted = false;
  const auto check = [&](int worker) { HVDRAY_CHECK(worker == kWorker && !is_over); };
  WorkerChannels channels(
      {.on_hello =
           [&](int worker, const Json& hello) {
             check(worker);
             HVDRAY_CHECK(!is_greeted && taken == size);
             is_greeted = true;
             told += "hello " + DumpJson(hello) + '\n';
           },
       .on_report =
           [&](int worker, uint32_t number, const Json& metrics) {
             check(worker);
             HVDRAY_CHECK(number == ++reports && taken == size);
             HVDRAY_CHECK(CheckMetrics(metrics).ok());
             told += "report " + DumpJson(metrics) + '\n';
           },
       .on_data =
           [&](int worker, const Json& data, ByteView piece, uint64_t at, uint64_t of) {
             check(worker);
             if (at == 0) {
               HVDRAY_CHECK(taken == size);
               taken = 0;
               size = of;
               told += fmt::format("data {} {} ", DumpJson(data), of);
             }
             HVDRAY_CHECK(at == taken && of == size && piece.size() <= size - at);
             HVDRAY_CHECK(!piece.empty() || of == 0);
             taken += piece.size();
             told += piece;
           },
       .on_violation =
           [&](int worker, const Status& why) {
             check(worker);
             is_over = true;
             HVDRAY_CHECK(why.code() == ErrorCode::kProtocolError);
             HVDRAY_CHECK(why.message().size() < 400 && ShownLine(why.message()) == why.message());
             HVDRAY_CHECK(!ChannelError(why).text.empty());
             told += "violation: " + std::string(why.message());
           }});
  while (!input.empty()) {
    channels.Feed(kWorker, input.substr(0, step));
    input.remove_prefix(std::min(step, input.size()));
  }
  return told;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  if (size == 0) return 0;
  const ByteView input(reinterpret_cast<const char*>(data) + 1, size - 1);
  const std::string whole = Transcript(input, input.size() + 1);
  HVDRAY_CHECK(Transcript(input, 1 + data[0] % 7) == whole);
  return 0;
}
