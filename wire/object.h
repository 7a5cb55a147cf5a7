// SPDX-License-Identifier: Apache-2.0
// Messages about objects: bytes that are kept once a host, and that its workers map.
// docs/protocol.md, "ObjectPiece".
#ifndef HVDRAY_WIRE_OBJECT_H_
#define HVDRAY_WIRE_OBJECT_H_

#include <cstddef>
#include <cstdint>
#include <string>

namespace hvdray::wire {

inline constexpr size_t kMaxObjectPiece = size_t{64} << 10;

/// Launcher to agent: the next bytes of an object. The first piece begins it, and the one that
/// reaches `size` completes it.
struct ObjectPiece {
  int64_t object = 0;
  uint64_t size = 0;    ///< Of the whole object.
  uint64_t offset = 0;  ///< As many bytes as came before.
  std::string bytes;    ///< At most kMaxObjectPiece.
  bool operator==(const ObjectPiece&) const = default;
};

/// Launcher to agent, which has sent SharesMemory: all of an object, instead of its pieces. It
/// lies in sealed memory of the launcher's, which keeps it until the agent has answered by
/// ObjectProblem, whose error is 0 if it has opened it.
struct MapObject {
  int64_t object = 0;
  int32_t descriptor = 0;  ///< Of the process that Welcome names.
  bool operator==(const MapObject&) const = default;
};

/// Launcher to agent: give a complete object to a worker, on its channel, behind what was sent
/// there. Dropped if the worker is gone.
struct GiveObject {
  int32_t rank = 0;
  int64_t object = 0;
  bool operator==(const GiveObject&) const = default;
};

/// Launcher to agent: the object is no longer needed. Workers that have it keep it.
struct DropObject {
  int64_t object = 0;
  bool operator==(const DropObject&) const = default;
};

/// Agent to launcher, once: this host can't hold the object. Its other pieces are ignored.
struct ObjectProblem {
  int64_t object = 0;
  int32_t error = 0;  ///< errno
  bool operator==(const ObjectProblem&) const = default;
};

}  // namespace hvdray::wire

#endif  // HVDRAY_WIRE_OBJECT_H_
