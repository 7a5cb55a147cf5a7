// SPDX-License-Identifier: Apache-2.0
// The one door to nlohmann JSON. Values keep the order in which they were written.
#ifndef HVDRAY_BASE_JSON_H_
#define HVDRAY_BASE_JSON_H_

#include <nlohmann/json.hpp>
#include <string>

#include "base/result.h"
#include "base/types.h"

namespace hvdray {

using Json = nlohmann::ordered_json;

/// Parses one document of at most `limit_bytes`, nested at most 64 deep, with at most 4096 keys an
/// object. Errors: kProtocolError with the byte offset; the caller adds what was being read.
Result<Json> ParseJson(ByteView text, size_t limit_bytes = size_t{1} << 20);

/// Compact for indent < 0. Bytes that are not UTF-8 become U+FFFD. Never throws.
std::string DumpJson(const Json& value, int indent = -1);

/// Typed look-ups that never throw: a missing key gives `fallback`; another type, or a number out
/// of the type's range, gives kProtocolError naming the key.
Result<int64_t> JsonInt(const Json& object, const char* key, int64_t fallback, int64_t min,
                        int64_t max);
Result<bool> JsonBool(const Json& object, const char* key, bool fallback);
Result<std::string> JsonString(const Json& object, const char* key, std::string fallback);

}  // namespace hvdray

#endif  // HVDRAY_BASE_JSON_H_
