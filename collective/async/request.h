// SPDX-License-Identifier: Apache-2.0
// What ranks tell each other of an operation, and how a round carries it. Pure.
#ifndef HVDRAY_COLLECTIVE_ASYNC_REQUEST_H_
#define HVDRAY_COLLECTIVE_ASYNC_REQUEST_H_

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"

namespace hvdray {

/// The numbers are those of hvdray_kind.
enum class RequestKind : uint8_t {
  kAllReduce,
  kAllGather,
  kBroadcast,
  kAllToAll,
  kReduceScatter,
  kBarrier,
  kJoin,
  kAddProcessSet,
  kRemoveProcessSet,
};
/// "allreduce", "join", …
std::string_view Name(RequestKind kind);

/// A byte that is 0 or 1, beside the types of DataType.
inline constexpr uint8_t kBoolType = 9;
/// Bytes of an element; `type` is of DataType or kBoolType.
size_t SizeOfType(uint8_t type);
std::string_view NameOfType(uint8_t type);

/// One rank's wish for one operation.
struct Request {
  RequestKind kind = RequestKind::kBarrier;
  uint8_t type = 0;
  uint8_t op = 0;
  bool is_on_device = false;  ///< kJoin: whether it can take part in operations there.
  int process_set = 0;        ///< 0 for kAddProcessSet and kRemoveProcessSet.
  int root = 0;
  uint32_t group_size = 0;  ///< 0: in no group.
  uint64_t group = 0;       ///< GroupOf() its names.
  int64_t sequence = 0;     ///< Of kJoin.
  double prescale = 1;
  double postscale = 1;
  std::vector<int64_t> shape;
  /// kAllToAll: rows for each member; kAddProcessSet: ranks; kRemoveProcessSet: the id.
  std::vector<int64_t> numbers;
  std::string name;

  size_t Elements() const;
  size_t Bytes() const { return Elements() * SizeOfType(type); }
};

/// A request of this rank, encoded. One that is kept for its name is sent again without a search.
struct OwnRequest {
  std::string encoded;
  // The negotiator's: the number by which others know it.
  uint32_t number = 0;
  uint32_t era = 0;  ///< In which it has this number; 0: `encoded` is new.
};

/// What joins are called.
inline constexpr std::string_view kJoinName = "hvdray.join";

/// Knows a group by its names, in any order.
uint64_t GroupOf(std::vector<std::string_view> names);

std::string Encode(const Request& request);
/// Errors: kAborted, it is no request.
Result<Request> DecodeRequest(std::string_view bytes);

/// How a rank shuts down.
enum class Leave : uint8_t {
  kInOrder,
  kFailed,  ///< Its devices have not done all that was planned.
};

/// What one rank brings to a round. Views are of the message.
struct RoundMessage {
  bool is_leaving = false;  ///< It shuts down.
  Leave leave = Leave::kInOrder;
  std::string_view why;                 ///< Then: "raised ValueError: …"; may be empty.
  bool has_stalled = false;             ///< It has waited too long for the others.
  std::vector<uint64_t> known;          ///< Bits: numbers of requests that the others know.
  std::vector<std::string_view> fresh;  ///< Encoded requests that they don't.
};

std::string Encode(const RoundMessage& message);
/// Errors: kAborted, it is none, or of another version of this library.
Result<RoundMessage> DecodeMessage(std::string_view bytes);

}  // namespace hvdray

#endif  // HVDRAY_COLLECTIVE_ASYNC_REQUEST_H_
