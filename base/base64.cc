// SPDX-License-Identifier: Apache-2.0
// Strict base64: each byte sequence has one valid text; all other text is refused.
#include "base/base64.h"

#include <fmt/format.h>

#include <array>
#include <cstdint>

namespace hvdray {
namespace {

constexpr std::string_view kAlphabet =
    "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

constexpr std::array<int8_t, 256> MakeDigits() {
  std::array<int8_t, 256> digits{};
  digits.fill(-1);
  for (size_t i = 0; i < kAlphabet.size(); ++i) {
    digits[static_cast<unsigned char>(kAlphabet[i])] = static_cast<int8_t>(i);
  }
  return digits;
}
constexpr std::array<int8_t, 256> kDigits = MakeDigits();

Status Refused(size_t offset, std::string_view why) {
  return {ErrorCode::kKvRejected, fmt::format("base64: {} at offset {}", why, offset)};
}

}  // namespace

Result<std::string> DecodeBase64(ByteView text, size_t limit_bytes) {
  if (text.size() % 4 != 0) return Refused(text.size(), "length is not a multiple of 4");
  if (text.empty()) return std::string();
  size_t padding = 0;
  if (text[text.size() - 1] == '=') padding = text[text.size() - 2] == '=' ? 2 : 1;
  const size_t decoded_size = text.size() / 4 * 3 - padding;
  if (decoded_size > limit_bytes) return Refused(0, fmt::format("over {} bytes", limit_bytes));

  std::string bytes;
  bytes.reserve(decoded_size);
  uint32_t bits = 0;
  int bit_count = 0;
  for (size_t i = 0; i < text.size() - padding; ++i) {
    const int8_t digit = kDigits[static_cast<unsigned char>(text[i])];
    if (digit < 0) return Refused(i, "character outside the alphabet");
    bits = (bits << 6) | static_cast<uint32_t>(digit);
    bit_count += 6;
    if (bit_count < 8) continue;
    bit_count -= 8;
    bytes.push_back(static_cast<char>((bits >> bit_count) & 0xFFu));
  }
  if ((bits & ((1u << bit_count) - 1)) != 0) return Refused(text.size(), "spare bits are not zero");
  return bytes;
}

std::string EncodeBase64(ByteView bytes) {
  std::string text;
  text.reserve((bytes.size() + 2) / 3 * 4);
  for (size_t i = 0; i < bytes.size(); i += 3) {
    const ByteView group = bytes.substr(i, 3);
    uint32_t bits = 0;
    for (size_t j = 0; j < 3; ++j) {
      bits = (bits << 8) | (j < group.size() ? static_cast<unsigned char>(group[j]) : 0u);
    }
    for (size_t j = 0; j < 4; ++j) {
      const bool is_padding = j > group.size();
      text.push_back(is_padding ? '=' : kAlphabet[(bits >> (18 - 6 * j)) & 0x3Fu]);
    }
  }
  return text;
}

}  // namespace hvdray
