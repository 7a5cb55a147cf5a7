// SPDX-License-Identifier: Apache-2.0
// The adapter of nlohmann JSON, which throws: nothing here does. Objects keep their keys in the
// order of insertion. Pure. Threads: any. Typed fields with ranges: json_fields.h.
#ifndef HVDRAY_BASE_JSON_H_
#define HVDRAY_BASE_JSON_H_

#include <nlohmann/json.hpp>
#include <string>

#include "base/result.h"
#include "base/types.h"

namespace hvdray {

/// Objects keep the order in which their keys were written.
using Json = nlohmann::ordered_json;

/// Parses one document of at most `limit_bytes`, at most 64 levels and at most 4096 keys per
/// object. The last of duplicate keys wins. Errors: kProtocolError with the byte offset; the caller
/// adds what was being read.
Result<Json> ParseJson(ByteView text, size_t limit_bytes = size_t{1} << 20);

/// Compact if `indent` < 0. Bytes that are not UTF-8 become U+FFFD. Never throws.
std::string DumpJson(const Json& value, int indent = -1);

}  // namespace hvdray

#endif  // HVDRAY_BASE_JSON_H_
