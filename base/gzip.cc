// SPDX-License-Identifier: Apache-2.0
#include "base/gzip.h"

#include <fmt/format.h>
#include <zlib.h>

namespace hvdray {

Result<std::string> Gzip(const std::string& bytes) {
  z_stream stream{};
  constexpr int kGzipWindow = 15 + 16;  // plus 16: zlib writes a gzip header
  if (::deflateInit2(&stream, Z_DEFAULT_COMPRESSION, Z_DEFLATED, kGzipWindow, 8,
                     Z_DEFAULT_STRATEGY) != Z_OK) {
    return Status(ErrorCode::kOutOfResources, "deflate: out of memory");
  }
  std::string out(::deflateBound(&stream, bytes.size()), '\0');
  stream.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(bytes.data()));
  stream.avail_in = static_cast<uInt>(bytes.size());
  stream.next_out = reinterpret_cast<Bytef*>(out.data());
  stream.avail_out = static_cast<uInt>(out.size());
  const int result = ::deflate(&stream, Z_FINISH);
  out.resize(stream.total_out);
  ::deflateEnd(&stream);
  if (result != Z_STREAM_END) {
    return Status(ErrorCode::kOutOfResources, fmt::format("deflate: zlib error {}", result));
  }
  return out;
}

Result<std::string> Deflate(ByteView bytes) {
  uLongf size = ::compressBound(bytes.size());
  std::string out(size, '\0');
  const int result =
      ::compress2(reinterpret_cast<Bytef*>(out.data()), &size,
                  reinterpret_cast<const Bytef*>(bytes.data()), bytes.size(), Z_BEST_SPEED);
  if (result != Z_OK) {
    return Status(ErrorCode::kOutOfResources, fmt::format("deflate: zlib error {}", result));
  }
  out.resize(size);
  out.shrink_to_fit();
  return out;
}

Result<std::string> Inflate(ByteView packed, size_t size) {
  std::string out(size, '\0');
  uLongf got = size;
  const int result = ::uncompress(reinterpret_cast<Bytef*>(out.data()), &got,
                                  reinterpret_cast<const Bytef*>(packed.data()), packed.size());
  if (result == Z_OK && got == size) return out;
  return Status(ErrorCode::kProtocolError, fmt::format("inflate: zlib error {}", result));
}

}  // namespace hvdray
