// SPDX-License-Identifier: Apache-2.0
// A ByteStream whose network is the test: what was written leaves, splits, stalls, is lost or comes
// late by hand. Like the real ones it calls no owner from within its own methods.
#ifndef HVDRAY_TESTS_FAKES_FAKE_STREAM_H_
#define HVDRAY_TESTS_FAKES_FAKE_STREAM_H_

#include <algorithm>
#include <cstdint>
#include <memory>
#include <string>
#include <utility>

#include "base/byte_stream.h"

namespace hvdray {

/// The test's end of a FakeStream; may outlive it.
class FakeWire {
 public:
  /// A stream and the wire that it hangs on. Shared, since either may go first.
  static std::pair<std::unique_ptr<ByteStream>, std::shared_ptr<FakeWire>> Make();

  /// Gives bytes to the stream's user, at most `piece` at a time. Paused or not started: they wait.
  /// Ends when the user destroys the stream.
  void Deliver(ByteView bytes, size_t piece = SIZE_MAX) {
    arrived_ += bytes;
    Flush(piece);
  }
  /// What waited while reading was paused.
  void Flush(size_t piece = SIZE_MAX) {
    while (!arrived_.empty() && is_reading_ && owner_ != nullptr) {
      const std::string part = arrived_.substr(0, piece);
      arrived_.erase(0, part.size());
      owner_->OnData(part);
    }
  }
  /// From now on the system takes only so many bytes; the rest is queued until Drain().
  void SetRoom(size_t bytes) { room_ = bytes; }
  /// All that is queued leaves, and so does what OnDrained() writes, up to `room` bytes.
  void Drain(size_t room = SIZE_MAX) {
    room_ = room;
    if (queued_.empty()) return;
    const std::string waiting = std::exchange(queued_, {});
    Take(waiting);
    if (queued_.empty() && owner_ != nullptr) owner_->OnDrained();
  }
  /// What has left and was not taken before, at most `limit` bytes: to be delivered elsewhere,
  /// late, in part, or not at all.
  std::string TakeSent(size_t limit = SIZE_MAX) {
    std::string bytes = sent_.substr(0, limit);
    sent_.erase(0, bytes.size());
    return bytes;
  }
  /// The peer or the network ends the connection.
  void Close(const Status& status) {
    ByteStream::Owner* const owner = std::exchange(owner_, nullptr);
    if (owner != nullptr) owner->OnClosed(status);
  }
  bool is_destroyed() const { return is_destroyed_; }
  bool is_reading() const { return is_reading_; }

 private:
  friend class FakeStream;

  void Take(ByteView bytes) {
    const size_t count = std::min(room_, bytes.size());
    room_ -= room_ == SIZE_MAX ? 0 : count;
    sent_ += bytes.substr(0, count);
    queued_ += bytes.substr(count);
  }

  ByteStream::Owner* owner_ = nullptr;  // while the stream is started and open
  std::string arrived_;
  std::string sent_;
  std::string queued_;
  size_t room_ = SIZE_MAX;
  bool is_reading_ = false;
  bool is_destroyed_ = false;
};

class FakeStream : public ByteStream {
 public:
  explicit FakeStream(std::shared_ptr<FakeWire> wire) : wire_(std::move(wire)) {}
  ~FakeStream() override {
    wire_->is_destroyed_ = true;
    wire_->owner_ = nullptr;
  }
  void Start(Owner& owner) override {
    wire_->owner_ = &owner;
    wire_->is_reading_ = true;
  }
  void Write(std::string bytes) override {
    if (wire_->queued_.empty()) {
      wire_->Take(bytes);
    } else {
      wire_->queued_ += bytes;
    }
  }
  size_t QueuedBytes() const override { return wire_->queued_.size(); }
  void SetReading(bool is_reading) override { wire_->is_reading_ = is_reading; }

 private:
  std::shared_ptr<FakeWire> wire_;  // the test holds it as well
};

inline std::pair<std::unique_ptr<ByteStream>, std::shared_ptr<FakeWire>> FakeWire::Make() {
  auto wire = std::make_shared<FakeWire>();
  return {std::make_unique<FakeStream>(wire), wire};
}

/// Moves at most `limit` bytes that have left `from` to `to`, `piece` at a time.
inline void Carry(FakeWire& from, FakeWire& to, size_t limit = SIZE_MAX, size_t piece = SIZE_MAX) {
  to.Deliver(from.TakeSent(limit), piece);
}

}  // namespace hvdray

#endif  // HVDRAY_TESTS_FAKES_FAKE_STREAM_H_
