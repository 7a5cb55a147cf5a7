// SPDX-License-Identifier: Apache-2.0
// The objects of a client of `hvdray serve`, on their way from it to all hosts.
#ifndef HVDRAY_LAUNCHER_ENGINE_CLIENT_OBJECTS_H_
#define HVDRAY_LAUNCHER_ENGINE_CLIENT_OBJECTS_H_

#include <cstdint>
#include <deque>
#include <memory>
#include <set>
#include <vector>

#include "base/fd.h"
#include "base/status.h"
#include "base/types.h"
#include "launcher/engine/control_messages.h"
#include "launcher/engine/job_client.h"
#include "wire/object.h"

namespace hvdray {

/// Hosts get the bytes of an object from the first to the last, and objects in the order of their
/// rising numbers, none before there is room for it. Whatever names an object that hosts do not
/// keep, or could not hold, is refused. Threads: one.
class ClientObjects {
 public:
  /// `sink` outlives it.
  explicit ClientObjects(JobClient::ObjectSink& sink) : sink_(sink) {}

  /// The next object; its bytes follow by AddPiece(), unless it is empty or memory. Errors: kUsage,
  /// those of SealedSize(); its bytes are skipped then.
  Status Put(const control::Put& put);
  /// The next bytes of the last object, `left` before its end.
  void AddPiece(ByteView piece, uint64_t left);

  /// Bytes wait for room.
  bool is_waiting() const { return !parts_.empty(); }
  bool CanSend() const { return is_waiting() && sink_.HasObjectRoom(); }
  /// Sends the next bytes, if CanSend(). Errors: the object's memory could not be read.
  Status SendNext();

  /// Errors: kUsage if hosts keep no such object, kOutOfResources if one could not hold it.
  Status Check(const std::vector<int64_t>& objects) const;
  /// A host could not hold it. True: it is one of these, and no host has failed before.
  bool Fail(int64_t object);
  /// Hosts may forget it; true: they keep it.
  bool Drop(int64_t object);
  /// The client has gone. Returns what hosts may forget.
  std::set<int64_t> Clear();

 private:
  struct Part {
    wire::ObjectPiece piece;
    /// All of it, of which `piece` is the next one, without its bytes. Null: this piece alone.
    std::shared_ptr<const UniqueFd> memory;
  };

  JobClient::ObjectSink& sink_;
  std::set<int64_t> objects_;  // that hosts keep
  std::set<int64_t> failed_;
  std::deque<Part> parts_;  // until hosts have room for them
  int64_t last_ = 0;
  uint64_t size_ = 0;  // of the last one
  bool is_refused_ = false;
};

}  // namespace hvdray

#endif  // HVDRAY_LAUNCHER_ENGINE_CLIENT_OBJECTS_H_
