// SPDX-License-Identifier: Apache-2.0
// The adapter of nlohmann JSON, which throws: nothing here does. Pure. Threads: any.
#ifndef HVDRAY_BASE_JSON_H_
#define HVDRAY_BASE_JSON_H_

#include <nlohmann/json.hpp>
#include <string>

#include "base/result.h"
#include "base/types.h"

namespace hvdray {

/// Objects keep the order in which their keys were written.
using Json = nlohmann::ordered_json;

/// Parses one document of at most `limit_bytes`, 64 levels and 4096 keys per object.
/// Errors: kProtocolError with the byte offset; the caller adds what it was reading.
Result<Json> ParseJson(ByteView text, size_t limit_bytes = size_t{1} << 20);

/// `indent`: blanks per level; negative: all on one line. Bytes that are not UTF-8 become U+FFFD.
std::string DumpJson(const Json& value, int indent = -1);

/// Typed look-ups in an object. A missing key gives `fallback`. Errors: kProtocolError, naming the
/// key, for another type or a number outside `min` to `max`.
Result<int64_t> JsonInt(const Json& object, const char* key, int64_t fallback, int64_t min,
                        int64_t max);
Result<bool> JsonBool(const Json& object, const char* key, bool fallback);
Result<std::string> JsonString(const Json& object, const char* key, std::string fallback);

}  // namespace hvdray

#endif  // HVDRAY_BASE_JSON_H_
