// Packing by zlib: files as gzip(1) does (ADR 0006), and short values.
#ifndef HVDRAY_BASE_GZIP_H_
#define HVDRAY_BASE_GZIP_H_

#include <string>

#include "base/result.h"
#include "base/types.h"

namespace hvdray {

/// One gzip member of all `bytes`. Takes some 40 ms a MB: not for the loop. Threads: any.
/// Errors: kOutOfResources.
Result<std::string> Gzip(const std::string& bytes);

/// A zlib stream (RFC 1950) of `bytes`, made fast rather than small: addresses of 1,024 workers,
/// 139 KB and mostly zeros, take less than a millisecond. Errors: kOutOfResources.
Result<std::string> Deflate(ByteView bytes);

/// What Deflate() packed, which were `size` bytes; never takes more memory than these. Errors:
/// kProtocolError when they are not.
Result<std::string> Inflate(ByteView packed, size_t size);

}  // namespace hvdray

#endif  // HVDRAY_BASE_GZIP_H_
