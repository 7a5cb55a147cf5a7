// SPDX-License-Identifier: Apache-2.0
// Strings and numbers in SSH's binary form (RFC 4251, section 5). Pure.
#ifndef HVDRAY_CLUSTER_SSH_WIRE_TEXT_H_
#define HVDRAY_CLUSTER_SSH_WIRE_TEXT_H_

#include <cstdint>
#include <optional>
#include <string>

#include "base/types.h"

namespace hvdray {

/// Appends 4 bytes, big-endian.
inline void AppendSshUint32(std::string& out, uint32_t value) {
  for (int shift = 24; shift >= 0; shift -= 8) out.push_back(static_cast<char>(value >> shift));
}

/// Appends the length as uint32, then the bytes.
inline void AppendSshString(std::string& out, ByteView bytes) {
  AppendSshUint32(out, static_cast<uint32_t>(bytes.size()));
  out += bytes;
}

/// Reads fields from the front of untrusted bytes. Each call returns nullopt, and takes nothing,
/// when the rest is too short.
class SshFields {
 public:
  /// `bytes` must outlive this object and all views that it returns.
  explicit SshFields(ByteView bytes) : rest_(bytes) {}

  std::optional<uint8_t> Byte() {
    if (rest_.empty()) return std::nullopt;
    const auto value = static_cast<uint8_t>(rest_[0]);
    rest_.remove_prefix(1);
    return value;
  }
  std::optional<uint32_t> Uint32() {
    if (rest_.size() < 4) return std::nullopt;
    uint32_t value = 0;
    for (int i = 0; i < 4; ++i) value = (value << 8) | static_cast<uint8_t>(rest_[i]);
    rest_.remove_prefix(4);
    return value;
  }
  /// A view into the constructor's bytes.
  std::optional<ByteView> String() {
    SshFields ahead = *this;
    const std::optional<uint32_t> size = ahead.Uint32();
    if (!size || *size > ahead.rest_.size()) return std::nullopt;
    const ByteView value = ahead.rest_.substr(0, *size);
    rest_ = ahead.rest_.substr(*size);
    return value;
  }
  ByteView rest() const { return rest_; }

 private:
  ByteView rest_;
};

}  // namespace hvdray

#endif  // HVDRAY_CLUSTER_SSH_WIRE_TEXT_H_
