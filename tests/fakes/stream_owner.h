// SPDX-License-Identifier: Apache-2.0
// Starts a stream whose owner is a few functions of a test.
#ifndef HVDRAY_TESTS_FAKES_STREAM_OWNER_H_
#define HVDRAY_TESTS_FAKES_STREAM_OWNER_H_

#include <functional>
#include <memory>
#include <utility>
#include <vector>

#include "base/byte_stream.h"

namespace hvdray {

/// What is not given does nothing.
struct StreamFunctions {
  std::function<void(ByteView)> on_data = {};
  std::function<void()> on_drained = {};
  std::function<void(Status)> on_closed = {};
};

class StreamOwner final : public ByteStream::Owner {
 public:
  explicit StreamOwner(StreamFunctions functions) : functions_(std::move(functions)) {}
  void OnData(ByteView bytes) override {
    if (functions_.on_data) functions_.on_data(bytes);
  }
  void OnDrained() override {
    if (functions_.on_drained) functions_.on_drained();
  }
  void OnClosed(Status why) override {
    if (functions_.on_closed) functions_.on_closed(std::move(why));
  }

 private:
  const StreamFunctions functions_;
};

/// The owner is kept until the program ends: a function may drop the stream, or what holds it.
inline void StartStream(ByteStream& stream, StreamFunctions functions) {
  static std::vector<std::unique_ptr<StreamOwner>> owners;
  owners.push_back(std::make_unique<StreamOwner>(std::move(functions)));
  stream.Start(*owners.back());
}

}  // namespace hvdray

#endif  // HVDRAY_TESTS_FAKES_STREAM_OWNER_H_
