// SPDX-License-Identifier: Apache-2.0
// Bytes of a hostile worker into its channel. How they were split must not matter, nothing may come
// of it after its violation, and what is told must keep the limits. Byte 0 of the input: how the
// bytes are split.
#include <fmt/format.h>

#include <algorithm>
#include <string>
#include <utility>

#include "base/text.h"
#include "launcher/engine/worker_channels.h"

namespace {

using namespace hvdray;

constexpr int kWorker = 3;

/// Notes all that is told of a worker, with the pieces of each blob put together.
class Transcript final : private WorkerChannels::Owner {
 public:
  /// Of `input`, fed in pieces of `step` bytes.
  std::string Read(ByteView input, size_t step) {
    WorkerChannels channels(*this);
    while (!input.empty()) {
      channels.Feed(kWorker, input.substr(0, step));
      input.remove_prefix(std::min(step, input.size()));
    }
    return std::exchange(told_, {});
  }

 private:
  void OnHello(int worker, const Json& hello) override {
    Check(worker);
    HVDRAY_CHECK(!is_greeted_ && taken_ == size_);
    is_greeted_ = true;
    told_ += "hello " + DumpJson(hello) + '\n';
  }
  void OnReport(int worker, uint32_t number, const Json& metrics) override {
    Check(worker);
    HVDRAY_CHECK(number == ++reports_ && taken_ == size_);
    HVDRAY_CHECK(CheckMetrics(metrics).ok());
    told_ += "report " + DumpJson(metrics) + '\n';
  }
  void OnData(int worker, const Json& data, ByteView piece, uint64_t at, uint64_t of) override {
    Check(worker);
    if (at == 0) {
      HVDRAY_CHECK(taken_ == size_);
      taken_ = 0;
      size_ = of;
      told_ += fmt::format("data {} {} ", DumpJson(data), of);
    }
    HVDRAY_CHECK(at == taken_ && of == size_ && piece.size() <= size_ - at);
    HVDRAY_CHECK(!piece.empty() || of == 0);
    taken_ += piece.size();
    told_ += piece;
  }
  void OnViolation(int worker, const Status& why) override {
    Check(worker);
    is_over_ = true;
    HVDRAY_CHECK(why.code() == ErrorCode::kProtocolError);
    HVDRAY_CHECK(why.message().size() < 400 && ShownLine(why.message()) == why.message());
    HVDRAY_CHECK(!ChannelError(why).text.empty());
    told_ += "violation: " + std::string(why.message());
  }
  void SendBytes(int /*worker*/, wire::Stdin /*frame*/) override {}
  void SendObject(int /*worker*/, int64_t /*object*/) override {}
  void OnDropped(int64_t /*object*/) override {}
  bool HasRoom() const override { return true; }
  void GrantRead(int /*worker*/, uint32_t /*bytes*/) override {}

  void Check(int worker) const { HVDRAY_CHECK(worker == kWorker && !is_over_); }

  std::string told_;
  uint32_t reports_ = 0;
  uint64_t taken_ = 0;
  uint64_t size_ = 0;
  bool is_over_ = false;
  bool is_greeted_ = false;
};

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  if (size == 0) return 0;
  const ByteView input(reinterpret_cast<const char*>(data) + 1, size - 1);
  const std::string whole = Transcript().Read(input, input.size() + 1);
  HVDRAY_CHECK(Transcript().Read(input, 1 + data[0] % 7) == whole);
  return 0;
}
