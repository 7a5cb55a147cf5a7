// SPDX-License-Identifier: Apache-2.0
// The objects that this host keeps: sealed memory, one copy of each, which workers map. They end
// with the agent.
#ifndef HVDRAY_AGENT_OBJECT_STORE_H_
#define HVDRAY_AGENT_OBJECT_STORE_H_

#include <cstdint>
#include <map>
#include <optional>

#include "base/fd.h"
#include "base/result.h"
#include "wire/object.h"

namespace hvdray {

/// Owns the memory. Threads: the loop's.
class ObjectStore {
 public:
  /// Stores a piece; seals the object with its last one. Returns the problem to report, if this
  /// host can't hold it. Ignores what follows of an object that was dropped. Errors: kProtocolError
  /// for a piece out of order, or of an object that is complete.
  Result<std::optional<wire::ObjectProblem>> Add(const wire::ObjectPiece& piece);
  /// All of an object: the sealed memory `descriptor` of process `pid`. Returns the answer to
  /// report, whose error is 0 if this host has it. Errors: kProtocolError if the object is here
  /// already.
  Result<wire::ObjectProblem> Map(int64_t object, uint32_t pid, int descriptor);
  /// A read-only descriptor of a complete object.
  struct View {
    UniqueFd fd;  ///< Invalid: this host couldn't hold it, which the launcher was told.
    uint64_t size = 0;
  };
  /// Errors: kProtocolError for an object that is unknown or not complete.
  Result<View> Get(int64_t object) const;
  /// Ignores unknown ones.
  void Drop(int64_t object);

 private:
  struct Object {
    UniqueFd fd;  // Invalid: this host can't hold it.
    uint64_t size = 0;
    uint64_t stored = 0;
  };

  std::map<int64_t, Object> objects_;
};

}  // namespace hvdray

#endif  // HVDRAY_AGENT_OBJECT_STORE_H_
