// Strings and numbers as SSH puts them into bytes (RFC 4251, section 5). Pure.
#ifndef HVDRAY_CLUSTER_SSH_WIRE_TEXT_H_
#define HVDRAY_CLUSTER_SSH_WIRE_TEXT_H_

#include <cstdint>
#include <optional>
#include <string>

#include "base/types.h"

namespace hvdray {

inline void AppendSshUint32(std::string& out, uint32_t value) {
  for (int shift = 24; shift >= 0; shift -= 8) out.push_back(static_cast<char>(value >> shift));
}

inline void AppendSshString(std::string& out, ByteView bytes) {
  AppendSshUint32(out, static_cast<uint32_t>(bytes.size()));
  out += bytes;
}

/// Takes fields off the front of bytes from elsewhere; nullopt when they are too short.
class SshFields {
 public:
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
  /// A view into the bytes given.
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
