// SPDX-License-Identifier: Apache-2.0
#include "base/gzip.h"

#include <gtest/gtest.h>
#include <zlib.h>

#include <cstdint>
#include <string>

namespace hvdray {
namespace {

TEST(GzipTest, WhatWasPackedComesOutAgain) {
  std::string bytes;
  for (uint32_t i = 0; i < 100000; ++i) bytes += static_cast<char>((i * i) >> 3);
  const Result<std::string> packed = Gzip(bytes);
  ASSERT_TRUE(packed.ok());
  std::string out(bytes.size() + 1, '\0');
  z_stream stream{};
  ASSERT_EQ(::inflateInit2(&stream, 15 + 16), Z_OK);
  stream.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(packed->data()));
  stream.avail_in = static_cast<uInt>(packed->size());
  stream.next_out = reinterpret_cast<Bytef*>(out.data());
  stream.avail_out = static_cast<uInt>(out.size());
  EXPECT_EQ(::inflate(&stream, Z_FINISH), Z_STREAM_END);
  out.resize(stream.total_out);
  ::inflateEnd(&stream);
  EXPECT_EQ(out, bytes);
}

TEST(DeflateTest, WhatWasPackedComesOutAgainAndNothingElseDoes) {
  const std::string bytes(139'264, '\0');
  const std::string packed = Deflate(bytes).value();
  EXPECT_LT(packed.size(), 1'000U);
  EXPECT_EQ(Inflate(packed, bytes.size()).value(), bytes);
  for (const size_t wrong : {size_t{0}, bytes.size() - 1, bytes.size() + 1}) {
    EXPECT_EQ(Inflate(packed, wrong).status().code(), ErrorCode::kProtocolError) << wrong;
  }
  EXPECT_FALSE(Inflate("nonsense", 10).ok());
  EXPECT_FALSE(Inflate(ByteView(packed).substr(0, packed.size() / 2), bytes.size()).ok());
  EXPECT_EQ(Inflate(Deflate("").value(), 0).value(), "");
}

}  // namespace
}  // namespace hvdray
