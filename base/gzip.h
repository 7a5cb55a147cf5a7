// SPDX-License-Identifier: Apache-2.0
// Compression by zlib: whole files in gzip's format, for staging
// (docs/adr/0006-staging-over-stdio.md), and short values.
#ifndef HVDRAY_BASE_GZIP_H_
#define HVDRAY_BASE_GZIP_H_

#include <string>

#include "base/result.h"
#include "base/types.h"

namespace hvdray {

/// One gzip member of all `bytes`. Takes about 40 ms per MB: not for the loop. Threads: any.
/// Errors: kOutOfResources.
Result<std::string> Gzip(const std::string& bytes);

/// A zlib stream (RFC 1950) of `bytes`, compressed for speed rather than size: the addresses of
/// 1,024 workers, 139 KB and mostly zeros, take less than a millisecond. Threads: any.
/// Errors: kOutOfResources.
Result<std::string> Deflate(ByteView bytes);

/// Unpacks what Deflate() made from `size` bytes. Allocates `size` bytes, so the caller limits it.
/// Threads: any. Errors: kProtocolError for a damaged stream or another size.
Result<std::string> Inflate(ByteView packed, size_t size);

}  // namespace hvdray

#endif  // HVDRAY_BASE_GZIP_H_
