// Packing as gzip(1) does, by zlib (ADR 0006).
#ifndef HVDRAY_BASE_GZIP_H_
#define HVDRAY_BASE_GZIP_H_

#include <string>

#include "base/result.h"

namespace hvdray {

/// One gzip member of all `bytes`. Takes some 40 ms a MB: not for the loop. Threads: any.
/// Errors: kOutOfResources.
Result<std::string> Gzip(const std::string& bytes);

}  // namespace hvdray

#endif  // HVDRAY_BASE_GZIP_H_
