// SPDX-License-Identifier: Apache-2.0
// Bytes between any two ranks of a job, over TCP. Gloo's transport carries them; the algorithms are
// in network_communicator.cc.
#ifndef HVDRAY_COLLECTIVE_MESH_H_
#define HVDRAY_COLLECTIVE_MESH_H_

#include <chrono>
#include <cstddef>
#include <functional>
#include <memory>
#include <string>
#include <string_view>

#include "base/result.h"
#include "base/types.h"
#include "collective/communicator.h"
#include "collective/store.h"

namespace hvdray {

/// A connection between each two ranks. Small messages go at once into memory that the receiver
/// has set apart; large ones go straight to where the receiver wants them, once it has said where.
/// Each kind keeps its order between two ranks.
///
/// Blocks: where said. Threads: one caller at a time; Abort() from any.
/// Errors of all: kAborted when a rank has died or has called Abort(), naming one; when two ranks
/// expect different sizes; kDeadlineExceeded when a rank lets wait longer than the timeout. After
/// an error the mesh has ended for all ranks.
class Mesh {
 public:
  static constexpr size_t kMessageBytes = size_t{16} << 10;
  /// Large messages go in pieces of this size and a rest.
  static constexpr size_t kPieceBytes = size_t{256} << 10;
  /// Longer than it takes until all ranks know of one that has died.
  static constexpr std::chrono::milliseconds kNewsTravels{200};
  /// Large messages that a rank may expect of one peer at a time.
  static constexpr size_t kMostExpected = 8;

  /// Meets all ranks through `store`. Blocks.
  static Result<std::unique_ptr<Mesh>> Connect(const CommunicatorOptions& options, Store& store);
  /// Leaves once the others have taken what this rank has sent to them, at the latest after the
  /// timeout. They may go on with what does not concern this rank.
  ~Mesh();
  Mesh(const Mesh&) = delete;
  Mesh& operator=(const Mesh&) = delete;

  int rank() const;
  int size() const;

  /// Sends up to kMessageBytes, which are copied. Blocks while `peer` is some messages behind.
  Status Send(int peer, const void* data, size_t bytes);
  /// Gets the next message of `peer`, which is as long. Blocks.
  Status Receive(int peer, void* data, size_t bytes);

  /// Where a large message of a peer arrives. Lives no longer than the mesh.
  class Inbound {
   public:
    virtual ~Inbound() = default;
    /// Waits for the next piece of up to kPieceBytes, in order.
    virtual Status Wait() = 0;
  };
  /// The next large message of `peer` has this size and goes to `memory`, which the result borrows.
  /// Doesn't block.
  Result<std::unique_ptr<Inbound>> Expect(int peer, void* memory, size_t bytes);

  /// A large message on its way to a peer.
  class Outbound {
   public:
    virtual ~Outbound() = default;
    /// Begins to send the next piece of up to kPieceBytes out of `data`, which stays untouched
    /// until Flush(). Doesn't block.
    virtual Status Put(const void* data, size_t bytes) = 0;
    /// Waits until all pieces are with the kernel.
    virtual Status Flush() = 0;
  };
  /// Blocks until `peer` expects these bytes.
  Result<std::unique_ptr<Outbound>> Offer(int peer, size_t bytes);

  /// Ends everything on all ranks with kAborted. They are told `why`, unless a rank is known that
  /// it began with.
  void Abort(const std::string& why);
  /// As Abort(why), with this rank's number.
  void Abort();
  /// As Communicator::EndMeeting().
  void EndMeeting();
  /// Whether all has ended, which it waits for. Threads: any.
  bool AwaitEnd(Duration longest);
  /// OK, or why everything has ended: kEnded unless a rank is known that it began with.
  Status CheckAlive();
  static constexpr std::string_view kEnded = "the communicator has ended";
  /// Called once when everything ends, from any thread; not after OnEnd({}).
  void OnEnd(std::function<void()> act);

 private:
  class Impl;
  explicit Mesh(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

}  // namespace hvdray

#endif  // HVDRAY_COLLECTIVE_MESH_H_
