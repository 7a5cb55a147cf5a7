// SPDX-License-Identifier: Apache-2.0
// The JSON of control messages. Internal to the codec: users include message_codec.h.
#ifndef HVDRAY_WIRE_MESSAGE_FIELDS_H_
#define HVDRAY_WIRE_MESSAGE_FIELDS_H_

#include <string>
#include <string_view>

#include "base/json.h"
#include "base/result.h"
#include "wire/message.h"

namespace hvdray::wire {

inline constexpr int32_t kMaxSize = 65536;  ///< Workers of a job.
inline constexpr int32_t kMaxRank = kMaxSize - 1;
/// What messages call a worker: its rank, or the number of its process in an elastic job, which
/// rises for as long as the job lives.
inline constexpr int32_t kMaxWorker = (1 << 24) - 1;

struct StringCounts {
  uint32_t command = 0;
  uint32_t environment = 0;
};

/// Of an Inspect, behind its first three strings.
struct InspectCounts {
  uint32_t files = 0;
  uint32_t modules = 0;
  uint32_t environment = 0;
};

/// Of the messages of directory.h.
struct DirectorySizes {
  uint32_t text = 0;  ///< A target or path, or the bytes of a file.
  uint32_t entries = 0;
};

/// How the bytes behind the JSON are cut; each used by the messages that have such bytes.
struct RawSizes {
  StringCounts strings;
  InspectCounts inspect;
  uint32_t scope = 0;
  uint32_t key = 0;
  DirectorySizes directory;
};

/// A peer said what it may not say. Its code: kProtocolError.
Status Violation(MessageType type, std::string_view what);

/// Compact JSON of all that is not raw. Output and Stdin have none: "{}".
std::string FieldsToJson(const Body& body);

/// The body of a control message of `type` without its raw part. Errors: kProtocolError.
Result<Body> FieldsFromJson(MessageType type, const Json& json, RawSizes& sizes);

}  // namespace hvdray::wire

#endif  // HVDRAY_WIRE_MESSAGE_FIELDS_H_
