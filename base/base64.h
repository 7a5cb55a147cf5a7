// SPDX-License-Identifier: Apache-2.0
// Strict base64 (RFC 4648, standard alphabet, padded). Pure.
#ifndef HVDRAY_BASE_BASE64_H_
#define HVDRAY_BASE_BASE64_H_

#include <string>

#include "base/result.h"
#include "base/types.h"

namespace hvdray {

/// Decodes `text` into at most `limit_bytes`. Errors: kKvRejected for characters outside the
/// alphabet (line ends and blanks too), missing or misplaced padding, spare bits that are not zero,
/// or more than `limit_bytes`.
Result<std::string> DecodeBase64(ByteView text, size_t limit_bytes);

/// The only text that DecodeBase64() accepts for `bytes`.
std::string EncodeBase64(ByteView bytes);

}  // namespace hvdray

#endif  // HVDRAY_BASE_BASE64_H_
